// SPDX-License-Identifier: Apache-2.0
#include "placement/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/indices.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/placement/names.hpp"

namespace gpuwarden::placement {
namespace {

/// A GPU, or an instance on it.
struct NamedDevice {
  const facts::GpuRecord* gpu = nullptr;
  Uuid uuid;
};

/// "17:00.0" and "0000:17:00.0" are ends of "00000000:17:00.0"; "7:00.0" is none.
bool is_bus_id(std::string_view text, const facts::GpuRecord& record) {
  const std::string own = to_lower(record.gpu.pci_bus_id);
  if (!text.contains(':') || !text.contains('.') || !own.ends_with(to_lower(text))) return false;
  const std::string_view rest = std::string_view(own).substr(0, own.size() - text.size());
  return rest.ends_with(':') || rest.find_first_not_of('0') == std::string_view::npos;
}

std::vector<NamedDevice> with_bus_id(std::string_view text, const facts::Snapshot& snapshot) {
  std::vector<NamedDevice> found;
  for (const auto& record : snapshot.gpus) {
    if (is_bus_id(text, record)) found.push_back({&record, identity_of(record)});
  }
  return found;
}

/// GPUs and instances; an exact match stands alone.
std::vector<NamedDevice> with_uuid(std::string_view text, const facts::Snapshot& snapshot) {
  std::vector<NamedDevice> found;
  const std::string wanted = to_lower(text);
  const auto add = [&](const facts::GpuRecord& record, const Uuid& uuid) {
    if (!uuid.value.empty() && to_lower(uuid.value).starts_with(wanted)) found.push_back({&record, uuid});
  };
  // At least a character beyond the kind: "GPU-" alone would fit anything.
  if (wanted.size() <= 4 || (!wanted.starts_with("gpu-") && !wanted.starts_with("mig-"))) return found;
  for (const auto& record : snapshot.gpus) {
    add(record, record.gpu.uuid);
    for (const auto& mig : record.mig_devices) add(record, mig.uuid);
  }
  const auto exact =
      std::ranges::find_if(found, [&](const NamedDevice& one) { return to_lower(one.uuid.value) == wanted; });
  return exact != found.end() ? std::vector<NamedDevice>{*exact} : found;
}

Error no_such_gpu(const GpuName& name, const facts::Snapshot& snapshot) {
  return {ErrorCode::invalid_argument, fmt::format("there is no GPU '{}'", printable(name.text)),
          snapshot.gpus.empty() ? "this machine has no GPU" : "there are: " + describe_gpus(snapshot)};
}

/// The one way from a name to what it means.
Result<NamedDevice> resolve_one(const GpuName& name, const facts::Snapshot& snapshot) {
  if (const auto index = parse_integer(name.text)) {
    for (const auto& record : snapshot.gpus) {
      if (record.gpu.index.value == *index) return NamedDevice{&record, identity_of(record)};
    }
  }
  const bool bus_id = name.text.contains(':');
  const auto found = bus_id ? with_bus_id(name.text, snapshot) : with_uuid(name.text, snapshot);
  if (found.size() == 1) return found[0];
  if (found.size() > 1) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is not unique: it fits {} GPUs", printable(name.text), found.size()),
                bus_id ? "write its domain as well" : "write more of the UUID");
  }
  return std::unexpected(no_such_gpu(name, snapshot));
}

}  // namespace

std::vector<Uuid> uuids_with_prefix(std::string_view text, const facts::Snapshot& snapshot) {
  std::vector<Uuid> uuids;
  for (const NamedDevice& device : with_uuid(text, snapshot)) uuids.push_back(device.uuid);
  return uuids;
}

std::string describe_gpus(const facts::Snapshot& snapshot) {
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> models;
  for (const auto& record : snapshot.gpus) {
    auto same = std::ranges::find(models, record.gpu.name, &decltype(models)::value_type::first);
    if (same == models.end()) same = models.insert(models.end(), {record.gpu.name, {}});
    same->second.push_back(record.gpu.index.value);
  }
  std::vector<std::string> groups;
  for (const auto& [name, indices] : models)
    groups.push_back(fmt::format("{} ({})", facts::index_ranges(indices), name));
  return join(groups, ", ");
}

Result<std::vector<Uuid>> resolve(const std::vector<GpuName>& names, const facts::Snapshot& snapshot) {
  std::vector<Uuid> uuids;
  for (const GpuName& name : names) {
    GPUWARDEN_TRY(const NamedDevice device, resolve_one(name, snapshot));
    uuids.push_back(device.uuid);
  }
  return uuids;
}

std::vector<GpuName> expand_ranges(const std::vector<std::string>& names) {
  std::vector<GpuName> all;
  for (const std::string& name : names) {
    const auto ends = split(name, '-');
    const auto first = parse_integer(ends.front());
    const auto last = ends.size() == 2 ? parse_integer(ends.back()) : std::nullopt;
    if (!first || !last || *first > *last || *last - *first >= kMostInRange) {
      all.push_back({name});
      continue;
    }
    for (std::int64_t index = *first; index <= *last; ++index) all.push_back({std::to_string(index)});
  }
  return all;
}

Result<void> keep_named(const std::vector<GpuName>& names, facts::Snapshot& snapshot) {
  if (names.empty()) return {};
  std::vector<const facts::GpuRecord*> named;
  for (const GpuName& name : names) {
    GPUWARDEN_TRY(const NamedDevice device, resolve_one(name, snapshot));
    named.push_back(device.gpu);
  }
  std::vector<facts::GpuRecord> kept;
  for (facts::GpuRecord& record : snapshot.gpus) {
    if (std::ranges::find(named, &record) != named.end()) kept.push_back(std::move(record));
  }
  snapshot.gpus = std::move(kept);
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
