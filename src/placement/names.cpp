// SPDX-License-Identifier: Apache-2.0
#include "placement/names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/placement/names.hpp"

namespace gpuwarden::placement {
namespace {

/// "17:00.0" and "0000:17:00.0" are ends of "00000000:17:00.0".
bool is_bus_id(std::string_view text, const facts::GpuRecord& record) {
  return text.contains(':') && text.contains('.') && to_lower(record.gpu.pci_bus_id).ends_with(to_lower(text));
}

Error no_such_gpu(const GpuName& name, const facts::Snapshot& snapshot) {
  return {ErrorCode::invalid_argument, fmt::format("there is no GPU '{}'", printable(name.text)),
          snapshot.gpus.empty() ? "this machine has no GPU" : "there are: " + describe_gpus(snapshot)};
}

Result<Uuid> resolve_one(const GpuName& name, const facts::Snapshot& snapshot) {
  if (const auto index = parse_integer(name.text)) {
    for (const auto& record : snapshot.gpus) {
      if (record.gpu.index.value == *index) return identity_of(record);
    }
  }
  for (const auto& record : snapshot.gpus) {
    if (is_bus_id(name.text, record)) return identity_of(record);
  }
  const auto found = uuids_with_prefix(name.text, snapshot);
  if (found.size() == 1) return found[0];
  if (found.size() > 1) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is not unique: it fits {} GPUs", printable(name.text), found.size()),
                "write more of the UUID");
  }
  return std::unexpected(no_such_gpu(name, snapshot));
}

/// More than one GPU may be meant.
bool is_meant(const facts::GpuRecord& record, const std::string& name) {
  if (const auto index = parse_integer(name)) return record.gpu.index.value == *index;
  const std::string wanted = to_lower(name);
  const bool uuid = wanted.size() > 4 && to_lower(record.gpu.uuid.value).starts_with(wanted);
  return uuid || (wanted.contains(':') && to_lower(record.gpu.pci_bus_id).ends_with(wanted));
}

}  // namespace

std::vector<Uuid> uuids_with_prefix(std::string_view text, const facts::Snapshot& snapshot) {
  std::vector<Uuid> found;
  const std::string wanted = to_lower(text);
  const auto add = [&](const Uuid& uuid) {
    if (!uuid.value.empty() && to_lower(uuid.value).starts_with(wanted)) found.push_back(uuid);
  };
  // At least a character beyond the kind: "GPU-" alone would fit anything.
  if (wanted.size() <= 4 || (!wanted.starts_with("gpu-") && !wanted.starts_with("mig-"))) return found;
  for (const auto& record : snapshot.gpus) {
    add(record.gpu.uuid);
    for (const auto& mig : record.mig_devices) add(mig.uuid);
  }
  const auto exact = std::ranges::find_if(found, [&](const Uuid& uuid) { return to_lower(uuid.value) == wanted; });
  return exact != found.end() ? std::vector<Uuid>{*exact} : found;
}

std::string describe_gpus(const facts::Snapshot& snapshot) {
  std::vector<std::string> names;
  for (const auto& record : snapshot.gpus)
    names.push_back(fmt::format("{} ({})", record.gpu.index.value, record.gpu.name));
  return join(names, ", ");
}

Result<std::vector<Uuid>> resolve(const std::vector<GpuName>& names, const facts::Snapshot& snapshot) {
  std::vector<Uuid> uuids;
  for (const GpuName& name : names) {
    GPUWARDEN_TRY(const Uuid uuid, resolve_one(name, snapshot));
    uuids.push_back(uuid);
  }
  return uuids;
}

std::vector<GpuName> expand_ranges(const std::vector<std::string>& names) {
  constexpr std::int64_t kMost = 4096;
  std::vector<GpuName> all;
  for (const std::string& name : names) {
    const auto ends = split(name, '-');
    const auto first = parse_integer(ends.front());
    const auto last = ends.size() == 2 ? parse_integer(ends.back()) : std::nullopt;
    if (!first || !last || *first > *last || *last - *first >= kMost) {
      all.push_back({name});
      continue;
    }
    for (std::int64_t index = *first; index <= *last; ++index) all.push_back({std::to_string(index)});
  }
  return all;
}

Result<void> keep_named(const std::vector<GpuName>& names, facts::Snapshot& snapshot) {
  if (names.empty()) return {};
  for (const GpuName& name : names) {
    if (std::ranges::none_of(snapshot.gpus, [&](const auto& record) { return is_meant(record, name.text); }))
      return std::unexpected(no_such_gpu(name, snapshot));
  }
  std::erase_if(snapshot.gpus, [&](const facts::GpuRecord& record) {
    return std::ranges::none_of(names, [&](const GpuName& name) { return is_meant(record, name.text); });
  });
  return {};
}

Visibility visibility_from(const Environment& environment) {
  Visibility visibility;
  if (const auto at = environment.find("CUDA_VISIBLE_DEVICES"); at != environment.end())
    visibility.cuda_visible_devices = at->second;
  if (const auto at = environment.find("CUDA_DEVICE_ORDER"); at != environment.end())
    visibility.cuda_device_order = at->second;
  return visibility;
}

}  // namespace gpuwarden::placement
