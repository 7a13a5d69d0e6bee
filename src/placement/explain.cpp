// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>

#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::placement {
namespace {

std::string outcome(const Verdict& verdict) {
  if (verdict.chosen) return "chosen";
  return "no: " + (verdict.reason.empty() ? "would do, but the rest is missing" : verdict.reason);
}

}  // namespace

std::string explain(const Decision& decision) {
  std::string text;
  for (const Verdict& verdict : decision.verdicts) {
    const std::string mig = verdict.device.mig ? fmt::format(" MIG {}", *verdict.device.mig) : "";
    text += fmt::format("GPU {}{} {}: {}\n", verdict.device.index.value, mig, verdict.device.name, outcome(verdict));
  }
  return text;
}

}  // namespace gpuwarden::placement
