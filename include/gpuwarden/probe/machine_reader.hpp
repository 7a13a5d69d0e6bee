// SPDX-License-Identifier: Apache-2.0
// Reads the GPUs of this machine through whatever can tell of them: NVML, else nvidia-smi, else the kernel. GPUs of
// other makers stand behind NVIDIA's.
#pragma once

#include <optional>
#include <vector>

#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

class HolderSearch;

/// Keeps a connection to NVML. Not thread-safe: one caller at a time.
class MachineReader {
 public:
  explicit MachineReader(ReaderOptions options);

  /// Reads everything anew; never fails as a whole (see NvmlReader::read). Snapshot::source tells who listed NVIDIA's
  /// GPUs. Those of other vendors have the indices after theirs, and are no reason for Snapshot::problem: where a
  /// machine has only such GPUs, it is empty.
  facts::Snapshot read(const ReadRequest& request = {});

 private:
  facts::Snapshot read_nvidia(const ReadRequest& request, std::optional<HolderSearch>& holders);

  ReaderOptions options_;
  NvmlReader nvml_;
  std::vector<facts::GpuRecord> others_;  ///< GPUs of other makers, as they were last read
  std::optional<Clock::SteadyTime> others_read_;
};

}  // namespace gpuwarden::probe
