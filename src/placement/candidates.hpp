// SPDX-License-Identifier: Apache-2.0
// Devices, and the filters each must pass.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/placement/visible_devices.hpp"

namespace gpuwarden::placement {

/// A device with all that filters look at.
struct Candidate {
  Device device;
  const facts::GpuRecord* record = nullptr;
  const facts::MigDevice* mig = nullptr;
  Bytes total;
  Bytes free;
  bool known_free = false;
  Bytes usable{};  ///< what programs can have of it while nobody else uses it
};

/// The request with its names resolved.
struct Wanted {
  const Request& request;
  const Inputs& inputs;
  VisibleDevices visible;
  std::vector<Uuid> ids;
  std::vector<Uuid> prefer;
  std::vector<Uuid> exclude;
  bool mig = false;  ///< instances, not whole GPUs
};

/// Why a device is out; `transient` passes with time.
struct Objection {
  std::string reason;
  bool transient = false;
  Verdict::Kind kind = Verdict::Kind::fits;  ///< the filter table says it
  std::string leftover_of;                   ///< the run of which an orphaned process holds the device
};

/// Every whole GPU or every MIG instance of the machine, in index order.
std::vector<Candidate> list_candidates(const Wanted& wanted);
/// The first objection of the filter table, or nothing.
std::optional<Objection> object_to(const Candidate& candidate, const Wanted& wanted);

}  // namespace gpuwarden::placement
