// SPDX-License-Identifier: Apache-2.0
// gpuwarden env check: the doctor's checks of what chooses a toolkit, and nothing else.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands/env_parts.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/toolkits/toolkits.hpp"
#include "machine.hpp"
#include "render/doctor_text.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

using doctor::Severity;

/// What is in use, in a line each.
std::string in_use(const facts::Environment& software) {
  std::string text;
  for (const auto& toolkit : software.toolkits) {
    const auto reasons = toolkits::reasons_in_use(toolkit);
    if (reasons.empty()) continue;
    text += fmt::format("CUDA {} ({}): {}\n", printable(toolkit.version), printable(toolkit.path), join(reasons, "; "));
  }
  for (const auto& python : software.pythons) {
    if (!python.active || !python.torch_cuda) continue;
    const auto* torch = facts::find_package(python, "torch");
    text += fmt::format("PyTorch {} in {}: built {}\n", torch == nullptr ? "" : printable(torch->version),
                        printable(python.path),
                        python.torch_cuda->empty() ? "without CUDA" : "with CUDA " + printable(*python.torch_cuda));
  }
  return text.empty() ? "no CUDA toolkit and no PyTorch is in use\n" : text;
}

}  // namespace

Result<int> env_check(Context& context) {
  GPUWARDEN_CHECK(check_no_operand(context, "check"));
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto snapshot, look_around(context, true));
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  const auto examination = doctor::examine(snapshot, knowledge, {}, doctor::toolkit_choice());
  if (context.args.has("json")) {
    print_json(doctor::to_json(examination));
  } else {
    fmt::print("{}{}", in_use(toolkits::software_of(snapshot)),
               doctor_text(examination, "what chooses CUDA", false, style));
  }
  return examination.worst >= Severity::warning ? kNo : kFine;
}

}  // namespace gpuwarden::cli
