// SPDX-License-Identifier: Apache-2.0
// Named ranges for another profiler that watches the process: NVTX, as Nsight Systems reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::profile {

/// Ranges that begin and end. Implementations are thread-safe.
class Ranges {
 public:
  Ranges() = default;
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;
  virtual ~Ranges() = default;

  /// The range's number. Ranges need not nest.
  virtual std::uint64_t begin(const char* name) = 0;
  virtual void end(std::uint64_t range) = 0;
};

/// NVTX's library of the CUDA toolkit; under Nsight it leads to Nsight, else its calls cost nothing. Fails with
/// not_found where it cannot be opened, with unavailable where it lacks ranges.
Result<std::shared_ptr<Ranges>> open_nvtx(const std::filesystem::path& library = "libnvToolsExt.so.1");

}  // namespace gpuwarden::profile
