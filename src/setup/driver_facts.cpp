// SPDX-License-Identifier: Apache-2.0
// What a driver plan needs to know of a machine besides its GPUs, read from files below a root: package state,
// services, sessions, module, DKMS. Facts that a survey has already gathered stay as they are.
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/setup/driver.hpp"
#include "setup/driver_shell.hpp"

namespace gpuwarden::setup {

namespace fs = std::filesystem;

namespace {

using facts::ModuleFlavour;

/// The UEFI variable that tells of Secure Boot: four bytes of attributes, then 1 or 0 (source: UEFI specification 3.3).
constexpr std::string_view kSecureBoot = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
constexpr std::string_view kCudaRepository = "developer.download.nvidia.com/compute/cuda/repos";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool matches_one(std::string_view name, std::string_view patterns) {
  const std::string text(name);
  return std::ranges::any_of(split(patterns, '|'), [&](std::string_view pattern) {
    return ::fnmatch(std::string(pattern).c_str(), text.c_str(), 0) == 0;
  });
}

/// NAME=value or NAME="value" of a file such as os-release.
std::optional<std::string> assignment(std::string_view text, std::string_view name) {
  for (const auto line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || line.substr(0, equals) != name) continue;
    auto value = trim(line.substr(equals + 1));
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'')) value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return std::nullopt;
}

/// "Name: value" of one stanza of dpkg's status.
std::string_view field(std::string_view stanza, std::string_view name) {
  for (const auto line : split(stanza, '\n')) {
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':')
      return trim(line.substr(name.size() + 1));
  }
  return {};
}

struct Owner {
  bool nvidia = false;
  bool distribution = false;
};

void take_stanza(std::string_view stanza, DriverFacts& facts, Owner& owner) {
  const auto name = field(stanza, "Package");
  if (!is_driver_package(name)) return;
  const auto status = split_words(field(stanza, "Status"));
  if (status.size() != 3 || status[2] == "config-files" || status[2] == "not-installed") return;
  facts.packages.push_back({.name = std::string(name),
                            .version = std::string(field(stanza, "Version")),
                            .held = status[0] == "hold",
                            .broken = status[1] != "ok" || status[2] != "installed"});
  const bool nvidia = contains_ignoring_case(field(stanza, "Maintainer"), "nvidia.com");
  (nvidia ? owner.nvidia : owner.distribution) = true;
}

void read_dpkg(const fs::path& root, DriverFacts& facts) {
  const auto status = read_file(root / "var/lib/dpkg/status");
  if (!status) return;
  facts.manager = PackageManager::apt;
  Owner owner;
  std::string_view rest = *status;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    take_stanza(rest.substr(0, end), facts, owner);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 2);
  }
  if (owner.nvidia) facts.packaging = Packaging::cuda_repository;
  if (!owner.nvidia && owner.distribution) facts.packaging = Packaging::distribution;
}

void read_rpm(const fs::path& root, DriverFacts& facts) {
  const bool zypper = is_there(root / "usr/bin/zypper");
  if (!zypper && !is_there(root / "usr/bin/dnf") && !is_there(root / "usr/bin/yum")) return;
  facts.manager = zypper ? PackageManager::zypper : PackageManager::dnf;
  const auto done =
      run_command({.argv = {"rpm", "--root", root.string(), "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"}});
  if (!done || done->exit_code != 0) return;
  for (const auto line : split(done->standard_output, '\n')) {
    const auto words = split_words(line);
    if (words.size() == 2 && is_driver_package(words[0]))
      facts.packages.push_back({.name = std::string(words[0]), .version = std::string(words[1])});
  }
  if (!facts.packages.empty()) facts.packaging = Packaging::cuda_repository;
}

bool mentions_repository(const fs::path& folder) {
  return std::ranges::any_of(list_directory(folder), [](const fs::path& file) {
    const auto text = read_file(file, std::size_t{1} << 20U);
    return text && text->contains(kCudaRepository);
  });
}

void read_packages(const fs::path& root, DriverFacts& facts) {
  read_dpkg(root, facts);
  if (facts.manager == PackageManager::none) read_rpm(root, facts);
  std::ranges::sort(facts.packages, {}, &InstalledPackage::name);
  if (facts.packages.empty() && (is_there(root / "usr/bin/nvidia-uninstall") || is_there(root / "var/lib/nvidia/log")))
    facts.packaging = Packaging::runfile;
  const auto single = read_file(root / "etc/apt/sources.list", std::size_t{1} << 20U);
  facts.cuda_repository =
      (single && single->contains(kCudaRepository)) ||
      std::ranges::any_of(std::array{"etc/apt/sources.list.d", "etc/yum.repos.d", "etc/zypp/repos.d"},
                          [&](const char* folder) { return mentions_repository(root / folder); });
  facts.dkms =
      is_there(root / "usr/sbin/dkms") || is_there(root / "usr/bin/dkms") || is_there(root / "usr/local/sbin/dkms");
}

