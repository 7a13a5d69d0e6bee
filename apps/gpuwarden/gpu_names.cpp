// SPDX-License-Identifier: Apache-2.0
#include "gpu_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

using facts::GpuRecord;

bool is_meant(const GpuRecord& record, const std::string& name) {
  if (const auto index = parse_integer(name)) return record.gpu.index.value == *index;
  const std::string wanted = to_lower(name);
  const bool uuid = wanted.size() > 4 && to_lower(record.gpu.uuid.value).starts_with(wanted);
  return uuid || (wanted.contains(':') && to_lower(record.gpu.pci_bus_id).ends_with(wanted));
}

}  // namespace

Result<void> keep_named(const std::vector<std::string>& typed, facts::Snapshot& snapshot) {
  const auto names = expand_ranges(typed);
  if (names.empty()) return {};
  for (const std::string& name : names) {
    if (std::ranges::any_of(snapshot.gpus, [&](const GpuRecord& record) { return is_meant(record, name); })) continue;
    std::vector<std::string> known;
    for (const GpuRecord& record : snapshot.gpus)
      known.push_back(fmt::format("{} ({})", record.gpu.index.value, record.gpu.name));
    return fail(ErrorCode::invalid_argument, fmt::format("there is no GPU '{}'", printable(name)),
                known.empty() ? "this machine has no GPU" : "there are: " + join(known, ", "));
  }
  std::erase_if(snapshot.gpus, [&](const GpuRecord& record) {
    return std::ranges::none_of(names, [&](const std::string& name) { return is_meant(record, name); });
  });
  return {};
}

}  // namespace gpuwarden::cli
