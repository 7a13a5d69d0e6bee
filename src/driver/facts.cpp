// SPDX-License-Identifier: Apache-2.0
// What a driver plan needs to know of a machine besides its GPUs, read from files below a root: packages,
// sessions, devices. The rest comes from a survey of the same root.
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "driver/distributions.hpp"
#include "driver/repositories.hpp"
#include "driver/shell.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/driver.hpp"
#include "gpuwarden/knowledge/gpu_boards.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::driver {

namespace fs = std::filesystem;

namespace {

using facts::ModuleFlavour;

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
  if (facts.packages.empty()) return;
  // RPM Fusion's, for Fedora and its kin.
  const bool fusion = std::ranges::any_of(facts.packages, [](const InstalledPackage& package) {
    return package.name.starts_with("akmod-nvidia") || package.name.starts_with("xorg-x11-drv-nvidia");
  });
  facts.packaging = fusion ? Packaging::distribution : Packaging::cuda_repository;
}

void read_packages(const fs::path& root, DriverFacts& facts) {
  read_dpkg(root, facts);
  if (facts.manager == PackageManager::none) read_rpm(root, facts);
  std::ranges::sort(facts.packages, {}, &InstalledPackage::name);
  if (facts.packages.empty() && (is_there(root / "usr/bin/nvidia-uninstall") || is_there(root / "var/lib/nvidia/log")))
    facts.packaging = Packaging::runfile;
  facts.cuda_repository = has_cuda_repository(root);
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

/// What a survey does not look at below another root, and file systems that only matter here.
void read_host(const fs::path& root, facts::Host& host) {
  utsname name{};
  if (!host.machine && ::uname(&name) == 0) host.machine = name.machine;
  if (!host.root) host.root = ::geteuid() == 0;
  for (const char* mount : {"/", "/boot", "/var"}) {
    struct statvfs room{};
    if (std::ranges::find(host.file_systems, mount, &facts::FileSystem::mount) != host.file_systems.end()) continue;
    if (::statvfs((root / fs::path(mount).relative_path()).c_str(), &room) != 0) continue;
    host.file_systems.push_back({mount, Bytes(room.f_blocks * room.f_frsize), Bytes(room.f_bavail * room.f_frsize)});
  }
}

std::optional<std::uint32_t> hexadecimal(const fs::path& file) {
  const auto line = read_line(file);
  if (!line || !line->starts_with("0x")) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(line->data() + 2, line->data() + line->size(), value, 16);
  return error == std::errc() && end == line->data() + line->size() ? std::optional(value) : std::nullopt;
}

/// NVIDIA's devices on the bus: GPUs where nobody has listed any (no driver yet), and NVSwitches. PCI classes: 0x03 is
/// a display controller, 0x0680 another bridge (source: PCI code and ID assignment specification).
void read_bus(const fs::path& root, DriverFacts& facts) {
  constexpr std::uint32_t kNvidia = 0x10de;
  const bool list_gpus = facts.snapshot.gpus.empty();
  for (const auto& device : list_directory(root / "sys/bus/pci/devices")) {
    const auto number = hexadecimal(device / "device");
    const auto kind = hexadecimal(device / "class");
    if (!number || !kind || hexadecimal(device / "vendor") != kNvidia) continue;
    if (*kind >> 8U == 0x0680) facts.nvswitch = true;
    if (!list_gpus || *kind >> 16U != 0x03) continue;
    facts::GpuRecord record;
    record.gpu.index = GpuIndex(static_cast<std::uint32_t>(facts.snapshot.gpus.size()));
    record.gpu.pci_bus_id = device.filename().string();
    record.gpu.name =
        std::string(knowledge::pci_device_name(static_cast<std::uint16_t>(*number)).value_or(std::string_view()));
    record.gpu.pci_device_id = (*number << 16U) | kNvidia;
    record.state = facts::GpuState::disabled;
    record.processes.emplace();
    facts.snapshot.gpus.push_back(std::move(record));
  }
}

/// "535.183.01" of "1:535.183.01-1~deb12u1".
std::string upstream_of(std::string_view version) {
  const std::size_t colon = version.find(':');
  if (colon != std::string_view::npos) version.remove_prefix(colon + 1);
  return std::string(version.substr(0, version.find_first_not_of("0123456789.")));
}

void read_driver(const DriverFacts& facts, facts::Environment& environment) {
  facts::KernelDriver& driver = environment.driver;
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

/// GPUs of this kind are sold on boards of eight (sixteen) with NVSwitches. Boards of four without them bear some of
/// the same names. Sources, as of 2026-11: NVIDIA fabric manager user guide 2.3, GPU baseboard topologies (HGX-2, A100,
/// H100, B200 and B100); docs.nvidia.com/ai-enterprise/release-9 vGPU, NVSwitch (HGX A100, H100, H800, H200, B200,
/// B300, eight GPUs each); NVIDIA data center driver release notes 580.82.07 (HGX A800 8-GPU). H20: no list of NVIDIA's
/// has been found that names its board, vendors sell it as HGX H20 8-GPU.
bool is_for_switches(std::string_view name) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"V100-SXM3", "A100-SXM4", "A800-SXM4", "H100 80GB HBM3", "H800", "H200", "H20", "B100", "B200", "B300 SXM6"});
  if (name.contains("PCIe") || name.contains("NVL") || knowledge::find_gpu_board(name) != nullptr) return false;
  return std::ranges::any_of(kNames, [&](std::string_view one) {
    const std::size_t at = name.find(one);
    const std::size_t end = at + one.size();
    return at != std::string_view::npos && (end == name.size() || name[end] == ' ' || name[end] == '-');
  });
}

