// SPDX-License-Identifier: Apache-2.0
// Where something shall run: a machine that is there, one that was captured or simulated, or GPUs and a driver by name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/gpu_boards.hpp"

namespace gpuwarden::compat {

struct PlaceGpu {
  std::string name;
  std::optional<int> architecture;  ///< 90 of 9.0
  const knowledge::GpuModel* model = nullptr;
  int count = 1;
  std::vector<const knowledge::GpuModel*> meant = {};  ///< of "A100" by name: every model with these words
};

/// A PyTorch that is on the machine.
struct InstalledTorch {
  std::string version;                     ///< "2.5.1+cu121"
  std::string cuda;                        ///< of its build, as it says; empty: not told
  std::vector<std::string> architectures;  ///< that it has code for; empty: not known
};

struct Place {
  std::vector<PlaceGpu> gpus;
  std::optional<knowledge::Version> driver;
  std::string machine = {};  ///< the processor's architecture, "aarch64"; empty: what has such GPUs
  std::string origin;        ///< "this machine", "box.txt", "what was named"
  bool simulated = false;
  bool captured = false;
  bool named = false;     ///< the GPUs were named, not found
  std::string cuda = {};  ///< what the driver offers, as nvidia-smi or NVML says; empty: not told
  std::vector<InstalledTorch> torches = {};
  std::optional<Error> problem;  ///< why the machine told nothing

  /// Without doubles; GPUs that are not known are left out.
  std::vector<int> architectures() const;
  /// The processor's architecture that wheels have to be for: what is told, else that of machines with such GPUs.
  std::string_view wheel_machine() const;
  /// The board, where all its GPUs are of those for which PyTorch's and vLLM's own wheels have no kernels (Orin);
  /// nullptr elsewhere.
  const knowledge::GpuBoard* board_of_other_builds() const;
  bool is_empty() const { return gpus.empty() && !driver; }
};

/// What a machine's facts tell. Origin and captured are for whoever knows where the facts are from.
Place place_of(const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge);

/// GPUs by name, as --gpu has them: "A100,RTX 5090", "sm_90". Fails with invalid_argument where one is not known.
Result<std::vector<PlaceGpu>> gpus_named(const std::vector<std::string>& lists, const knowledge::Knowledge& knowledge);

/// Takes a driver that is told by its branch alone ("570"), of which the first releases do not know a GPU of the place,
/// for the first release that knows them all, and gives that; nothing where there is nothing to take.
std::optional<knowledge::Version> take_branch_for_serving(Place& place);

}  // namespace gpuwarden::compat
