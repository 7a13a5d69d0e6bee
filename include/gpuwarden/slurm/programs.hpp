// SPDX-License-Identifier: Apache-2.0
// Slurm's programs behind one door, so that tests stand in for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::slurm {

class Programs {
 public:
  Programs() = default;
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;
  virtual ~Programs() = default;
  /// Runs it to its end. Fails with not_found / permission_denied where it cannot be started.
  virtual Result<Completed> run(const Command& command) = 0;
};

/// The machine's own, found on the PATH of `environment`.
std::unique_ptr<Programs> real_programs(Environment environment);

/// Whether the machine is of a cluster at all, which may well not answer: Slurm is installed and configured.
bool has_cluster(Programs& programs);

/// What the program prints. Fails with unavailable where it is not there or does not answer, with corrupt where it
/// prints more than is read, and with `code` and the program's own words where it refuses.
Result<std::string> output_of(Programs& programs, std::vector<std::string> argv, ErrorCode code = ErrorCode::failed,
                              std::string standard_input = {});

}  // namespace gpuwarden::slurm