void read_sessions(const fs::path& root, DriverFacts& facts) {
  const auto named = read_line(root / "etc/X11/default-display-manager");
  std::error_code ignored;
  const fs::path unit = fs::read_symlink(root / "etc/systemd/system/display-manager.service", ignored);
  if (!unit.empty()) {
    facts.display_manager = unit.stem().string();
  } else if (named && !named->empty()) {
    facts.display_manager = fs::path(*named).filename().string();
  } else {
    facts.display_manager = "";
  }
  // systemd-logind's own records of sessions.
  for (const auto& file : list_directory(root / "run/systemd/sessions")) {
    const auto text = read_file(file, std::size_t{1} << 16U);
    if (!text || assignment(*text, "CLASS") != "user" || assignment(*text, "STATE") == "closing") continue;
    const auto type = assignment(*text, "TYPE").value_or("");
    if (type != "x11" && type != "wayland" && type != "mir") continue;
    facts.sessions.push_back(printable(fmt::format("{} on {}", assignment(*text, "USER").value_or("somebody"),
                                                   assignment(*text, "DISPLAY").value_or(type))));
  }
}

void read_host(const fs::path& root, facts::Host& host) {
  if (const auto release = read_file(root / "etc/os-release", std::size_t{1} << 16U); release && !host.distribution) {
    host.distribution = assignment(*release, "ID");
    host.distribution_version = assignment(*release, "VERSION_ID");
    host.distribution_name = assignment(*release, "PRETTY_NAME");
  }
  if (host.installed_kernels.empty()) {
    for (const auto& folder : list_directory(root / "lib/modules"))
      host.installed_kernels.push_back(folder.filename().string());
  }
  utsname name{};
  if (!host.kernel && root == "/" && ::uname(&name) == 0) host.kernel = name.release;
  if (!host.machine && ::uname(&name) == 0) host.machine = name.machine;
  if (!host.kernel && !host.installed_kernels.empty()) host.kernel = host.installed_kernels.back();
  if (!host.kernel_headers && host.kernel)
    host.kernel_headers = is_there(root / "lib/modules" / *host.kernel / "build") ||
                          is_there(root / "usr/src" / ("linux-headers-" + *host.kernel));
  if (!host.root) host.root = ::geteuid() == 0;
  if (!host.secure_boot) {
    if (const auto variable = read_file(root / kSecureBoot, 64); variable && variable->size() >= 5)
      host.secure_boot = (*variable)[4] == 1;
  }
  if (!host.wsl) {
    const auto version = read_line(root / "proc/version");
    host.wsl = version && contains_ignoring_case(*version, "microsoft") ? 2 : 0;
  }
  for (const char* mount : {"/", "/boot", "/var"}) {
    struct statvfs room{};
    if (std::ranges::find(host.file_systems, mount, &facts::FileSystem::mount) != host.file_systems.end()) continue;
    if (::statvfs((root / fs::path(mount).relative_path()).c_str(), &room) != 0) continue;
    host.file_systems.push_back({mount, Bytes(room.f_blocks * room.f_frsize), Bytes(room.f_bavail * room.f_frsize)});
  }
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 ..."; the open one says so.
void read_loaded(const fs::path& root, facts::KernelDriver& driver) {
  const auto line = read_line(root / "proc/driver/nvidia/version");
  if (!driver.loaded_version && line) {
    const auto words = split_words(*line);
    for (const auto word : words) {
      if (!driver.loaded_version && word.contains('.') && knowledge::Version::parse(word)) driver.loaded_version = word;
    }
    if (!driver.flavour)
      driver.flavour = line->contains("Open Kernel Module") ? ModuleFlavour::open : ModuleFlavour::proprietary;
  }
  if (!driver.loaded_version) driver.loaded_version = read_line(root / "sys/module/nvidia/version");
  if (!driver.loaded_modules.empty()) return;
  const auto modules = read_file(root / "proc/modules", std::size_t{1} << 20U);
  if (!modules) return;
  for (const auto entry : split(*modules, '\n')) {
    const auto name = entry.substr(0, entry.find(' '));
    if (name.starts_with("nvidia") || name == "nouveau") driver.loaded_modules.emplace_back(name);
  }
}

void read_dkms(const fs::path& root, facts::KernelDriver& driver) {
  if (driver.dkms_version || !driver.dkms_built_for.empty()) return;
  knowledge::Version newest;
  for (const auto& module : list_directory(root / "var/lib/dkms")) {
    if (!module.filename().string().starts_with("nvidia")) continue;
    for (const auto& version : list_directory(module)) {
      const auto number = knowledge::Version::parse(version.filename().string());
      if (!number || *number < newest) continue;
      newest = *number;
      driver.dkms_version = version.filename().string();
      driver.dkms_built_for.clear();
      for (const auto& kernel : list_directory(version)) {
        const std::string name = kernel.filename();
        if (name != "source" && name != "build") driver.dkms_built_for.push_back(name);
      }
    }
  }
}

void read_libraries(const fs::path& root, facts::KernelDriver& driver) {
  if (driver.library_version) return;
  for (const char* folder : {"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib",
                             "usr/lib/x86_64-linux-gnu/nvidia/current"}) {
    for (const auto& file : list_directory(root / folder)) {
      const std::string name = file.filename();
      constexpr std::string_view kPrefix = "libnvidia-ml.so.";
      if (!name.starts_with(kPrefix) || !name.substr(kPrefix.size()).contains('.')) continue;
      driver.library_version = name.substr(kPrefix.size());
      return;
    }
  }
}

/// "535.183.01" of "1:535.183.01-1~deb12u1".
std::string upstream_of(std::string_view version) {
  const std::size_t colon = version.find(':');
  if (colon != std::string_view::npos) version.remove_prefix(colon + 1);
  return std::string(version.substr(0, version.find_first_not_of("0123456789.")));
}

void read_driver(const fs::path& root, const DriverFacts& facts, facts::Environment& environment) {
  facts::KernelDriver& driver = environment.driver;
  read_loaded(root, driver);
  read_dkms(root, driver);
  read_libraries(root, driver);
  if (!driver.firmware_version) {
    for (const auto& folder : list_directory(root / "lib/firmware/nvidia")) {
      if (is_there(folder / "gsp_tu10x.bin") || is_there(folder / "gsp_ga10x.bin"))
        driver.firmware_version = folder.filename().string();
    }
  }
  static constexpr auto kMain = std::to_array<std::string_view>(
      {"nvidia-driver", "cuda-drivers", "nvidia-open", "nvidia-kernel-dkms", "nvidia-driver-*", "nvidia-headless-*"});
  for (const auto pattern : kMain) {
    const auto found = std::ranges::find_if(facts.packages, [&](const InstalledPackage& package) {
      return matches_one(package.name, pattern) && !package.name.starts_with("nvidia-driver-pinning");
    });
    if (found == facts.packages.end()) continue;
    if (!driver.package) driver.package = fmt::format("{} {}", found->name, found->version);
    if (!driver.on_disk_version) driver.on_disk_version = upstream_of(found->version);
    break;
  }
  if (!driver.on_disk_version && facts.packaging == Packaging::runfile) driver.on_disk_version = driver.library_version;
  if (!driver.flavour && std::ranges::any_of(facts.packages, [](const InstalledPackage& package) {
        return package.name.contains("open") && !package.name.contains("opencl");
      }))
    driver.flavour = ModuleFlavour::open;
  for (const InstalledPackage& package : facts.packages) {
    if (!package.name.starts_with("nvidia-fabricmanager") || package.name.contains("-dev")) continue;
    if (facts::find_service(environment, "nvidia-fabricmanager") == nullptr)
      environment.services.push_back({"nvidia-fabricmanager", "stopped", upstream_of(package.version)});
  }
}

void read_machine_owner_key(const fs::path& root, DriverFacts& facts) {
  if (root != "/" || facts.snapshot.environment->host.secure_boot != true || facts.machine_owner_key) return;
  for (const char* key : {"/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub"}) {
    if (!is_there(key)) continue;
    const auto done = run_command({.argv = {"mokutil", "--test-key", key}, .deadline = std::chrono::seconds(5)});
    if (!done || done->timed_out) continue;
    facts.machine_owner_key =
        facts.machine_owner_key.value_or(false) || done->standard_output.contains("already enrolled");
  }
}

}  // namespace

