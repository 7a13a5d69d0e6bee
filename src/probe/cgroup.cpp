// SPDX-License-Identifier: Apache-2.0
#include "probe/cgroup.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::probe {
namespace {

constexpr std::size_t kIdLength = 64;
constexpr std::size_t kShownLength = 12;

bool is_hexadecimal(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_decimal(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_container_id(std::string_view text) { return text.size() == kIdLength && is_hexadecimal(text); }

/// Fargate's ids: 32 digits, and the container's number behind a dash.
bool is_ecs_id(std::string_view text) {
  constexpr std::size_t kTaskLength = 32;
  return text.size() > kTaskLength + 1 && text[kTaskLength] == '-' && is_hexadecimal(text.substr(0, kTaskLength)) &&
         is_decimal(text.substr(kTaskLength + 1));
}

/// systemd's unit names end in their kind.
std::string_view without_unit(std::string_view segment) {
  for (const std::string_view kind : {".scope", ".service", ".slice"}) {
    if (segment.ends_with(kind)) segment.remove_suffix(kind.size());
  }
  return segment;
}

/// The id in "docker-ID.scope", "cri-containerd-ID.scope", "libpod-ID", "SLICE:cri-containerd:ID" or a bare "ID". What
/// only watches a container (conmon) runs outside of it, and a podman pod (libpod_pod_ID) is none.
std::optional<std::string> container_in(std::string_view segment) {
  static constexpr std::array<std::string_view, 10> kRuntimes{
      "docker", "cri-containerd", "containerd",       "crio", "cri-o", "libpod",
      "podman", "nerdctl",        "docker-container", "runc"};
  const std::string_view text = without_unit(segment);
  if (is_ecs_id(text)) return std::string(text.substr(0, kShownLength));
  if (text.size() < kIdLength) return std::nullopt;
  const std::string_view id = text.substr(text.size() - kIdLength);
  if (!is_container_id(id)) return std::nullopt;
  std::string_view before = text.substr(0, text.size() - kIdLength);
  if (before.empty()) return std::string(id.substr(0, kShownLength));
  if (before.back() != '-' && before.back() != ':') return std::nullopt;
  before.remove_suffix(1);
  before = before.substr(before.rfind(':') + 1);
  if (std::ranges::find(kRuntimes, before) == kRuntimes.end()) return std::nullopt;
  return std::string(id.substr(0, kShownLength));
}

/// "1a2b3c4d-...": 8-4-4-4-12 hexadecimal digits with '-' or, in systemd's names, '_' between.
std::optional<std::string> uid_of(std::string_view text) {
  constexpr std::size_t kHashLength = 32;
  constexpr std::size_t kUidLength = 36;
  // The pods that the kubelet starts from files have a hash for a UID.
  if (text.size() == kHashLength && is_hexadecimal(text)) return std::string(text);
  if (text.size() != kUidLength) return std::nullopt;
  std::string uid(text);
  for (const std::size_t at : {8U, 13U, 18U, 23U}) {
    if (uid[at] != '-' && uid[at] != '_') return std::nullopt;
    uid[at] = '-';
  }
  const auto groups = split(uid, '-');
  return groups.size() == 5 && std::ranges::all_of(groups, is_hexadecimal) ? std::optional(uid) : std::nullopt;
}

/// The UID in "podUID" and "kubepods-burstable-podUID.slice".
std::optional<std::string> pod_in(std::string_view segment) {
  const std::string_view text = without_unit(segment.substr(0, segment.find(':')));
  const std::size_t at = text.rfind("pod");
  if (at == std::string_view::npos || (at > 0 && text[at - 1] != '-')) return std::nullopt;
  return uid_of(text.substr(at + 3));
}

/// Slurm's own id of a job, which names its group since 26.05 where CgroupJobIdPaths is not set: "s5K1KKYAYG5D00".
bool is_sluid(std::string_view text) {
  return text.size() == 14 && text[0] == 's' &&
         std::ranges::all_of(text.substr(1), [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); });
}

/// "job_4711" below a group of slurmd's or slurmstepd's ("NODE_slurmstepd.scope" with several slurmd on a machine).
void take_slurm(std::string_view segment, bool& below_slurm, CgroupOwner& owner) {
  constexpr std::string_view kJob = "job_";
  if (segment.starts_with("slurm") || segment.ends_with("slurmstepd.scope")) {
    below_slurm = true;
  } else if (below_slurm && segment.starts_with(kJob) && is_decimal(segment.substr(kJob.size()))) {
    owner.slurm_job = std::string(segment.substr(kJob.size()));
  } else if (below_slurm && !owner.slurm_job && is_sluid(segment)) {
    owner.slurm_job = std::string(segment);
  }
}

CgroupOwner owner_in(std::string_view path) {
  CgroupOwner owner;
  bool below_slurm = false;
  for (const std::string_view segment : split(path, '/')) {
    if (auto id = container_in(segment)) owner.container = std::move(id);
    if (auto uid = pod_in(segment)) owner.pod = std::move(uid);
    take_slurm(segment, below_slurm, owner);
  }
  return owner;
}

}  // namespace

CgroupOwner owner_from_cgroup(std::string_view text) {
  CgroupOwner owner;
  for (const std::string_view line : split(text, '\n')) {
    // NUMBER:CONTROLLERS:PATH; the path may hold colons of its own.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    CgroupOwner told = owner_in(trim(line.substr(second + 1)));
    if (!owner.container) owner.container = std::move(told.container);
    if (!owner.pod) owner.pod = std::move(told.pod);
    if (!owner.slurm_job) owner.slurm_job = std::move(told.slurm_job);
  }
  return owner;
}

}  // namespace gpuwarden::probe
