// SPDX-License-Identifier: Apache-2.0
// System services: what runs, what is installed and stopped, what has failed.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

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
                                                 {"nvidia-cuda-mps", "nvidia-mps"},
                                                 {"dcgm-exporter", "dcgm-exporter"},
                                                 {"slurmstepd", "slurmstepd"},
                                                 {"crio", "crio"},
                                                 {"k3s-server", "k3s"},
                                                 {"k3s-agent", "k3s"}});

/// Units whose presence on disk matters even where nothing runs.
constexpr auto kUnits =
    std::to_array<std::string_view>({"nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-dcgm"});

Service* find(std::vector<Service>& services, std::string_view name) {
  const auto found = std::ranges::find(services, name, &Service::name);
  return found == services.end() ? nullptr : &*found;
}

void note_running(const Tree& tree, std::vector<Service>& services) {
  for (const std::string& pid : tree.names("/proc")) {
    if (!parse_integer(pid)) continue;
    const std::string name = tree.line("/proc/" + pid + "/comm").value_or("");
    const auto* const daemon = std::ranges::find(kDaemons, name, &Daemon::process);
    if (daemon != kDaemons.end() && find(services, daemon->service) == nullptr)
      services.push_back({std::string(daemon->service), "running", std::nullopt});
  }
}

void note_installed(const Tree& tree, std::vector<Service>& services) {
  constexpr auto kFolders =
      std::to_array<std::string_view>({"/lib/systemd/system", "/usr/lib/systemd/system", "/etc/systemd/system"});
  for (const std::string_view unit : kUnits) {
    const bool there = std::ranges::any_of(
        kFolders, [&](std::string_view folder) { return tree.exists(fmt::format("{}/{}.service", folder, unit)); });
    if (there && find(services, unit) == nullptr) services.push_back({std::string(unit), "stopped", std::nullopt});
  }
}

/// "Id=nvidia-dcgm.service" and "ActiveState=failed" in blocks between empty lines.
void note_failed(const Scene& scene, Environment& environment) {
  auto& services = environment.services;
  const bool any = std::ranges::any_of(services, [](const Service& service) { return service.state == "stopped"; });
  if (!any || !scene.tree.exists("/run/systemd/system")) return;
  Scene::Program program{{"systemctl", "show", "--property=Id,ActiveState"}, scene.request.deadline};
  for (const std::string_view unit : kUnits) program.argv.push_back(std::string(unit) + ".service");
  const auto text = scene.run(program);
  if (!text) return note_failure(environment, "systemctl show", text.error());
  std::string_view unit;
  std::string_view state;
  for (const auto line : split(*text, '\n')) {
    if (line.starts_with("Id=")) unit = line.substr(3, line.rfind(".service") - 3);
    if (line.starts_with("ActiveState=")) state = line.substr(12);
    if (!line.empty() || unit.empty()) continue;
    Service* service = find(services, unit);
    if (service != nullptr && state == "failed") service->state = "failed";
    unit = {};
  }
}

/// The installed package's; else what the program says of itself.
void read_version(const Scene& scene, Service& service) {
  const auto say = [&](std::optional<NamedVersion> package, const char* program) {
    if (package) {
      const std::string version = package->version.substr(package->version.find(':') + 1);
      service.version = version.substr(0, version.find('-'));
      return;
    }
    const auto text = scene.output_of({program, "--version"});
    if (text) service.version = version_in(*text);
  };
  if (service.name == "nvidia-fabricmanager")
    say(scene.package({"nvidia-fabricmanager", "nvidia-fabricmanager-*", "nvidia-fabric-manager"}), "nv-fabricmanager");
  if (service.name == "nvidia-imex") say(scene.package({"nvidia-imex", "nvidia-imex-*"}), "nvidia-imex");
  if (service.name == "nvidia-dcgm")
    say(scene.package({"datacenter-gpu-manager-4-core", "datacenter-gpu-manager"}), "nv-hostengine");
}

}  // namespace

void survey_services(const Scene& scene, Environment& environment) {
  note_running(scene.tree, environment.services);
  note_installed(scene.tree, environment.services);
  note_failed(scene, environment);
  for (Service& service : environment.services) read_version(scene, service);
  if (facts::find_service(environment, "kubelet") == nullptr) return;
  const auto sockets = scene.tree.names("/var/lib/kubelet/device-plugins");
  const bool plugged = std::ranges::any_of(sockets, [](const std::string& name) { return name.contains("nvidia"); });
  environment.containers.kubernetes_device_plugin =
      plugged || facts::find_service(environment, "nvidia-device-plugin") != nullptr;
}

}  // namespace gpuwarden::probe
