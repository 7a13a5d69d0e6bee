// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpuwarden/knowledge/advice.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden::knowledge;
  const auto result = Knowledge::built_in().with_overlay({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!result) {
    if (result.error().message.empty()) std::abort();
    return 0;
  }
  // What was accepted must be fit to be asked.
  const Situation situation{.gpu = "NVIDIA H100 PCIe",
                            .architecture = "Hopper",
                            .capability = 90,
                            .workload = "a",
                            .driver = Version{550, 54, 15},
                            .gpus_requested = 4,
                            .gpus_used = 1};
  for (const RuleHit& hit : judge(result->rules(), situation)) {
    if (hit.message.empty() && hit.rule->message.empty()) std::abort();
  }
  for (const GpuModel& model : result->models())
    static_cast<void>(driver_needs(*result, model, result->newest_toolkit(), "a", {}).sources.size());
  static_cast<void>(newest_torch_for(*result, {90}, situation.driver));
  if (const GpuModel* model = result->model("NVIDIA H100 PCIe"))
    static_cast<void>(is_served_by_newest(*result, *model));
  return 0;
}
