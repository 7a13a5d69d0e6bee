// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/visible_devices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "placement/names.hpp"

namespace gpuwarden::placement {
namespace {

/// GPUs that CUDA can enumerate: those that answer.
std::vector<const facts::GpuRecord*> cuda_gpus(const facts::Snapshot& snapshot) {
  std::vector<const facts::GpuRecord*> gpus;
  for (const auto& record : snapshot.gpus) {
    if (!record.gpu.uuid.value.empty()) gpus.push_back(&record);
  }
  std::ranges::sort(gpus, {}, [](const facts::GpuRecord* record) { return record->gpu.pci_bus_id; });
  return gpus;
}

/// An entry's device, or the reason why CUDA does not know it.
struct Entry {
  std::optional<Uuid> uuid;
  std::string problem;
};

Entry by_ordinal(std::int64_t ordinal, const std::vector<Uuid>& order) {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= order.size()) {
    return {std::nullopt, fmt::format("there is no device {}", ordinal)};
  }
  return {order[static_cast<std::size_t>(ordinal)], ""};
}

Entry by_uuid(std::string_view text, const facts::Snapshot& snapshot) {
  const auto found = uuids_with_prefix(text, snapshot);
  if (found.size() == 1) return {found[0], ""};
  return {std::nullopt, found.empty() ? "no GPU has such a UUID" : "several GPUs' UUIDs begin so"};
}

bool is_integer(std::string_view text) { return parse_integer(text).has_value(); }

/// Whether the integers name every GPU, so that their order does not matter for the set.
bool names_all(const std::vector<std::string_view>& entries, std::size_t count) {
  std::vector<bool> seen(count);
  for (const auto entry : entries) {
    const auto ordinal = parse_integer(entry);
    if (!ordinal || *ordinal < 0 || static_cast<std::size_t>(*ordinal) >= count) return false;
    seen[static_cast<std::size_t>(*ordinal)] = true;
  }
  return std::ranges::all_of(seen, [](bool one) { return one; });
}

void warn_about_mig(VisibleDevices& visible) {
  const auto is_mig = [](const Uuid& uuid) { return uuid.value.starts_with("MIG-"); };
  const auto migs = std::ranges::count_if(visible.uuids, is_mig);
  if (migs > 1)
    visible.warnings.emplace_back(
        "CUDA_VISIBLE_DEVICES names several MIG instances: one process can use only the first");
  if (migs > 0 && static_cast<std::size_t>(migs) < visible.uuids.size()) {
    visible.warnings.emplace_back(
        "CUDA_VISIBLE_DEVICES mixes MIG instances with whole GPUs: CUDA cannot use them together");
  }
}

}  // namespace

std::optional<std::vector<Uuid>> cuda_order(const Visibility& visibility, const facts::Snapshot& snapshot) {
  const auto gpus = cuda_gpus(snapshot);
  std::vector<Uuid> by_bus;
  for (const auto* record : gpus) by_bus.push_back(record->gpu.uuid);
  if (visibility.cuda_device_order == "PCI_BUS_ID") return by_bus;
  const bool one_model = std::ranges::all_of(gpus, [&](const facts::GpuRecord* record) {
    return record->gpu.name == gpus[0]->gpu.name && record->gpu.pci_device_id == gpus[0]->gpu.pci_device_id;
  });
  if (one_model) return by_bus;
  if (snapshot.cuda_order && snapshot.cuda_order->size() == gpus.size()) return snapshot.cuda_order;
  return std::nullopt;
}

Result<VisibleDevices> read_visible_devices(const Visibility& visibility, const facts::Snapshot& snapshot) {
  VisibleDevices visible;
  if (!visibility.cuda_visible_devices) return visible;
  visible.restricted = true;
  const std::string shown = printable(*visibility.cuda_visible_devices);
  const std::string_view text = trim(*visibility.cuda_visible_devices);
  if (text.empty() || text == "-1" || text == "NoDevFiles") {
    visible.cpu_only = true;
    return visible;
  }
  std::vector<std::string_view> entries;
  for (const auto piece : split(text, ',')) entries.push_back(trim(piece));
  auto order = cuda_order(visibility, snapshot);
  if (!order && std::ranges::any_of(entries, is_integer)) {
    std::vector<Uuid> all;
    for (const auto* record : cuda_gpus(snapshot)) all.push_back(record->gpu.uuid);
    if (!names_all(entries, all.size())) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("CUDA_VISIBLE_DEVICES={} counts in CUDA's order (fastest first), which is not known on a machine "
                      "with different GPUs: it could name the wrong ones",
                      shown),
          "export CUDA_DEVICE_ORDER=PCI_BUS_ID, so that numbers follow nvidia-smi, or name UUIDs");
    }
    order = all;
  }
  for (const auto entry : entries) {
    const auto ordinal = parse_integer(entry);
    const Entry device = ordinal ? by_ordinal(*ordinal, *order) : by_uuid(entry, snapshot);
    if (!device.uuid) {
      visible.warnings.push_back(
          fmt::format("CUDA_VISIBLE_DEVICES={}: '{}' is not valid ({}); CUDA ignores it and all after it", shown,
                      printable(entry), device.problem));
      break;
    }
    if (std::ranges::find(visible.uuids, *device.uuid) != visible.uuids.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("CUDA_VISIBLE_DEVICES={} names '{}' twice: CUDA then sees no device at all", shown,
                              printable(entry)),
                  "list every GPU once");
    }
    visible.uuids.push_back(*device.uuid);
  }
  if (visible.uuids.empty()) {
    return fail(ErrorCode::invalid_argument, fmt::format("CUDA_VISIBLE_DEVICES={} names no GPU of this machine", shown),
                "unset it, or name one of: " + describe_gpus(snapshot));
  }
  warn_about_mig(visible);
  return visible;
}

}  // namespace gpuwarden::placement
