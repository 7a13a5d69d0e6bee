// SPDX-License-Identifier: Apache-2.0
// What all probes share: programs with a deadline, the caller's variables, the distribution's packages.
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

/// A program ends this long before its probe has to, so that the probe can still tell what it found.
constexpr auto kMargin = std::chrono::milliseconds(100);

bool fits(std::string_view name, std::string_view wanted) {
  return wanted.ends_with('*') ? name.starts_with(wanted.substr(0, wanted.size() - 1)) : name == wanted;
}

/// "nvidia-utils-550.54.14-1": Arch Linux keeps a folder for each package.
std::vector<NamedVersion> pacman_packages(const Tree& tree) {
  std::vector<NamedVersion> packages;
  for (const std::string& folder : tree.names("/var/lib/pacman/local")) {
    const std::size_t release = folder.rfind('-');
    const std::size_t version = release == std::string::npos || release == 0 ? release : folder.rfind('-', release - 1);
    if (version == std::string::npos || version == 0) continue;
    packages.push_back({printable(folder.substr(0, version)), printable(folder.substr(version + 1))});
  }
  return packages;
}

bool has_rpm(const Tree& tree) {
  return tree.is_folder("/usr/lib/sysimage/rpm") || tree.is_file("/var/lib/rpm/rpmdb.sqlite") ||
         tree.is_file("/var/lib/rpm/Packages") || tree.is_file("/var/lib/rpm/Packages.db");
}

/// Asks by name: listing all packages of a machine takes rpm most of a second.
Result<std::vector<NamedVersion>> rpm_packages(const Scene& scene) {
  Scene::Program program{{"rpm", "-q", "--qf", "%{NAME}\t%{VERSION}-%{RELEASE}\n"}, scene.request.deadline};
  program.any_exit_code = true;  // of those that are not installed
  for (const char* name : {"nvidia-driver",
                           "nvidia-driver-cuda",
                           "kmod-nvidia-latest-dkms",
                           "kmod-nvidia-open-dkms",
                           "akmod-nvidia",
                           "nvidia-open",
                           "xorg-x11-drv-nvidia",
                           "cuda-drivers",
                           "nvidia-open-driver-G06-signed-kmp-default",
                           "nvidia-driver-G06-kmp-default",
                           "nvidia-fabricmanager",
                           "nvidia-fabric-manager",
                           "nvidia-imex",
                           "datacenter-gpu-manager",
                           "datacenter-gpu-manager-4-core",
                           "nvidia-container-toolkit",
                           "docker-ce",
                           "moby-engine",
                           "podman",
                           "apptainer",
                           "singularity-ce",
                           "enroot",
                           "slurm",
                           "slurm-slurmd",
                           "libnccl",
                           "libcudnn8",
                           "libcudnn9-cuda-12",
                           "libcudnn9-cuda-13",
                           "tensorrt"})
    program.argv.emplace_back(name);
  GPUWARDEN_TRY(const std::string text, scene.run(program));
  std::vector<NamedVersion> packages;
  for (const auto line : split(text, '\n')) {
    const std::size_t tab = line.find('\t');
    if (tab != std::string_view::npos)
      packages.push_back({printable(line.substr(0, tab)), printable(line.substr(tab + 1))});
  }
  return packages;
}

}  // namespace

Result<std::string> Scene::run(const Program& program) const {
  if (!request.start_programs || !tree.is_live())
    return fail(ErrorCode::unavailable, "programs are not started in this survey");
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()) - kMargin;
  const auto deadline = std::min(program.deadline, left);
  if (deadline.count() <= 0) return fail(ErrorCode::timed_out, "no time was left");
  gpuwarden::Environment variables = request.variables;
  variables["LC_ALL"] = "C";
  GPUWARDEN_TRY(const Completed done, run_command({.argv = program.argv,
                                                   .environment = std::move(variables),
                                                   .deadline = deadline,
                                                   .output_cap = program.output_cap,
                                                   .dies_with_caller = true}));
  if (done.timed_out) return fail(ErrorCode::timed_out, fmt::format("no answer within {}", format_duration(deadline)));
  if (done.signal) return fail(ErrorCode::failed, fmt::format("it was killed by signal {}", *done.signal));
  if (done.exit_code != 0 && !program.any_exit_code)
    return fail(ErrorCode::failed, fmt::format("it ended with code {}", done.exit_code.value_or(-1)));
  return done.standard_output;
}

std::optional<std::string> Scene::output_of(std::vector<std::string> argv) const {
  auto text = run({.argv = std::move(argv), .deadline = request.deadline});
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

std::optional<std::string> Scene::variable(const std::string& name) const {
  const auto found = request.variables.find(name);
  return found == request.variables.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Scene::folders(const std::string& name) const {
  constexpr std::size_t kMost = 256;
  std::vector<std::string> folders;
  const std::string path = variable(name).value_or("");
  for (const auto folder : split(path, ':')) {
    if (folder.starts_with('/') && folders.size() < kMost) folders.emplace_back(folder);
  }
  return folders;
}

std::string Scene::home() const {
  const auto home = variable("HOME");
  return home && home->starts_with('/') ? *home : "/root";
}

const std::vector<NamedVersion>& Scene::packages() const {
  if (packages_) return *packages_;
  constexpr std::size_t kMostBytes = std::size_t{32} << 20U;
  const auto status = tree.read("/var/lib/dpkg/status", kMostBytes);
  if (status && !status->empty()) {
    packages_ = packages_in_dpkg_status(*status);
  } else if (tree.is_folder("/var/lib/pacman/local")) {
    packages_ = pacman_packages(tree);
  } else if (has_rpm(tree)) {
    packages_ = rpm_packages(*this).value_or(std::vector<NamedVersion>{});
  } else {
    packages_.emplace();
  }
  return *packages_;
}

std::optional<NamedVersion> Scene::package(std::initializer_list<std::string_view> names) const {
  for (const std::string_view wanted : names) {
    const auto found =
        std::ranges::find_if(packages(), [&](const NamedVersion& one) { return fits(one.name, wanted); });
    if (found != packages().end()) return *found;
  }
  return std::nullopt;
}

void survey_packages(const Scene& scene, facts::Environment& environment) {
  if (!scene.packages().empty() || !has_rpm(scene.tree)) return;
  note(environment, "packages", scene.tree.is_live() ? "rpm gave no answer" : "rpm's database is not read as a file");
}

void note(facts::Environment& environment, std::string_view what, std::string_view reason) {
  const facts::NotProbed entry{printable(what), printable(reason)};
  if (std::ranges::find(environment.not_probed, entry) == environment.not_probed.end())
    environment.not_probed.push_back(entry);
}

void note_failure(facts::Environment& environment, std::string_view what, const Error& error) {
  if (error.code != ErrorCode::unavailable && error.code != ErrorCode::not_found)
    note(environment, what, error.message);
}

}  // namespace gpuwarden::probe
