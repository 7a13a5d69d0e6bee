// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/typed_values.hpp"
#include "gpuwarden/placement/names.hpp"

namespace gpuwarden::placement {
namespace {

using Values = std::vector<std::string>;

constexpr std::uint32_t kMostGpus = 4096;

std::string text_of(const Values& values) { return values.empty() ? "" : values.front(); }

std::unexpected<Error> no_value(std::string what, std::string hint = {}) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
}

/// A list that was given must name something.
Result<std::vector<GpuName>> names_in(const Values& values) {
  std::vector<std::string> names;
  for (const std::string& value : values) {
    for (const auto piece : split(value, ',')) names.emplace_back(trim(piece));
  }
  for (const std::string& name : names) {
    if (name.empty()) return no_value("an empty entry", "write ids with commas between, for example 0,2");
  }
  if (names.empty()) return no_value("no GPU is given");
  return expand_ranges(names);
}

Result<facts::ComputeCapability> capability_in(const std::string& text) {
  const auto capability = facts::compute_capability_from(text.contains('.') ? text : text + ".0");
  if (capability) return *capability;
  return no_value(fmt::format("'{}' is not a compute capability", printable(text)), "for example 8.0");
}

Result<Percent> percent_in(std::string text) {
  constexpr std::uint32_t kMost = 100;
  if (text.ends_with('%')) text.pop_back();
  GPUWARDEN_TRY(const std::uint32_t percent, parse_count(text, kMost));
  return Percent(percent);
}

/// "cpu", "cuda", or "cuda:1".
Result<void> set_device(const std::string& device, Request& request) {
  const auto index = device.starts_with("cuda:") ? parse_integer(std::string_view(device).substr(5)) : std::nullopt;
  if (device != "cpu" && device != "cuda" && !(index && *index >= 0))
    return no_value(fmt::format("'{}' is not cpu, cuda or cuda:N", printable(device)));
  request.force_cpu = device == "cpu";
  if (index && request.gpu_ids.empty() && !request.all) request.gpu_ids = {{std::to_string(*index)}};
  return {};
}

/// One value, and what it sets.
struct SelectionRow {
  ValueName value;
  Result<void> (*set)(const Values& values, Request& request);
};

template <auto Member>
Result<void> set_flag(const Values& values, Request& request) {
  request.*Member = values != Values{"false"};
  return {};
}
template <auto Member>
Result<void> set_names(const Values& values, Request& request) {
  GPUWARDEN_TRY(request.*Member, names_in(values));
  return {};
}
template <auto Member>
Result<void> set_size(const Values& values, Request& request) {
  GPUWARDEN_TRY(request.*Member, parse_meant_size(text_of(values)));
  return {};
}
template <auto Member>
Result<void> set_text(const Values& values, Request& request) {
  request.*Member = text_of(values);
  return {};
}

Result<void> set_count(const Values& values, Request& request) {
  GPUWARDEN_TRY(const CountRange count, parse_count_range(text_of(values), kMostGpus));
  request.count = count.most;
  return {};
}
Result<void> set_capability(const Values& values, Request& request) {
  GPUWARDEN_TRY(request.min_compute_capability, capability_in(text_of(values)));
  return {};
}
Result<void> set_utilization(const Values& values, Request& request) {
  GPUWARDEN_TRY(request.max_utilization, percent_in(text_of(values)));
  return {};
}

/// In the order in which they are set: a device's number counts where nothing before it says which GPUs.
constexpr auto kRows = std::to_array<SelectionRow>({
    {{"gpu-ids", ValueKind::list}, set_names<&Request::gpu_ids>},
    {{"prefer", ValueKind::list}, set_names<&Request::prefer>},
    {{"exclude", ValueKind::list}, set_names<&Request::exclude>},
    {{"num-gpus", ValueKind::count}, set_count},
    {{"all", ValueKind::flag}, set_flag<&Request::all>},
    {{"min-memory", ValueKind::size}, set_size<&Request::min_memory>},
    {{"min-free-memory", ValueKind::size}, set_size<&Request::min_free_memory>},
    {{"min-compute-capability", ValueKind::count}, set_capability},
    {{"max-utilization", ValueKind::count}, set_utilization},
    {{"name", ValueKind::text}, set_text<&Request::name_contains>},
    {{"mig", ValueKind::flag}, set_flag<&Request::mig>},
    {{"mig-profile", ValueKind::text}, set_text<&Request::mig_profile>},
    {{"share", ValueKind::flag}, set_flag<&Request::shared>},
    {{"allow-busy", ValueKind::flag}, set_flag<&Request::allow_busy>},
    {{"device", ValueKind::text},
     [](const Values& values, Request& request) { return set_device(text_of(values), request); }},
});

constexpr auto kNames = [] {
  std::array<ValueName, kRows.size()> names{};
  std::ranges::transform(kRows, names.begin(), &SelectionRow::value);
  return names;
}();

}  // namespace

std::span<const ValueName> selection_names() { return kNames; }

Result<void> apply_selection(const NamedValues& values, Request& request) {
  for (const SelectionRow& row : kRows) {
    const std::string name(row.value.name);
    if (!values.has(name)) continue;
    const auto set = row.set(values.all(name), request);
    if (!set) return std::unexpected(values.about(name, set.error()));
  }
  return {};
}

Result<std::optional<std::uint32_t>> apply_count(const NamedValues& values, Request& request) {
  GPUWARDEN_TRY(auto count, range_option(values, "num-gpus", kMostGpus));
  // A range of ranks has a GPU for each.
  if (values.text("nproc-per-node").value_or("").contains(':')) {
    GPUWARDEN_TRY(const auto ranks, range_option(values, "nproc-per-node", kMostGpus));
    if (count && ranks && *count != *ranks)
      return values.refuse("--num-gpus and --nproc-per-node name different ranges",
                           "a range of ranks has a GPU for each: leave out --num-gpus");
    count = ranks;
  }
  if (!count) return std::nullopt;
  request.count = count->most;
  if (count->least == count->most) return std::nullopt;
  if (!request.gpu_ids.empty())
    return values.refuse("GPUs that are named and a range of them cannot be used together", "leave out one of the two");
  if (values.has("model") || values.has("model-size"))
    return values.refuse("a range of GPUs and a model cannot be used together", "name one number of GPUs");
  return count->least;
}

}  // namespace gpuwarden::placement
