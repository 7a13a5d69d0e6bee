// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as the driver reads them. Source: CUDA C programming guide, "CUDA
// environment variables": numbers count in CUDA's order, UUIDs may be cut short if they stay unique, an invalid entry
// hides itself and all after it, a device named twice leaves none. With MIG a process sees one instance (source:
// NVIDIA's MIG user guide); without the variable, whole GPUs go before instances.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "gpuwarden/base/text.hpp"
#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda::server {
namespace {

using Places = std::vector<sim::Fleet::Place>;

/// "Fastest first": by cores and clock, then by bus id; or by bus id alone.
std::vector<std::uint32_t> cuda_order(const sim::FleetView& view) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < view.gpus.size(); ++i) {
    // A GPU that has fallen off the bus, or whose device file is closed to us, is not enumerated.
    if (!view.gpus[i].lost && !view.gpus[i].no_permission) order.push_back(i);
  }
  const auto spec = [&](std::uint32_t i) -> const sim::GpuSpec& { return *view.gpus[i].spec; };
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return to_lower(spec(i).bus_id); });
  const char* wanted = std::getenv("CUDA_DEVICE_ORDER");
  if (wanted != nullptr && std::string_view(wanted) == "PCI_BUS_ID") return order;
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::uint32_t i) {
    return std::int64_t{spec(i).model.cuda_cores} * spec(i).model.clock_graphics_max;
  });
  return order;
}

/// A GPU, or, cut up, its first instance; nothing where it is cut up into nothing.
std::optional<sim::Fleet::Place> first_place(const sim::FleetView& view, std::uint32_t index) {
  const sim::GpuView& gpu = view.gpus[index];
  if (!gpu.mig) return sim::Fleet::Place{index, sim::kNoInstance};
  if (gpu.instances.empty()) return std::nullopt;
  return sim::Fleet::Place{index, gpu.instances[0].gpu_instance};
}

std::optional<sim::Fleet::Place> by_uuid(const sim::FleetView& view, const std::vector<std::uint32_t>& order,
                                         std::string_view text) {
  Places found;
  if (text.size() < 5) return std::nullopt;
  for (const std::uint32_t i : order) {
    const sim::GpuView& gpu = view.gpus[i];
    if (gpu.spec->uuid.starts_with(text) && !gpu.mig) found.push_back({i, sim::kNoInstance});
    for (const sim::MigInstance& instance : gpu.instances) {
      const std::string old_name = "MIG-" + gpu.spec->uuid + "/" + std::to_string(instance.gpu_instance) + "/" +
                                   std::to_string(instance.compute_instance);
      if (instance.uuid.starts_with(text) || old_name == text) found.push_back({i, instance.gpu_instance});
    }
  }
  return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

Places all_places(const sim::FleetView& view, const std::vector<std::uint32_t>& order) {
  Places whole;
  Places instances;
  for (const std::uint32_t i : order) {
    const auto place = first_place(view, i);
    if (place) (place->gpu_instance == sim::kNoInstance ? whole : instances).push_back(*place);
  }
  return whole.empty() ? instances : whole;
}

bool same(const sim::Fleet::Place& a, const sim::Fleet::Place& b) {
  return a.gpu == b.gpu && a.gpu_instance == b.gpu_instance;
}

Places named_places(const sim::FleetView& view, const std::vector<std::uint32_t>& order, std::string_view text) {
  Places places;
  for (const auto piece : split(text, ',')) {
    const std::string_view entry = trim(piece);
    const auto number = parse_integer(entry);
    std::optional<sim::Fleet::Place> place;
    if (!number) place = by_uuid(view, order, entry);
    if (number && *number >= 0 && static_cast<std::size_t>(*number) < order.size())
      place = first_place(view, order[static_cast<std::size_t>(*number)]);
    if (!place) break;
    if (std::ranges::any_of(places, [&](const auto& other) { return same(other, *place); })) return {};
    places.push_back(*place);
  }
  return places;
}

}  // namespace

std::vector<DeviceState> visible_devices(const sim::FleetView& view) {
  const auto order = cuda_order(view);
  const char* wanted = std::getenv("CUDA_VISIBLE_DEVICES");
  Places places = wanted == nullptr ? all_places(view, order) : named_places(view, order, wanted);
  const auto instance =
      std::ranges::find_if(places, [](const auto& place) { return place.gpu_instance != sim::kNoInstance; });
  if (instance != places.end()) places = {*instance};
  std::vector<DeviceState> devices(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    devices[i].place = places[i];
    devices[i].gpu = view.gpus[places[i].gpu].spec;
    const auto& instances = view.gpus[places[i].gpu].instances;
    const auto found = std::ranges::find(instances, places[i].gpu_instance, &sim::MigInstance::gpu_instance);
    if (found != instances.end()) devices[i].instance = *found;
    devices[i].file = std::make_unique<DeviceFile>();
  }
  return devices;
}

}  // namespace gpuwarden::cuda::server
