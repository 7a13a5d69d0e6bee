// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "figures.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/gpu_names.hpp"
#include "gpuwarden/knowledge/usable_memory.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {
namespace {

using knowledge::GpuModel;

constexpr std::size_t kLongestSpec = 200;

/// GDDR memory that can correct errors gives some of itself to that.
constexpr std::string_view kEccOnGddr[] = {"T4", "A2", "A10", "A10G", "A16", "A40", "L2", "L4", "L20", "L40", "L40S"};

bool corrects_errors_in_gddr(std::string_view name) {
  const auto words = split_words(name);
  return !words.empty() && std::ranges::find(kEccOnGddr, words.back()) != std::end(kEccOnGddr);
}

/// What `text` counts, and the rest of it.
struct Counted {
  std::uint32_t count = 1;
  std::string name;
};

Result<Counted> split_count(std::string_view text) {
  const std::string_view trimmed = trim(text);
  const std::size_t digits = std::min(trimmed.find_first_not_of("0123456789"), trimmed.size());
  std::string_view rest = trim(trimmed.substr(digits));
  // "4090" is a name, "8x4090" and "8 h100" are counts.
  const bool sign = !rest.empty() && (rest.front() == 'x' || rest.front() == 'X' || rest.front() == '*');
  if (digits == 0 || (!sign && trimmed.substr(digits, 1) != " ")) return Counted{1, std::string(trimmed)};
  if (sign) rest = trim(rest.substr(1));
  const auto count = parse_integer(trimmed.substr(0, digits));
  if (!count || *count < 1 || *count > kMostGpus)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}': {} GPUs; 1 to {} can be planned for", printable(text),
                                                         trimmed.substr(0, digits), kMostGpus));
  return Counted{static_cast<std::uint32_t>(*count), std::string(rest)};
}

const GpuModel* model_named(const std::string& name) {
  const auto models = knowledge::models_named(knowledge::Knowledge::built_in(), name);
  return models.empty() ? nullptr : models[0];
}

Error unknown_gpu(const std::string& name, const std::string& without_count) {
  for (const std::string& one : {without_count, name}) {
    if (auto other = knowledge::refusal_of_other_makers(one)) return *std::move(other);
    if (auto other = knowledge::refusal_of_memory(knowledge::Knowledge::built_in(), one)) return *std::move(other);
  }
  const std::string close = knowledge::nearest_gpu_name(knowledge::Knowledge::built_in(), name);
  return {ErrorCode::not_found, fmt::format("no GPU model '{}' is known", printable(name)),
          close.empty() ? "for example 8xh100, 4xa100-40gb, rtx4090, l40s" : fmt::format("did you mean '{}'?", close)};
}

Bytes usable_of(const facts::GpuRecord& record) {
  const auto& sample = record.sample;
  if (!sample.memory_total) {
    const GpuModel* const model = knowledge::Knowledge::built_in().model(record.gpu.name);
    return model != nullptr ? gpus_of(*model).usable : Bytes{};
  }
  const Bytes reserved = sample.memory_reserved.value_or(Bytes{});
  return reserved < *sample.memory_total ? *sample.memory_total - reserved : *sample.memory_total;
}

/// "h100:8" as Slurm and SkyPilot write it, and "h100x8": the count behind the name.
Result<Counted> split_count_behind(std::string_view text) {
  const std::string_view trimmed = trim(text);
  const std::size_t last = trimmed.find_last_not_of("0123456789");
  if (last == std::string_view::npos || last == 0 || last + 1 == trimmed.size())
    return Counted{1, std::string(trimmed)};
  const char sign = trimmed[last];
  // The x of "rtx9999" and "GTX 1630" is the series' own.
  const std::string before = to_lower(trimmed.substr(0, last + 1));
  if (before.ends_with("rtx") || before.ends_with("gtx")) return Counted{1, std::string(trimmed)};
  if (sign != ':' && sign != 'x' && sign != 'X' && sign != '*') return Counted{1, std::string(trimmed)};
  // As if the count stood before.
  return split_count(fmt::format("{}x{}", trimmed.substr(last + 1), trim(trimmed.substr(0, last))));
}

/// "4xrtx5090,2xrtx3090": the first of several that are known by name; empty where it is one.
std::string first_of_several(std::string_view text) {
  std::string_view parts = text.substr(0, kLongestSpec);
  std::string first;
  while (true) {
    const std::size_t cut = std::min(parts.find_first_of(",+;"), parts.size());
    const auto counted = split_count(parts.substr(0, cut));
    const auto behind = split_count_behind(parts.substr(0, cut));
    const bool known =
        (counted && model_named(counted->name) != nullptr) || (behind && model_named(behind->name) != nullptr);
    if (!known) return "";
    if (cut == parts.size()) return first;
    if (first.empty()) first = trim(parts.substr(0, cut));
    parts.remove_prefix(cut + 1);
  }
}

}  // namespace

