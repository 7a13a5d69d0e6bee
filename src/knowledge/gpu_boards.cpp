// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/gpu_boards.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"
#include "knowledge/other_names.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr std::string_view kJetPack6 =
    "NVIDIA's builds for JetPack, https://pypi.jetson-ai-lab.io/jp6/cu126 (JetPack 6): PyTorch's own aarch64 wheels "
    "are "
    "for Arm servers";
constexpr std::string_view kJetPack5 =
    "NVIDIA's builds for its last JetPack, 5 (forums.developer.nvidia.com, PyTorch for Jetson): no wheel of PyTorch's "
    "own is for it";

/// source of the Jetsons' builds: pytorch/TensorRT#3720 ("Thor is using the SBSA build", Orin's wheels are on
/// pypi.jetson-ai-lab), OpenRAL/openral#167 (PyTorch's cu130 wheels run on Thor, cu128 does not)
constexpr auto kBoards = std::to_array<GpuBoard>({
    {"GH200", "Grace (Arm)", "", "NVIDIA GH200 data sheet; vllm-project/vllm#16502"},
    {"GB200", "Grace (Arm)", "", "NVIDIA GB200 NVL72 data sheet; pytorch/pytorch#160162"},
    {"GB300", "Grace (Arm)", "", "NVIDIA GB300 NVL72 data sheet"},
    {"GB10", "Arm cores of its own chip", "", "NVIDIA DGX Spark user guide; vllm-project/vllm#29472"},
    {"Vera", "Vera (Arm)", "", "NVIDIA Vera Rubin NVL144 announcement"},
    {"Thor", "Arm cores of its own chip", "", "pytorch/TensorRT#3720; OpenRAL/openral#167", true},
    {"Orin", "Arm cores of its own chip", kJetPack6, "pytorch/TensorRT#3720; bitsandbytes-foundation/bitsandbytes#1930",
     true},
    {"Xavier", "Arm cores of its own chip", kJetPack5, "pytorch/pytorch#82404; NVIDIA JetPack archive", true},
});

}  // namespace

const GpuBoard* find_gpu_board(std::string_view gpu_name) {
  const auto* const found =
      std::ranges::find_if(kBoards, [&](const GpuBoard& one) { return has_words(gpu_name, one.word); });
  return found == kBoards.end() ? nullptr : found;
}

/// source: NVIDIA vGPU software user guide, virtual GPU types: the letter is the series and with it the licence
std::optional<VirtualGpu> virtual_gpu_named(std::string_view name) {
  VirtualGpu found{.board = board_of_vgpu(name)};
  if (found.board.empty()) return std::nullopt;
  found.profile = name.substr(name.find('-') + 1);
  const std::string_view series =
      name.ends_with("ME") ? name.substr(0, name.size() - 2) : name;  // "-4-20CME": with media engines
  switch (series.back()) {
    case 'C':
      found.kind = "compute; NVIDIA AI Enterprise";
      break;
    case 'Q':
      found.kind = "workstation; RTX Virtual Workstation";
      break;
    case 'B':
      found.kind = "desktop; Virtual PC";
      break;
    default:
      found.kind = "applications; Virtual Applications";
  }
  return found;
}

std::string_view machine_of_gpu(std::string_view gpu_name) {
  return find_gpu_board(gpu_name) != nullptr ? "aarch64" : kUsualMachine;
}

}  // namespace gpuwarden::knowledge
