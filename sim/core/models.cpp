// SPDX-License-Identifier: Apache-2.0
// Sources of the figures: nvidia-smi -q captures published with exporters (memory totals, power limits, clocks,
// temperatures, VBIOS shape) and NVIDIA's data sheets; compute figures from knowledge/gpu_models.csv; MIG profiles from
// NVIDIA's MIG user guide. Idle power and idle clocks are typical values of such captures.
#include "sim/core/models.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::sim {
namespace {

constexpr std::uint32_t pci(std::uint32_t device) { return device << 16U | 0x10DEU; }

// clang-format off
constexpr std::array<Model, 15> kModels{{
  //name                        arch           cc    SMs cores  pci id       MiB    rsv  Pmin Pdef Pmax idle  gclk  mclk  vclk idle slow shut gen bus  nvl v  fan    ecc   mig vbios             brand        branch
  {"NVIDIA H100 80GB HBM3",     "Hopper",       9, 0, 132, 16896, pci(0x2330), 81559, 551, 200, 700, 700, 70, 1980, 2619, 1545, 345, 87, 92, 5, 5120, 18, 4, false, true, 7, "96.00.74.00.01", "NVIDIA", "520"},
  {"NVIDIA H200",               "Hopper",       9, 0, 132, 16896, pci(0x2335), 143771, 613, 200, 700, 700, 76, 1980, 3201, 1545, 345, 87, 92, 5, 6144, 18, 4, false, true, 7, "96.00.BC.00.01", "NVIDIA", "535"},
  {"NVIDIA H100 PCIe",          "Hopper",       9, 0, 114, 14592, pci(0x2331), 81559, 551, 200, 350, 350, 48, 1755, 1593, 1545, 345, 87, 92, 5, 5120, 0, 4, false, true, 7, "96.00.30.00.01", "NVIDIA", "520"},
  {"NVIDIA A100-SXM4-80GB",     "Ampere",       8, 0, 108, 6912,  pci(0x20B2), 81920, 617, 100, 400, 400, 62, 1410, 1593, 1290, 210, 92, 95, 4, 5120, 12, 3, false, true, 7, "92.00.45.00.03", "NVIDIA", "470"},
  {"NVIDIA A100-SXM4-40GB",     "Ampere",       8, 0, 108, 6912,  pci(0x20B0), 40960, 571, 100, 400, 400, 54, 1410, 1215, 1290, 210, 92, 95, 4, 5120, 12, 3, false, true, 7, "92.00.19.00.10", "NVIDIA", "450"},
  {"Tesla V100-SXM2-16GB",      "Volta",        7, 0, 80,  5120,  pci(0x1DB1), 16384, 224, 150, 300, 300, 43, 1530, 877,  1372, 135, 87, 90, 3, 4096, 6, 2, false, true, 0, "88.00.4F.00.09", "Tesla", "384"},
  {"Tesla V100-SXM2-32GB",      "Volta",        7, 0, 80,  5120,  pci(0x1DB5), 32768, 262, 150, 300, 300, 43, 1530, 877,  1372, 135, 87, 90, 3, 4096, 6, 2, false, true, 0, "88.00.80.00.01", "Tesla", "390"},
  {"Tesla T4",                  "Turing",       7, 5, 40,  2560,  pci(0x1EB8), 15360, 272, 60,  70,  70,  9,  1590, 5001, 1470, 300, 93, 96, 3, 256,  0, 0, false, true, 0, "90.04.38.00.03", "Tesla", "410"},
  {"Tesla P100-PCIE-16GB",      "Pascal",       6, 0, 56,  3584,  pci(0x15F8), 16384, 103, 125, 250, 250, 26, 1328, 715,  1189, 405, 82, 85, 3, 4096, 0, 0, false, true, 0, "86.00.3A.00.01", "Tesla", "367"},
  {"NVIDIA L40S",               "Ada Lovelace", 8, 9, 142, 18176, pci(0x26B9), 46068, 617, 100, 350, 350, 34, 2520, 9001, 1965, 210, 92, 97, 4, 384,  0, 0, false, true, 0, "95.02.66.00.02", "NVIDIA", "535"},
  {"NVIDIA A10G",               "Ampere",       8, 6, 80,  9216,  pci(0x2237), 23028, 297, 100, 300, 300, 16, 1710, 6251, 1500, 210, 95, 98, 4, 384,  0, 0, false, true, 0, "94.02.75.00.01", "NVIDIA", "470"},
  {"NVIDIA GeForce RTX 4090",   "Ada Lovelace", 8, 9, 128, 16384, pci(0x2684), 24564, 346, 150, 450, 600, 21, 3105, 10501, 2415, 210, 97, 100, 4, 384, 0, 0, true, false, 0, "95.02.18.80.5F", "GeForce", "520"},
  {"NVIDIA GeForce RTX 3090",   "Ampere",       8, 6, 82,  10496, pci(0x2204), 24576, 315, 100, 350, 366, 20, 2100, 9751, 1950, 210, 95, 98, 4, 384,  4, 3, true, false, 0, "94.02.42.00.B4", "GeForce", "455"},
  {"NVIDIA GeForce RTX 3080",   "Ampere",       8, 6, 68,  8704,  pci(0x2206), 10240, 250, 100, 320, 370, 18, 2100, 9501, 1950, 210, 95, 98, 4, 320,  0, 0, true, false, 0, "94.02.27.00.0A", "GeForce", "455"},
  {"NVIDIA GeForce RTX 2080 Ti", "Turing",      7, 5, 68,  4352,  pci(0x1E04), 11264, 245, 100, 250, 280, 12, 2100, 7000, 1950, 300, 91, 94, 3, 352,  2, 2, true, false, 0, "90.02.0B.00.0E", "GeForce", "410"},
}};

constexpr MigShape kOneSlice     {.profile = 0, .id = 19, .slices = 1, .memory_slices = 1, .most = 7, .places = 7, .first = 7};
constexpr MigShape kOneSliceMedia{.profile = 7, .id = 20, .slices = 1, .memory_slices = 1, .most = 1, .places = 7, .first = 7};
constexpr MigShape kOneSliceWide {.profile = 9, .id = 15, .slices = 1, .memory_slices = 2, .most = 4, .places = 4, .first = 3};
constexpr MigShape kTwoSlices    {.profile = 1, .id = 14, .slices = 2, .memory_slices = 2, .most = 3, .places = 3, .first = 3};
constexpr MigShape kThreeSlices  {.profile = 2, .id = 9,  .slices = 3, .memory_slices = 4, .most = 2, .places = 2, .first = 1};
constexpr MigShape kFourSlices   {.profile = 3, .id = 5,  .slices = 4, .memory_slices = 4, .most = 1, .places = 1, .first = 1};
constexpr MigShape kSevenSlices  {.profile = 4, .id = 0,  .slices = 7, .memory_slices = 8, .most = 1, .places = 1, .first = 0};

constexpr std::array<MigProfile, 28> kMigProfiles{{
  {"A100-SXM4-40GB", "1g.5gb", &kOneSlice, 14, 4864, 0, 0, 0},
  {"A100-SXM4-40GB", "1g.5gb+me", &kOneSliceMedia, 14, 4864, 1, 1, 1},
  {"A100-SXM4-40GB", "1g.10gb", &kOneSliceWide, 14, 9856, 1, 0, 0},
  {"A100-SXM4-40GB", "2g.10gb", &kTwoSlices, 28, 9856, 1, 0, 0},
  {"A100-SXM4-40GB", "3g.20gb", &kThreeSlices, 42, 19968, 2, 0, 0},
  {"A100-SXM4-40GB", "4g.20gb", &kFourSlices, 56, 19968, 2, 0, 0},
  {"A100-SXM4-40GB", "7g.40gb", &kSevenSlices, 98, 40192, 5, 1, 1},
  {"A100-SXM4-80GB", "1g.10gb", &kOneSlice, 14, 9728, 0, 0, 0},
  {"A100-SXM4-80GB", "1g.10gb+me", &kOneSliceMedia, 14, 9728, 1, 1, 1},
  {"A100-SXM4-80GB", "1g.20gb", &kOneSliceWide, 14, 19968, 1, 0, 0},
  {"A100-SXM4-80GB", "2g.20gb", &kTwoSlices, 28, 19968, 1, 0, 0},
  {"A100-SXM4-80GB", "3g.40gb", &kThreeSlices, 42, 40192, 2, 0, 0},
  {"A100-SXM4-80GB", "4g.40gb", &kFourSlices, 56, 40192, 2, 0, 0},
  {"A100-SXM4-80GB", "7g.80gb", &kSevenSlices, 98, 81152, 5, 1, 1},
  {"H100", "1g.10gb", &kOneSlice, 16, 9984, 1, 1, 0},
  {"H100", "1g.10gb+me", &kOneSliceMedia, 16, 9984, 1, 1, 1},
  {"H100", "1g.20gb", &kOneSliceWide, 26, 20224, 1, 1, 0},
  {"H100", "2g.20gb", &kTwoSlices, 32, 20224, 2, 2, 0},
  {"H100", "3g.40gb", &kThreeSlices, 60, 40448, 3, 3, 0},
  {"H100", "4g.40gb", &kFourSlices, 64, 40448, 4, 4, 0},
  {"H100", "7g.80gb", &kSevenSlices, 132, 81024, 7, 7, 1},
  {"H200", "1g.18gb", &kOneSlice, 16, 16384, 1, 1, 0},
  {"H200", "1g.18gb+me", &kOneSliceMedia, 16, 16384, 1, 1, 1},
  {"H200", "1g.35gb", &kOneSliceWide, 26, 33280, 1, 1, 0},
  {"H200", "2g.35gb", &kTwoSlices, 32, 33280, 2, 2, 0},
  {"H200", "3g.71gb", &kThreeSlices, 60, 71424, 3, 3, 0},
  {"H200", "4g.71gb", &kFourSlices, 64, 71424, 4, 4, 0},
  {"H200", "7g.141gb", &kSevenSlices, 132, 142848, 7, 7, 1},
}};
// clang-format on

std::string plain(std::string_view name) {
  std::string result = to_lower(name);
  if (result.starts_with("nvidia ")) result.erase(0, 7);
  return result;
}

std::string_view brand_of(std::string_view name) {
  if (name.find("GeForce") != std::string_view::npos) return "GeForce";
  if (name.starts_with("Tesla")) return "Tesla";
  if (name.find("Quadro") != std::string_view::npos) return "Quadro";
  return "NVIDIA";
}

}  // namespace

