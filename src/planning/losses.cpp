// SPDX-License-Identifier: Apache-2.0
// What the loss keeps: the knowledge base's rows by kernel, framework and circumstance, looked up once.
#include <array>
#include <string_view>
#include <utility>

#include "equations.hpp"
#include "gpuwarden/knowledge/loss_memory.hpp"

namespace gpuwarden::planning {

namespace {

enum class When { any, keeps_low, keeps_low_autocast, tensor_parallel };
constexpr std::string_view kWhens[] = {"any", "keeps_low", "keeps_low_autocast", "tensor_parallel"};
constexpr std::size_t kKernels = 6;
constexpr std::size_t kFrameworks = 6;
constexpr std::size_t kWhenCount = 4;
using Table = std::array<std::array<std::array<LossBytes, kWhenCount>, kFrameworks>, kKernels>;

LossBytes row_for(LossKernel kernel, Framework framework, std::string_view when) {
  for (const knowledge::LossMemory& row : knowledge::loss_memories()) {
    const bool same_kernel = row.kernel == to_string(kernel);
    const bool same_framework = row.framework == "any" || row.framework == to_string(framework);
    const bool same_case = row.when == "any" || row.when == when;
    if (same_kernel && same_framework && same_case) return {row.per_logit, row.per_hidden};
  }
  return {};
}

Table read_rows() {
  Table rows{};
  for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
    for (std::size_t framework = 0; framework < kFrameworks; ++framework) {
      for (std::size_t when = 0; when < kWhenCount; ++when) {
        rows[kernel][framework][when] =
            row_for(static_cast<LossKernel>(kernel), static_cast<Framework>(framework), kWhens[when]);
      }
    }
  }
  return rows;
}

const Table& table() {
  static const Table kTable = read_rows();
  return kTable;
}

/// Models whose code never makes fp32 logits: their loss is what autocast makes of it.
bool keeps_low(const ModelShape& model) { return model.family == "gpt_bigcode"; }

When when_of(const ModelShape& model, const Settings& settings) {
  const bool autocast = settings.precision == Precision::mixed || settings.precision == Precision::mixed_low;
  if (keeps_low(model)) return autocast ? When::keeps_low_autocast : When::keeps_low;
  return settings.parallel.tensor > 1 ? When::tensor_parallel : When::any;
}

/// Sequence parallelism gathers the head's input, and has its gradient whole.
bool gathers_sequence(const Settings& settings) {
  const bool gathers = settings.framework == Framework::torchtitan || settings.framework == Framework::megatron;
  return gathers && settings.parallel.tensor > 1 && settings.parallel.sequence_parallel;
}

}  // namespace

LossBytes loss_bytes(const ModelShape& model, const Settings& settings) {
  LossBytes bytes = table()[static_cast<std::size_t>(settings.loss)][static_cast<std::size_t>(settings.framework)]
                           [static_cast<std::size_t>(when_of(model, settings))];
  if (gathers_sequence(settings)) bytes.per_hidden *= settings.parallel.tensor;
  return bytes;
}

}  // namespace gpuwarden::planning
