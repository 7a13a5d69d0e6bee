// SPDX-License-Identifier: Apache-2.0
// Containers, system services, Slurm.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::ContainerFacts;
using facts::Environment;
using facts::Service;

struct Daemon {
  std::string_view process;  ///< /proc/PID/comm (15 characters at most)
  std::string_view service;
};

constexpr auto kDaemons = std::to_array<Daemon>({{"nvidia-persiste", "nvidia-persistenced"},
                                                 {"nv-fabricmanage", "nvidia-fabricmanager"},
                                                 {"nvidia-imex", "nvidia-imex"},
                                                 {"nv-hostengine", "nvidia-dcgm"},
                                                 {"nvsm_core", "nvsm"},
                                                 {"dockerd", "docker"},
                                                 {"containerd", "containerd"},
                                                 {"slurmd", "slurmd"},
                                                 {"kubelet", "kubelet"},
                                                 {"nvidia-device-p", "nvidia-device-plugin"},
                                                 {"Xorg", "Xorg"},
                                                 {"gdm3", "gdm3"},
                                                 {"gdm", "gdm"},
                                                 {"sddm", "sddm"},
                                                 {"lightdm", "lightdm"},
                                                 {"nvidia-cuda-mps", "nvidia-mps"}});

/// Units whose presence on disk matters even where nothing runs.
constexpr auto kUnits =
    std::to_array<std::string_view>({"nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-dcgm"});

/// The version of an installed Debian package.
std::optional<std::string> package_version(const Tree& tree, std::string_view wanted) {
  const std::string text = tree.read("/var/lib/dpkg/status", std::size_t{64} << 20U).value_or("");
  const std::string head = fmt::format("\nPackage: {}", wanted);
  for (std::size_t at = ("\n" + text).find(head); at != std::string::npos; at = text.find(head, at + 1)) {
    const std::string_view stanza = std::string_view(text).substr(at, text.find("\n\n", at) - at);
    const std::size_t version = stanza.find("\nVersion: ");
    if (version == std::string_view::npos || !stanza.contains(" installed")) continue;
    std::string_view number = stanza.substr(version + 10);
    number = number.substr(0, number.find('\n'));
    if (const std::size_t epoch = number.find(':'); epoch != std::string_view::npos) number.remove_prefix(epoch + 1);
    return printable(number.substr(0, number.find('-')));
  }
  return std::nullopt;
}

void note_running(const Tree& tree, std::vector<Service>& services) {
  for (const std::string& pid : tree.names("/proc")) {
    if (!parse_integer(pid)) continue;
    const std::string name = tree.line("/proc/" + pid + "/comm").value_or("");
    const auto* const daemon = std::ranges::find(kDaemons, name, &Daemon::process);
    if (daemon == kDaemons.end()) continue;
    if (std::ranges::find(services, daemon->service, &Service::name) == services.end())
      services.push_back({std::string(daemon->service), "running", std::nullopt});
  }
}

void note_installed(const Tree& tree, std::vector<Service>& services) {
  for (const std::string_view unit : kUnits) {
    const bool there = std::ranges::any_of(
        std::to_array<std::string_view>({"/lib/systemd/system", "/usr/lib/systemd/system", "/etc/systemd/system"}),
        [&](std::string_view folder) { return tree.exists(fmt::format("{}/{}.service", folder, unit)); });
    if (there && std::ranges::find(services, unit, &Service::name) == services.end())
      services.push_back({std::string(unit), "stopped", std::nullopt});
  }
}