/// By the state of the fabric, which only GPUs on switches have, or by their names. With Grace the switches stand in
/// trays of their own, and the fabric manager runs there.
bool sit_on_switches(const facts::Snapshot& snapshot) {
  constexpr std::ptrdiff_t kBoard = 8;
  const auto has_fabric = [](const facts::GpuRecord& one) {
    return one.gpu.fabric && one.gpu.fabric->state != "not_supported" &&
           knowledge::find_gpu_board(one.gpu.name) == nullptr;
  };
  return std::ranges::any_of(snapshot.gpus, has_fabric) ||
         std::ranges::count_if(snapshot.gpus, [](const auto& one) { return is_for_switches(one.gpu.name); }) >= kBoard;
}

}  // namespace

bool is_driver_package(std::string_view name) {
  return !matches_one(name, kNotDriverPackages) && matches_one(name, kDriverPackages);
}

void assume_facts(DriverFacts& facts) {
  facts.on_paper = true;
  if (sit_on_switches(facts.snapshot)) facts.nvswitch = true;
  if (facts.snapshot.environment)
    facts.manager = manager_of(facts.snapshot.environment->host.distribution.value_or(""));
}

Result<DriverFacts> gather_driver_facts(facts::Snapshot snapshot, const fs::path& root, bool told,
                                        std::string_view distribution) {
  DriverFacts facts{.snapshot = std::move(snapshot)};
  if (!distribution.empty()) {
    if (!facts.snapshot.environment) facts.snapshot.environment.emplace();
    GPUWARDEN_CHECK(name_distribution(distribution, facts.snapshot.environment->host));
  }
  // What is on the bus of another root is read with its packages.
  if (root != "/") facts.snapshot.gpus.clear();
  if (told && root == "/")
    assume_facts(facts);
  else
    read_driver_facts(root, facts);
  return facts;
}

void read_driver_facts(const fs::path& root, DriverFacts& facts) {
  facts.root = root;
  if (!facts.snapshot.environment) facts.snapshot.environment.emplace();
  facts::Environment& environment = *facts.snapshot.environment;
  read_packages(root, facts);
  read_sessions(root, facts);
  read_host(root, environment.host);
  read_bus(root, facts);
  read_driver(facts, environment);
  if (environment.compilers.empty()) {
    for (const char* name : {"gcc", "cc", "clang"}) {
      if (is_there(root / "usr/bin" / name))
        environment.compilers.push_back({name, "", fmt::format("/usr/bin/{}", name)});
    }
  }
  if (sit_on_switches(facts.snapshot)) facts.nvswitch = true;
  read_machine_owner_key(root, facts);
}

}  // namespace gpuwarden::driver