std::span<const Model> models() { return kModels; }

const Model* find_model(std::string_view name) {
  const std::string wanted = plain(name);
  const auto* const found =
      std::ranges::find_if(kModels, [&](const Model& model) { return plain(model.name) == wanted; });
  return found == kModels.end() ? nullptr : found;
}

Model model_from_catalogue(std::string_view name, std::string& storage) {
  storage = name;
  Model model = kModels[11];  // a GeForce: the product line that supports least
  const knowledge::GpuModel* known = knowledge::find_gpu_model(name);
  model.name = storage;
  model.brand = brand_of(name);
  model.pci_device_id = pci(0x0001);
  model.nvlinks = 0;
  model.mig_instances = known != nullptr ? known->mig_max_instances : 0;
  const bool consumer = model.brand == "GeForce" || model.brand == "Quadro";
  model.fan = consumer;
  model.ecc = !consumer;
  if (known == nullptr) return model;
  model.architecture = known->architecture;
  model.capability_major = known->capability_major;
  model.capability_minor = known->capability_minor;
  model.multiprocessors = known->multiprocessors;
  model.cuda_cores = known->cuda_cores;
  model.memory_mib = static_cast<int>(known->memory_gb * 1024);
  if (known->tdp_watts > 0) {
    model.power_default = model.power_max = static_cast<int>(known->tdp_watts);
    model.power_min = model.power_default / 3;
    model.power_idle = std::max(5, model.power_default / 10);
  }
  return model;
}

std::vector<MigProfile> mig_profiles(const Model& model) {
  std::vector<MigProfile> result;
  if (model.mig_instances == 0) return result;
  for (const MigProfile& profile : kMigProfiles) {
    if (model.name.find(profile.model) != std::string_view::npos) result.push_back(profile);
  }
  return result;
}

}  // namespace gpuwarden::sim
