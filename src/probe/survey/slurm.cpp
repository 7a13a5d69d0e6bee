// SPDX-License-Identifier: Apache-2.0
// Slurm: its job around us and this node's configuration.
#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::SlurmFacts;

/// Where configuration lies: the variable, else the usual places. "configless" nodes get a copy below /run.
std::string folder_of(const Scene& scene) {
  if (const auto file = scene.variable("SLURM_CONF"); file && file->starts_with('/'))
    return std::filesystem::path(*file).parent_path();
  for (const char* folder : {"/etc/slurm", "/etc/slurm-llnl", "/run/slurm/conf", "/usr/local/etc", "/opt/slurm/etc"}) {
    if (scene.tree.is_file(std::string(folder) + "/slurm.conf")) return folder;
  }
  return "/etc/slurm";
}

void read_job(const Scene& scene, SlurmFacts& slurm) {
  slurm.job_id = scene.variable("SLURM_JOB_ID");
  if (!slurm.job_id) return;
  const std::string granted = scene.variable("SLURM_STEP_GPUS").value_or(scene.variable("SLURM_JOB_GPUS").value_or(""));
  for (const auto gpu : split(granted, ',')) {
    if (!trim(gpu).empty()) slurm.granted_gpus.push_back(printable(trim(gpu)));
  }
  const auto wanted = parse_integer(scene.variable("SLURM_GPUS_ON_NODE").value_or(""));
  if (wanted && *wanted > 0 && *wanted < 1024) slurm.gpus_requested = static_cast<int>(*wanted);
}

/// slurm.conf gives a node's resources; gres.conf alone where this machine's own line is not found.
void read_resources(const Scene& scene, const std::string& folder, std::string_view main, SlurmFacts& slurm) {
  std::string host = scene.variable("SLURMD_NODENAME").value_or(scene.tree.line("/etc/hostname").value_or(""));
  slurm.gres = gres_in_slurm_conf(main, host);
  host = host.substr(0, host.find('.'));
  if (slurm.gres.empty()) slurm.gres = gres_in_slurm_conf(main, host);
  if (!slurm.gres.empty()) return;
  const auto own = scene.tree.read(folder + "/gres.conf");
  if (own) slurm.gres = gres_in_gres_conf(*own, host);
}

/// "23.11.4" of the package, or of the program that stands in PATH.
std::optional<std::string> version_of(const Scene& scene) {
  if (const auto package = scene.package({"slurmd", "slurm-slurmd", "slurm-wlm", "slurm", "slurm-client"})) {
    const std::string version = package->version.substr(package->version.find(':') + 1);
    return version.substr(0, version.find('-'));
  }
  const auto text = scene.output_of({"srun", "--version"});
  return text ? version_in(*text) : std::nullopt;
}

}  // namespace

void survey_slurm(const Scene& scene, facts::Environment& environment) {
  SlurmFacts slurm;
  const std::string folder = folder_of(scene);
  const auto main = scene.tree.read(folder + "/slurm.conf", std::size_t{8} << 20U);
  read_job(scene, slurm);
  if (!main && !slurm.job_id) return;
  if (const auto cgroup = scene.tree.read(folder + "/cgroup.conf"))
    slurm.constrain_devices = to_lower(slurm_value(*cgroup, "ConstrainDevices")) == "yes";
  read_resources(scene, folder, main.value_or(""), slurm);
  slurm.version = version_of(scene);
  environment.slurm = std::move(slurm);
}

}  // namespace gpuwarden::probe
