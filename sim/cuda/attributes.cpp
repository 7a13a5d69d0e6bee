// SPDX-License-Identifier: Apache-2.0
// Sources: table "Technical specifications per compute capability" of the CUDA C programming guide; deviceQuery output
// of the products; limits of textures as every product since compute capability 5.0 has them.
#include "sim/cuda/attributes.hpp"

#include <algorithm>
#include <array>

#include "sim/core/identity.hpp"

namespace gpuwarden::cuda::server {
namespace {

struct Constant {
  int which;
  int value;
};

/// The same on every product simulated. What is not named here, below, or in of_product() is a capability that this
/// driver lacks: 0.
constexpr auto kConstants = std::to_array<Constant>({
    {1, 1024},                                        // threads per block
    {2, 1024},                                        // block size x, y, z
    {3, 1024},        {4, 64},      {5, 2147483647},  // grid size x, y, z
    {6, 65535},       {7, 65535},   {8, 49152},       // shared memory per block
    {9, 65536},                                       // constant memory
    {10, 32},                                         // warp
    {11, 2147483647}, {12, 65536},                    // registers per block
    {14, 512},        {15, 1},                        // copies beside kernels
    {19, 1},                                          // maps host memory
    {21, 131072},     {22, 131072}, {23, 65536},     {24, 16384},     {25, 16384},  {26, 16384},
    {27, 32768},      {28, 32768},  {29, 2048},      {30, 512},       {31, 1},  // concurrent kernels
    {41, 1},                                                                    // unified addressing
    {42, 32768},      {43, 2048},   {45, 32768},     {46, 32768},     {51, 32},     {52, 32768},
    {55, 32768},      {56, 131072}, {57, 65536},     {69, 268435456}, {70, 131072}, {71, 65000},
    {72, 2097120},    {73, 32768},  {74, 32768},     {77, 32768},     {78, 1},  // stream priorities
    {79, 1},          {80, 1},      {82, 65536},                                // registers per multiprocessor
    {90, 1},                                                                    // compute preemption
    {91, 1},                                                                    // host pointers of registered memory
    {99, 1},                                                                    // registers host memory
    {102, 1},                                                                   // virtual memory management
    {103, 1},                                                                   // its handles as file descriptors
    {115, 1},                                                                   // memory pools
    {126, 1},         {134, -1},
});

/// Per compute capability: shared memory per multiprocessor and per block at most, threads and blocks per
/// multiprocessor, single to double precision.
struct Generation {
  int capability;
  int shared_per_multiprocessor;
  int shared_per_block;
  int threads;
  int blocks;
  int to_double;
};
constexpr auto kGenerations = std::to_array<Generation>({{60, 65536, 49152, 2048, 32, 2},
                                                         {61, 98304, 49152, 2048, 32, 32},
                                                         {70, 98304, 98304, 2048, 32, 2},
                                                         {75, 65536, 65536, 1024, 16, 32},
                                                         {80, 167936, 166912, 2048, 32, 2},
                                                         {86, 102400, 101376, 1536, 16, 64},
                                                         {89, 102400, 101376, 1536, 24, 64},
                                                         {90, 233472, 232448, 2048, 32, 2},
                                                         {100, 233472, 232448, 2048, 32, 2},
                                                         {120, 102400, 101376, 1536, 24, 64}});

const Generation& generation_of(const sim::Model& model) {
  const int capability = model.capability_major * 10 + model.capability_minor;
  const auto* best = &kGenerations.front();
  for (const Generation& one : kGenerations) {
    if (one.capability <= capability) best = &one;
  }
  return *best;
}

/// Level 2 cache by product, in MiB (source: NVIDIA's architecture white papers).
int l2_mebibytes(std::string_view name) {
  struct Cache {
    std::string_view part;
    int mebibytes;
  };
  static constexpr auto kCaches = std::to_array<Cache>({{"H100", 50},
                                                        {"H200", 60},
                                                        {"A100", 40},
                                                        {"L40", 96},
                                                        {"4090", 72},
                                                        {"3090", 6},
                                                        {"3080", 5},
                                                        {"A10G", 6},
                                                        {"V100", 6},
                                                        {"T4", 4},
                                                        {"P100", 4},
                                                        {"2080 Ti", 5}});
  const auto* const found = std::ranges::find_if(
      kCaches, [&](const Cache& cache) { return name.find(cache.part) != std::string_view::npos; });
  return found == kCaches.end() ? 4 : found->mebibytes;
}

std::optional<int> of_product(int which, const DeviceState& device) {
  const sim::Model& model = device.gpu->model;
  const Generation& generation = generation_of(model);
  switch (which) {
    case 13:
      return model.clock_graphics_max * 1000;
    case 16:
      return device.instance ? device.instance->multiprocessors : model.multiprocessors;
    case 35:
      return 0;  // no TCC on Linux
    case 36:
      return model.clock_memory_max * 1000;
    case 37:
      return model.bus_width;
    case 38:
      return l2_mebibytes(device.gpu->name) << 20;
    case 39:
      return generation.threads;
    case 40:
      return model.ecc ? 3 : 2;
    case 75:
      return model.capability_major;
    case 76:
      return model.capability_minor;
    case 81:
      return generation.shared_per_multiprocessor;
    case 87:
      return generation.to_double;
    case 97:
      return generation.shared_per_block;
    case 106:
      return generation.blocks;
    case 111:
      return model.capability_major >= 8 ? 1024 : 0;
    case 108:
      return model.capability_major >= 8 ? (l2_mebibytes(device.gpu->name) << 20) / 8 * 5 : 0;
    case 109:
      return model.capability_major >= 8 ? 134217728 : 0;
    case 119:
      return kHandleNone;  // pools are not exported
    case 139:
      return static_cast<int>(model.pci_device_id);
    default:
      return std::nullopt;
  }
}

std::optional<int> of_place(int which, const DeviceState& device, const sim::FleetView* view) {
  const auto bus = sim::parse_bus_id(device.gpu->bus_id).value_or(sim::BusId{});
  const auto reading = [&](sim::Field field, int otherwise) {
    if (view == nullptr) return otherwise;
    return static_cast<int>(sim::at(view->gpus[device.place.gpu].readings, field).value_or(otherwise));
  };
  switch (which) {
    case 20:
      return reading(sim::Field::compute_mode, 0);
    case 32:
      return reading(sim::Field::ecc_enabled, 0);
    case 33:
      return static_cast<int>(bus.bus);
    case 34:
      return static_cast<int>(bus.device);
    case 50:
      return static_cast<int>(bus.domain);
    case 134:
      return reading(sim::Field::numa_node, -1);
    default:
      return std::nullopt;
  }
}

/// CU_DEVICE_ATTRIBUTE_MAX of CUDA 13.0.
constexpr int kLastAttribute = 147;

}  // namespace

std::optional<int> attribute(int which, const DeviceState& device, const sim::FleetView* view) {
  if (which < 1 || which > kLastAttribute) return std::nullopt;
  if (const auto value = of_product(which, device)) return value;
  if (const auto value = of_place(which, device, view)) return value;
  const auto* const constant = std::ranges::find(kConstants, which, &Constant::which);
  return constant == kConstants.end() ? 0 : constant->value;
}

}  // namespace gpuwarden::cuda::server