/// Which container this is, by the marks that engines leave.
std::string container_of(const Scene& scene) {
  const Tree& tree = scene.tree;
  if (scene.variable("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  if (tree.exists("/.singularity.d") || scene.variable("APPTAINER_CONTAINER")) return "apptainer";
  if (tree.exists("/run/.containerenv")) return "podman";
  if (tree.exists("/.dockerenv")) return "docker";
  const std::string cgroup = tree.read("/proc/1/cgroup").value_or("");
  if (cgroup.contains("kubepods")) return "kubernetes";
  if (cgroup.contains("/docker")) return "docker";
  if (cgroup.contains("/lxc")) return "lxc";
  return "";
}

void read_engines(const Scene& scene, ContainerFacts& containers) {
  constexpr auto kEngines = std::to_array<std::string_view>({"docker", "podman", "apptainer", "singularity", "enroot"});
  for (const std::string_view engine : kEngines) {
    const bool there = scene.tree.is_file(fmt::format("/usr/bin/{}", engine)) ||
                       scene.tree.is_file(fmt::format("/usr/local/bin/{}", engine));
    if (there) containers.engines.emplace_back(engine);
  }
  const auto settings = scene.tree.read("/etc/docker/daemon.json");
  const auto json = settings ? nlohmann::json::parse(*settings, nullptr, false) : nlohmann::json();
  if (!json.is_object()) return;
  if (const auto runtimes = json.find("runtimes"); runtimes != json.end() && runtimes->is_object()) {
    for (const auto& [name, value] : runtimes->items()) containers.runtimes.push_back(printable(name));
  }
  if (const auto name = json.find("default-runtime"); name != json.end() && name->is_string())
    containers.default_runtime = printable(name->get<std::string>());
}

/// The value of KEY=value in Slurm's configuration files, case as written; empty where it is not set.
std::string slurm_value(std::string_view text, std::string_view key) {
  for (const auto raw : split(text, '\n')) {
    const std::string_view line = trim(raw.substr(0, raw.find('#')));
    if (to_lower(line.substr(0, key.size() + 1)) == to_lower(key) + "=")
      return printable(trim(line.substr(key.size() + 1)));
  }
  return "";
}

}  // namespace

void survey_containers(const Scene& scene, Environment& environment) {
  ContainerFacts& containers = environment.containers;
  containers.inside = container_of(scene);
  read_engines(scene, containers);
  for (const std::string folder : {"/etc/cdi", "/var/run/cdi", "/run/cdi"}) {
    for (const std::string& name : scene.tree.names(folder)) {
      if (name.contains("nvidia") && (name.ends_with(".yaml") || name.ends_with(".json")))
        containers.cdi_specifications.push_back(folder + "/" + name);
    }
  }
  containers.toolkit_version = package_version(scene.tree, "nvidia-container-toolkit\n");
  if (!containers.toolkit_version && scene.tree.is_file("/usr/bin/nvidia-ctk")) {
    const auto text = scene.run({"nvidia-ctk", "--version"}, scene.request.deadline);
    const std::size_t at = text ? text->find("version ") : std::string::npos;
    containers.toolkit_version =
        at == std::string::npos ? "unknown" : printable(trim(text->substr(at + 8, text->find('\n') - at - 8)));
  }
}

void survey_services(const Scene& scene, Environment& environment) {
  note_running(scene.tree, environment.services);
  note_installed(scene.tree, environment.services);
  for (Service& service : environment.services) {
    if (service.name == "nvidia-fabricmanager") service.version = package_version(scene.tree, "nvidia-fabricmanager");
  }
  const bool kubelet = facts::find_service(environment, "kubelet") != nullptr;
  if (kubelet)
    environment.containers.kubernetes_device_plugin =
        facts::find_service(environment, "nvidia-device-plugin") != nullptr;
}

void survey_slurm(const Scene& scene, Environment& environment) {
  facts::SlurmFacts slurm;
  const Tree& tree = scene.tree;
  const std::string folder = tree.is_folder("/etc/slurm") ? "/etc/slurm" : "/etc/slurm-llnl";
  const auto cgroup = tree.read(folder + "/cgroup.conf");
  const auto main = tree.read(folder + "/slurm.conf");
  slurm.job_id = scene.variable("SLURM_JOB_ID");
  if (!main && !slurm.job_id) return;
  if (cgroup) slurm.constrain_devices = to_lower(slurm_value(*cgroup, "ConstrainDevices")) == "yes";
  if (slurm.job_id) {
    const std::string granted =
        scene.variable("SLURM_STEP_GPUS").value_or(scene.variable("SLURM_JOB_GPUS").value_or(""));
    for (const auto gpu : split(granted, ',')) {
      if (!trim(gpu).empty()) slurm.granted_gpus.emplace_back(trim(gpu));
    }
    const auto wanted = parse_integer(scene.variable("SLURM_GPUS_ON_NODE").value_or(""));
    if (wanted && *wanted > 0 && *wanted < 1024) slurm.gpus_requested = static_cast<int>(*wanted);
  }
  // "NodeName=gpu[01-04] Gres=gpu:a100:4 ...": this machine's line is the one whose name has no other's beginning.
  const std::string host = tree.line("/etc/hostname").value_or("");
  for (const auto line : split(main.value_or(""), '\n')) {
    const auto words = split_words(line);
    if (words.empty() || !words[0].starts_with("NodeName=")) continue;
    const std::string_view name = words[0].substr(9);
    const std::string_view stem = name.substr(0, name.find_first_of("[0123456789"));
    if (host.empty() || stem.empty() || !std::string_view(host).starts_with(stem)) continue;
    for (const auto word : words) {
      if (!word.starts_with("Gres=")) continue;
      for (const auto gres : split(word.substr(5), ',')) slurm.gres.emplace_back(gres);
    }
  }
  environment.slurm = std::move(slurm);
}

}  // namespace gpuwarden::probe
