// SPDX-License-Identifier: Apache-2.0
// Who has a GPU's device file open, as `fuser -v /dev/nvidia*` shows it: also those that NVML does not list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// A process, with its names, and the GPUs it has open, by N of /dev/nvidiaN.
struct Holder {
  facts::GpuProcess process;
  std::vector<std::uint32_t> minors;

  bool operator==(const Holder&) const = default;
};

/// N of "/dev/nvidiaN"; nothing for nvidiactl, nvidia-uvm and anything else.
std::optional<std::uint32_t> minor_of(std::string_view link);

/// Goes through PROC_ROOT/PID/fd; processes whose descriptors the caller may not see are left out, and so are readers
/// of gpuwarden's, which open GPUs only to look at them. Their names come from `proc_roots`. A process in trouble may
/// hang whoever looks at it: for a ChildProcess.
std::vector<Holder> find_holders(const std::filesystem::path& proc_root,
                                 const std::vector<std::filesystem::path>& proc_roots);

/// As a message between processes carries them.
nlohmann::json to_json(const std::vector<Holder>& holders);
std::vector<Holder> holders_from_json(const nlohmann::json& json);

/// Without those that have ended since they were found: they hold nothing.
void drop_ended(const std::filesystem::path& proc_root, std::vector<Holder>& holders);

/// Adds to each GPU's processes those holders that NVML does not list (listed = false).
void add_holders(const std::vector<Holder>& holders, facts::Snapshot& snapshot);

}  // namespace gpuwarden::probe
