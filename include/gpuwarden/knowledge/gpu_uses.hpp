// SPDX-License-Identifier: Apache-2.0
// What a GPU is good for, as clouds, makers and the figures of its row have it. From knowledge/gpu_uses.csv.
#pragma once

#include <span>
#include <string_view>

namespace gpuwarden::knowledge {

struct GpuUse {
  std::string_view names;  ///< beginnings of product names without "NVIDIA ": "H100;H800"
  std::string_view good_for;
  std::string_view derived_from;  ///< "an H100 for export: ..."; empty: a product of its own
  std::string_view source;
  std::string_view as_of;  ///< "2026-11"
};

std::span<const GpuUse> gpu_uses();
/// The first row that has a beginning of this NVML name, at a word's end; nullptr where nothing is published here.
const GpuUse* find_gpu_use(std::string_view nvml_name);

}  // namespace gpuwarden::knowledge
