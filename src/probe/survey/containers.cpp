// SPDX-License-Identifier: Apache-2.0
// Containers: the one that this is, the engines here, and NVIDIA's toolkit for them.
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

/// By the marks that engines leave: files first, then what systemd's convention and cgroups tell.
std::string container_of(const Scene& scene) {
  const Tree& tree = scene.tree;
  if (scene.variable("KUBERNETES_SERVICE_HOST") || tree.exists("/run/secrets/kubernetes.io")) return "kubernetes";
  if (tree.exists("/.singularity.d") || scene.variable("APPTAINER_CONTAINER") ||
      scene.variable("SINGULARITY_CONTAINER"))
    return "apptainer";
  if (tree.exists("/run/.containerenv")) return "podman";
  const std::string cgroup = tree.read("/proc/1/cgroup").value_or("");
  if (cgroup.contains("kubepods")) return "kubernetes";
  if (tree.exists("/.dockerenv") || cgroup.contains("/docker")) return "docker";
  const auto said = scene.variable("container");
  if (said == "podman" || said == "docker" || said == "lxc") return *said;
  if (cgroup.contains("/lxc")) return "lxc";
  return "";
}

struct Engine {
  std::string_view name;
  std::initializer_list<std::string_view> packages;
};

/// "docker 26.1.0": the upstream part of a package's version.
std::string upstream(std::string_view version) {
  if (const std::size_t epoch = version.find(':'); epoch != std::string_view::npos) version.remove_prefix(epoch + 1);
  return std::string(version.substr(0, version.find_first_of("-+~")));
}

void read_engines(const Scene& scene, ContainerFacts& containers) {
  const auto engines = {Engine{"docker", {"docker-ce", "docker.io", "moby-engine", "docker"}},
                        Engine{"podman", {"podman"}},
                        Engine{"apptainer", {"apptainer"}},
                        Engine{"singularity", {"singularity-ce", "singularity-container", "singularity"}},
                        Engine{"enroot", {"enroot"}},
                        Engine{"containerd", {"containerd.io", "containerd"}},
                        Engine{"crio", {"cri-o"}}};
  constexpr auto kFolders = std::to_array<std::string_view>({"/usr/bin", "/usr/local/bin", "/usr/sbin", "/snap/bin"});
  for (const Engine& engine : engines) {
    const bool there = std::ranges::any_of(kFolders, [&](std::string_view folder) {
      return scene.tree.is_file(fmt::format("{}/{}", folder, engine.name));
    });
    if (!there) continue;
    const auto package = scene.package(engine.packages);
    containers.engines.push_back(std::string(engine.name) + (package ? " " + upstream(package->version) : ""));
  }
}

void read_docker_settings(const Tree& tree, const std::string& path, ContainerFacts& containers) {
  const auto settings = tree.read(path);
  const auto json = settings ? nlohmann::json::parse(*settings, nullptr, false) : nlohmann::json();
  if (!json.is_object()) return;
  if (const auto runtimes = json.find("runtimes"); runtimes != json.end() && runtimes->is_object()) {
    for (const auto& [name, value] : runtimes->items()) containers.runtimes.push_back(printable(name));
  }
  if (const auto name = json.find("default-runtime"); name != json.end() && name->is_string())
    containers.default_runtime = printable(name->get<std::string>());
}

void read_specifications(const Tree& tree, ContainerFacts& containers) {
  std::vector<std::string> seen;
  for (const std::string folder : {"/etc/cdi", "/var/run/cdi", "/run/cdi"}) {
    const auto real = tree.resolve(folder);
    if (!real || std::ranges::find(seen, real->native()) != seen.end()) continue;
    seen.push_back(*real);
    for (const std::string& name : tree.names(folder)) {
      const bool specification = name.ends_with(".yaml") || name.ends_with(".json");
      const std::string path = fmt::format("{}/{}", folder, name);
      const auto text = specification ? tree.read(path, 65536) : std::nullopt;
      if (text && (name.contains("nvidia") || text->contains("nvidia.com/")))
        containers.cdi_specifications.push_back(path);
    }
  }
}

/// "unknown" where only the program is there.
std::optional<std::string> toolkit_of(const Scene& scene) {
  if (const auto package = scene.package({"nvidia-container-toolkit", "nvidia-container-toolkit-base"}))
    return upstream(package->version);
  if (!scene.tree.is_file("/usr/bin/nvidia-ctk") && !scene.tree.is_file("/usr/local/nvidia/toolkit/nvidia-ctk"))
    return std::nullopt;
  const auto text = scene.output_of({"nvidia-ctk", "--version"});
  return (text ? version_in(*text) : std::nullopt).value_or("unknown");
}

}  // namespace

void survey_containers(const Scene& scene, Environment& environment) {
  ContainerFacts& containers = environment.containers;
  containers.inside = container_of(scene);
  read_engines(scene, containers);
  read_docker_settings(scene.tree, "/etc/docker/daemon.json", containers);
  read_docker_settings(scene.tree, scene.home() + "/.config/docker/daemon.json", containers);  // without root
  read_specifications(scene.tree, containers);
  containers.toolkit_version = toolkit_of(scene);
}

}  // namespace gpuwarden::probe
