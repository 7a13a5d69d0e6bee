// SPDX-License-Identifier: Apache-2.0
// On whose behalf a process runs, as the path of its control group tells: container, Kubernetes pod, Slurm job.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpuwarden::probe {

/// What a cgroup path names; empty where it names none.
struct CgroupOwner {
  std::optional<std::string> container;  ///< the first 12 hexadecimal digits of its id, as docker ps and crictl show it
  std::optional<std::string> pod;        ///< UID, with '-' between its groups
  std::optional<std::string> slurm_job;  ///< job id

  bool operator==(const CgroupOwner&) const = default;
};

/// Reads the text of /proc/PID/cgroup, of version 1 (a line for each hierarchy) or 2 (one line). Knows the paths of
/// docker, containerd, CRI-O and podman, with systemd's and cgroupfs' names, ECS, and slurmd's. A container within a
/// container is told by its innermost id.
CgroupOwner owner_from_cgroup(std::string_view text);

}  // namespace gpuwarden::probe
