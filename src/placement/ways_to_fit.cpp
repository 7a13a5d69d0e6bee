// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/ways_to_fit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/planning/gpu_count.hpp"

namespace gpuwarden::placement {
namespace {

/// Whether fewer GPUs can be had, now or later, than were asked for: a smaller model would not help.
bool asks_for_too_many(const Request& request, const Decision& decision) {
  const std::size_t asked = request.gpu_ids.empty() ? request.count.value_or(0) : request.gpu_ids.size();
  const auto can_be_had = std::ranges::count_if(
      decision.verdicts, [](const Verdict& verdict) { return verdict.reason.empty() || verdict.transient; });
  return asked > static_cast<std::size_t>(can_be_had);
}

}  // namespace

std::string ways_to_enable(const Decision& decision) {
  std::string names;
  for (const Verdict& verdict : decision.verdicts) {
    if (verdict.kind != Verdict::Kind::disabled) continue;
    names += ' ';
    names += verdict.device.mig ? verdict.device.uuid.value : std::to_string(verdict.device.index.value);
  }
  if (names.empty() || decision.satisfied || decision.may_come_true) return "";
  return fmt::format("gpuwarden enable{} puts {} back into use", names, names.rfind(' ') == 0 ? "it" : "them");
}

std::string ways_to_fit(const Request& request, const Inputs& inputs, const Decision& decision) {
  if (auto enabling = ways_to_enable(decision); !enabling.empty()) return enabling;
  const bool has_model = request.work || request.model_size;
  if (!has_model || decision.satisfied || decision.may_come_true) return "";
  if (asks_for_too_many(request, decision)) return "";
  const auto plan = plan_if_free(request, inputs);
  if (!plan) return plan.error().hint;
  std::string text;
  for (const std::string& way : planning::ways_to_fit(plan->search)) text += "\n  " + way;
  if (!text.empty()) return "what would make it fit, cheapest first:" + text;
  if (request.mig || request.mig_profile) return "an instance holds a whole model or none; whole GPUs can share one";
  if (!plan->search.smallest_gpus) return "";
  const std::uint32_t fewest = *plan->search.smallest_gpus;
  return fewest == 1 ? "one GPU of this kind is enough" : fmt::format("{} GPUs of this kind are enough", fewest);
}

}  // namespace gpuwarden::placement
