// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/gpu_boards.hpp"

#include <algorithm>
#include <iterator>

#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"
#include "knowledge/other_names.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr GpuBoard kBoards[] = {
#include "knowledge/gpu_boards.inc"
};

}  // namespace

const GpuBoard* find_gpu_board(std::string_view gpu_name) {
  const auto* const found =
      std::ranges::find_if(kBoards, [&](const GpuBoard& one) { return has_words(gpu_name, one.word); });
  return found == std::end(kBoards) ? nullptr : found;
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
