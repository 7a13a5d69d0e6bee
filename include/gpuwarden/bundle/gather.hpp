// SPDX-License-Identifier: Apache-2.0
// What goes into a bundle besides the facts and the doctor's report. Whatever is asked has a deadline, and what does
// not answer becomes an omission that says why.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/bundle/bundle.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/probe/machine_reader.hpp"

namespace gpuwarden::bundle {

/// Every GPU's metrics once a second for `duration`, as samples.json.
void gather_samples(probe::MachineReader& reader, Clock& clock, std::chrono::seconds duration, Contents& contents);

/// nvidia-smi's -q, -q -x and topo -m; `program` is a name for PATH or a path, `deadline` is for each. After one that
/// does not end the others are not tried: the driver hangs.
void gather_nvidia_smi(const std::filesystem::path& program, std::chrono::milliseconds deadline, Contents& contents);

/// The kernel's messages, as far as this user may read them, the last `cap` bytes of them.
void gather_kernel_log(std::chrono::milliseconds deadline, std::size_t cap, Contents& contents);

/// The last `cap` bytes of a log, from the beginning of a line on; a gzipped one is unpacked. Fails where it cannot be
/// read, is not a regular file, or is no text (secrets could not be found in it).
Result<void> gather_log(const std::filesystem::path& path, std::size_t cap, Contents& contents);

/// The names in a machine's facts: its host, its GPUs' UUIDs and serials, who runs on them.
redact::Identities identities_of(const facts::Snapshot& snapshot);

}  // namespace gpuwarden::bundle