bool is_driver_package(std::string_view name) {
  return !matches_one(name, kNotDriverPackages) && matches_one(name, kDriverPackages);
}

void read_driver_facts(const fs::path& root, DriverFacts& facts) {
  if (!facts.snapshot.environment) facts.snapshot.environment.emplace();
  facts::Environment& environment = *facts.snapshot.environment;
  read_packages(root, facts);
  read_sessions(root, facts);
  read_host(root, environment.host);
  read_driver(root, facts, environment);
  if (!environment.containers.inside && (is_there(root / ".dockerenv") || is_there(root / "run/.containerenv")))
    environment.containers.inside = is_there(root / ".dockerenv") ? "docker" : "podman";
  if (environment.compilers.empty()) {
    for (const char* name : {"gcc", "cc", "clang"}) {
      if (is_there(root / "usr/bin" / name))
        environment.compilers.push_back({name, "", fmt::format("/usr/bin/{}", name)});
    }
  }
  if (!facts.nvswitch) {
    facts.nvswitch =
        !list_directory(root / "proc/driver/nvidia-nvswitch/devices").empty() ||
        std::ranges::any_of(facts.snapshot.gpus, [](const auto& one) { return one.gpu.fabric.has_value(); });
  }
  read_machine_owner_key(root, facts);
}

}  // namespace gpuwarden::setup
