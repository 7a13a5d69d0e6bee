// SPDX-License-Identifier: Apache-2.0
// The tests of burn_in.hpp on a machine's own GPUs, which are reserved meanwhile.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/burn_in/burn_in.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::burn_in {

/// What is asked of the tests besides Options.
struct MachineRequest {
  std::vector<placement::GpuName> gpus;  ///< only these; empty: all
  std::string run_id;                    ///< and who tests, as others see it on the GPUs' reservation
  std::string command = "gpuwarden doctor --deep";
  std::function<void(std::string_view)> progress;  ///< what begins now; may be empty
};

/// CUDA's libraries as an environment and the machine's toolkits name them: GPUWARDEN_CUDA_LIBRARY (a stand-in, whose
/// figures are not called measured), GPUWARDEN_CUBLAS_LIBRARY, and the toolkits' cuBLAS, which is not always on the
/// loader's path.
Options options_from(const Environment& environment, const facts::Snapshot& snapshot);

/// Why the GPUs that are looked at cannot be put to work: they are a capture's, a simulated fleet's (where `options`
/// name no stand-in) or another system's. Nothing where they are this machine's.
std::optional<std::string> not_possible(const machine::Machine& machine, const facts::Snapshot& snapshot,
                                        const Options& options);

/// Reserves the GPUs for the length of the tests and tests them; those that others have reserved are left alone and
/// say so. Those of a lease within which the caller was started are its own, whatever its line does there. Where there
/// are no reservations (no directory, no right), there is nobody to take the GPUs from. Fails as placement::select does
/// on a GPU's name, with unsatisfied where a GPU of that name cannot be had.
Result<facts::BurnInRun> run_on(const machine::Machine& machine, const facts::Snapshot& snapshot,
                                const knowledge::Knowledge& knowledge, const MachineRequest& request, Options options);

}  // namespace gpuwarden::burn_in
