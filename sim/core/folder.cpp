// SPDX-License-Identifier: Apache-2.0
#include "sim/core/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "sim/core/identity.hpp"

namespace gpuwarden::sim {
namespace {

namespace fs = std::filesystem;

bool lock(int fd, int how) {
  int result = 0;
  do {
    result = ::flock(fd, how);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

/// Joining, making and removing folders exclude each other through this lock.
Result<UniqueFd> lock_root(const fs::path& root) {
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) {
    return std::unexpected(error_from_errno(errno, "cannot make the simulator's folder " + root.string()));
  }
  UniqueFd fd(::open((root / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd || !lock(fd.get(), LOCK_EX)) {
    return std::unexpected(error_from_errno(errno, "cannot use the simulator's folder " + root.string()));
  }
  return fd;
}

/// A shared hold on the folder's `users` file; `alone` tells whether nobody else had one.
UniqueFd hold(const fs::path& folder, int flags, bool& alone) {
  UniqueFd fd(::open((folder / "users").c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
  if (!fd) return fd;
  alone = lock(fd.get(), LOCK_EX | LOCK_NB);
  if (!lock(fd.get(), LOCK_SH)) fd.reset();
  return fd;
}

void put(const fs::path& path, std::string_view content) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd) [[maybe_unused]]
    const ssize_t done = ::write(fd.get(), content.data(), content.size());
}

void write_pci_device(const fs::path& devices, const GpuSpec& gpu) {
  const auto bus = parse_bus_id(gpu.bus_id).value_or(BusId{});
  const fs::path folder =
      devices / fmt::format("{:04x}:{:02x}:{:02x}.{:x}", bus.domain, bus.bus, bus.device, bus.function);
  fs::create_directories(folder / "power");
  put(folder / "vendor", "0x10de\n");
  put(folder / "device", fmt::format("0x{:04x}\n", gpu.model.pci_device_id >> 16U));
  put(folder / "class", gpu.model.fan ? "0x030000\n" : "0x030200\n");
  const auto node = gpu.readings.find(Field::numa_node);
  const bool has_node = node != gpu.readings.end() && node->second;
  put(folder / "numa_node", fmt::format("{}\n", has_node ? static_cast<int>(*node->second) : -1));
  put(folder / "local_cpulist", gpu.cpu_list + "\n");
  put(folder / "power/runtime_status", gpu.suspended ? "suspended\n" : "active\n");
}

/// The file of each MIG instance, as the driver has them; a lease locks it.
void write_capabilities(const fs::path& proc, std::size_t index, const GpuSpec& gpu) {
  const auto minor = gpu.readings.find(Field::minor_number);
  const bool pinned = minor != gpu.readings.end() && minor->second;
  const auto number = pinned ? static_cast<std::size_t>(*minor->second) : index;
  for (const MigInstance& instance : gpu.instances) {
    const fs::path folder = proc / fmt::format("driver/nvidia/capabilities/gpu{}/mig/gi{}/ci{}", number,
                                               instance.gpu_instance, instance.compute_instance);
    fs::create_directories(folder);
    put(folder / "access", "DeviceFileMinor: 0\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
  }
}

/// What /proc would show of the scripted processes, which do not really exist.
void write_processes(const fs::path& proc, const FleetSpec& spec) {
  std::map<std::string, int> users{{"root", 0}};
  for (const GpuSpec& gpu : spec.gpus) {
    for (const ProcessSpec& process : gpu.processes) {
      const fs::path folder = proc / std::to_string(process.pid);
      fs::create_directories(folder);
      std::string command = process.command;
      for (char& c : command) c = c == ' ' ? '\0' : c;
      put(folder / "cmdline", command + '\0');
      std::string status =
          fmt::format("Name:\t{}\nState:\tS (sleeping)\n", process.command.substr(0, process.command.find(' ')));
      if (!process.user.empty()) {
        const int uid = users.try_emplace(process.user, 50000 + static_cast<int>(users.size())).first->second;
        status += fmt::format("Uid:\t{0}\t{0}\t{0}\t{0}\n", uid);
      }
      put(folder / "status", status);
    }
  }
  std::string passwd;
  for (const auto& [name, uid] : users) passwd += fmt::format("{}:x:{}:{}::/:/bin/sh\n", name, uid, uid);
  put(proc / "passwd", passwd);
}

Result<void> fill(const fs::path& folder, std::string_view yaml, const FleetSpec& spec) try {
  const fs::path devices = folder / "sys/bus/pci/devices";
  fs::create_directories(devices);
  fs::create_directories(folder / "proc/driver/nvidia");
  for (const GpuSpec& gpu : spec.gpus) write_pci_device(devices, gpu);
  for (std::size_t i = 0; i < spec.gpus.size(); ++i) write_capabilities(folder / "proc", i, spec.gpus[i]);
  write_processes(folder / "proc", spec);
  const auto has = [&](FaultKind kind) {
    return std::ranges::find(spec.faults, kind, &Fault::kind) != spec.faults.end();
  };
  write_driver_version(folder, kernel_module_of(spec, has(FaultKind::mismatch)), !has(FaultKind::driver_not_loaded));
  put(folder / "fleet.yaml", yaml);
  return {};
} catch (const fs::filesystem_error& error) {
  return fail(ErrorCode::failed, fmt::format("cannot fill {}: {}", folder.string(), error.code().message()));
}

/// Removes folders whose users are all gone (they were killed). Called under the root lock.
void sweep(const fs::path& root) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    if (!entry.is_directory(ignored)) continue;
    const UniqueFd fd(::open((entry.path() / "users").c_str(), O_RDWR | O_CLOEXEC));
    if (!fd || lock(fd.get(), LOCK_EX | LOCK_NB)) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

fs::path default_root() {
  if (const char* given = std::getenv("GPUWARDEN_SIM_DIR"); given != nullptr && *given != '\0') return given;
  return fmt::format("/dev/shm/gpuwarden-sim-{}", ::geteuid());
}

void write_driver_version(const fs::path& folder, std::string_view kernel_module, bool loaded) {
  const fs::path file = folder / "proc/driver/nvidia/version";
  if (!loaded) {
    ::unlink(file.c_str());
    return;
  }
  put(file,
      fmt::format("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  (simulated by gpuwarden)\n", kernel_module));
}

Result<FleetFolder> FleetFolder::join_or_make(const fs::path& root, const std::string& id, std::string_view fleet_yaml,
                                              const FleetSpec& spec) {
  GPUWARDEN_TRY(const UniqueFd root_lock, lock_root(root));
  sweep(root);
  FleetFolder folder;
  folder.path_ = root / id;
  folder.is_new_ = ::mkdir(folder.path_.c_str(), 0700) == 0;
  if (!folder.is_new_ && errno != EEXIST)
    return std::unexpected(error_from_errno(errno, "cannot make " + folder.path_.string()));
  bool alone = false;
  folder.users_ = hold(folder.path_, O_CREAT, alone);
  if (!folder.users_) return std::unexpected(error_from_errno(errno, "cannot use " + folder.path_.string()));
  folder.owner_ = ::getpid();
  if (folder.is_new_) GPUWARDEN_CHECK(fill(folder.path_, fleet_yaml, spec));
  return folder;
}

Result<FleetFolder> FleetFolder::join(const fs::path& path) {
  GPUWARDEN_TRY(const UniqueFd root_lock, lock_root(path.parent_path()));
  FleetFolder folder;
  bool alone = true;
  folder.users_ = hold(path, 0, alone);
  if (!folder.users_ || alone) return fail(ErrorCode::not_found, fmt::format("no live fleet in {}", path.string()));
  folder.path_ = path;
  folder.owner_ = ::getpid();
  return folder;
}

Result<void> FleetFolder::bequeath() const {
  if (::fcntl(users_.get(), F_SETFD, 0) == 0) return {};
  return std::unexpected(error_from_errno(errno, "cannot keep " + path_.string()));
}

FleetFolder::~FleetFolder() {
  if (!users_ || owner_ != ::getpid()) return;
  const auto root_lock = lock_root(path_.parent_path());
  users_.reset();
  const UniqueFd last(::open((path_ / "users").c_str(), O_RDWR | O_CLOEXEC));
  std::error_code ignored;
  if (root_lock && last && lock(last.get(), LOCK_EX | LOCK_NB)) fs::remove_all(path_, ignored);
}

std::vector<std::string> live_fleets(const fs::path& root) {
  std::vector<std::string> result;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    if (!entry.is_directory(ignored)) continue;
    const UniqueFd fd(::open((entry.path() / "users").c_str(), O_RDWR | O_CLOEXEC));
    if (fd && !lock(fd.get(), LOCK_EX | LOCK_NB)) result.push_back(entry.path().filename());
  }
  return result;
}

}  // namespace gpuwarden::sim
