// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/gpu_uses.hpp"

#include <algorithm>
#include <cctype>

#include "gpuwarden/base/text.hpp"
#include "knowledge/names.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr GpuUse kUses[] = {
#include "knowledge/uses.inc"
};

/// "H20" begins "H20-3e" and not "H200"; a last word of one character stands for a
/// series: "Tesla K" begins "Tesla K80", "GeForce GTX 9" begins "GeForce GTX 980".
bool begins(std::string_view name, std::string_view beginning) {
  constexpr std::string_view kOld = "Tesla ";
  if (!beginning.starts_with(kOld) && name.starts_with(kOld)) name.remove_prefix(kOld.size());
  if (!name.starts_with(beginning)) return false;
  const std::string_view rest = name.substr(beginning.size());
  const bool series = beginning.size() > 2 && beginning[beginning.size() - 2] == ' ';
  return rest.empty() || series || std::isalnum(static_cast<unsigned char>(rest.front())) == 0;
}

}  // namespace

std::span<const GpuUse> gpu_uses() { return kUses; }

const GpuUse* find_gpu_use(std::string_view nvml_name) {
  const std::string_view name = without_maker(nvml_name);
  const auto* const found = std::ranges::find_if(kUses, [&](const GpuUse& use) {
    return std::ranges::any_of(split(use.names, ';'), [&](std::string_view one) { return begins(name, one); });
  });
  return found == std::end(kUses) ? nullptr : found;
}

}  // namespace gpuwarden::knowledge
