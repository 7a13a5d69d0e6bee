// SPDX-License-Identifier: Apache-2.0
// GPUs that are built together with an Arm processor: their machines take other wheels than x86_64's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpuwarden::knowledge {

struct GpuBoard {
  std::string_view word;       ///< in the GPU's name, or in the product's: "GH200", "Orin"
  std::string_view processor;  ///< what it is joined to, for people
  /// Where frameworks for it come from if PyTorch's and vLLM's own wheels for Arm servers (SBSA) are not for it; empty:
  /// they are.
  std::string_view builds;
  std::string_view source;
  bool is_jetson = false;  ///< its driver comes with JetPack (Jetson Linux, L4T), not by a package of NVIDIA's
};

/// The board of a GPU, by its name; nullptr: a card or module that any machine may have.
const GpuBoard* find_gpu_board(std::string_view gpu_name);

/// Of the machine that has such a GPU: "aarch64" for a GH200 or a Thor, else "x86_64", as where nobody names another.
std::string_view machine_of_gpu(std::string_view gpu_name);

/// A virtual GPU, as a guest of NVIDIA's vGPU software sees one.
struct VirtualGpu {
  std::string board;      ///< "A100" of "GRID A100D-80C"
  std::string profile;    ///< "80C"; "2-10C" on a MIG instance
  std::string_view kind;  ///< what the profile's letter stands for: "compute"
};
/// Nothing for the name of anything else.
std::optional<VirtualGpu> virtual_gpu_named(std::string_view name);

}  // namespace gpuwarden::knowledge