GpuGroup gpus_of(const GpuModel& model) {
  GpuGroup group{.name = std::string(model.name),
                 .fp32_tflops = model.fp32_tflops,
                 .tf32_tflops = model.tf32_dense_tflops,
                 .fp16_tflops = model.fp16_dense_tflops,
                 .bf16_tflops = model.bf16_dense_tflops,
                 .fp8_tflops = model.fp8_dense_tflops,
                 .memory_bandwidth_gb_s = model.memory_bandwidth_gb_s,
                 .nvlink_gb_s = model.nvlink_gb_s,
                 .capability_major = model.capability_major,
                 .capability_minor = model.capability_minor,
                 .source = std::string(model.source)};
  const knowledge::UsableMemory* const measured = knowledge::find_usable_memory(model.name);
  group.usable_measured = measured != nullptr;
  const bool corrects = corrects_errors_in_gddr(model.name);
  const double share = corrects ? figures().usable_share_ecc : figures().usable_share;
  const double gib = group.usable_measured ? measured->gib : model.memory_gb * share;
  group.usable = Bytes(static_cast<std::uint64_t>(gib * kBytesPerGiB));
  return group;
}

Result<GpuGroup> gpus_named(std::string_view text) {
  if (const std::string first = first_of_several(text); !first.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}': GPUs of several kinds are not planned together", printable(text)),
                fmt::format("plan for each kind apart: {}", printable(first)));
  GPUWARDEN_TRY(Counted counted, split_count(text));
  const GpuModel* model = model_named(counted.name);
  std::string without_count = counted.name;
  if (model == nullptr && counted.count == 1) {
    GPUWARDEN_TRY(Counted behind, split_count_behind(text));
    model = model_named(behind.name);
    without_count = behind.name;
    if (model != nullptr) counted = std::move(behind);
  }
  if (model == nullptr) return std::unexpected(unknown_gpu(counted.name, without_count));
  GpuGroup group = gpus_of(*model);
  group.count = counted.count;
  return group;
}

Result<GpuGroup> gpus_of(const facts::Snapshot& snapshot) {
  std::map<std::pair<std::string, std::uint64_t>, std::uint32_t> kinds;
  bool divided = false;
  std::string_view without_memory;
  for (const auto& record : snapshot.gpus) {
    if (!facts::is_usable(record)) continue;
    if (usable_of(record) == Bytes{}) {
      without_memory = record.gpu.name;
      continue;
    }
    // CUDA does not use the whole of a GPU whose MIG is on.
    if (record.gpu.mig_enabled.value_or(false))
      divided = true;
    else
      ++kinds[{record.gpu.name, usable_of(record).value}];
  }
  if (kinds.empty() && divided)
    return fail(ErrorCode::unsatisfied, "MIG is on: only instances can be used, and a plan joins whole GPUs",
                "for an instance: gpuwarden select --mig --model NAME; or name GPUs: --gpus 8xh100");
  if (kinds.empty() && !without_memory.empty())
    return fail(ErrorCode::unsatisfied,
                fmt::format("how much memory {} has is neither reported nor known", printable(without_memory)),
                "name one like it: --gpus rtx4090");
  if (kinds.empty())
    return fail(ErrorCode::unsatisfied, "no GPU that could be planned for: none answers and reports its memory",
                "name them: --gpus 8xh100");
  const auto most =
      std::ranges::max_element(kinds, {}, [](const auto& kind) { return kind.first.second * kind.second; });
  const GpuModel* const model = knowledge::Knowledge::built_in().model(most->first.first);
  GpuGroup group = model != nullptr ? gpus_of(*model) : GpuGroup{};
  group.name = most->first.first;
  group.count = most->second;
  group.usable_measured =
      group.usable_measured || std::ranges::any_of(snapshot.gpus, [&](const facts::GpuRecord& record) {
        return record.gpu.name == group.name && record.sample.memory_total.has_value();
      });
  group.usable = Bytes(most->first.second);
  return group;
}

std::vector<std::string> gpus_left_unsaid(const facts::Snapshot& snapshot, const GpuGroup& group) {
  std::vector<std::string> sentences;
  for (const auto& record : snapshot.gpus) {
    if (record.gpu.name != group.name) continue;
    const std::string name = fmt::format("GPU {}", record.gpu.index.value);
    const std::optional<Bytes> used = record.sample.memory_used;
    if (!facts::is_usable(record)) {
      sentences.push_back(
          fmt::format("{} is not counted: {}", name,
                      record.cause.empty() ? std::string(facts::to_string(record.state)) : record.cause));
    } else if (record.gpu.mig_enabled.value_or(false)) {
      sentences.push_back(fmt::format("{} is not counted: MIG divides it", name));
    } else if (used && *used > kIdleMemory) {
      sentences.push_back(fmt::format("{} is counted as free, though {} of it are in use", name, format_size(*used)));
    }
  }
  return sentences;
}

}  // namespace gpuwarden::planning
