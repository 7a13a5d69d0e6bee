// SPDX-License-Identifier: Apache-2.0
// Who holds a GPU's memory, from NVML in this process: other rooms ask it in a child, but a process with CUDA at work
// cannot fork in the middle of an allocation.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>
#include <vector>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/pools/device_pool.hpp"
#include "nvidia/nvml_abi.hpp"

namespace gpuwarden::pools {
namespace {

/// The few functions of NVML that are needed; none where there is no NVML.
struct Nvml {
  nvml::Return (*init)() = nullptr;
  nvml::Return (*shutdown)() = nullptr;
  nvml::Return (*by_uuid)(const char*, nvml::Device*) = nullptr;
  nvml::Return (*processes)(nvml::Device, unsigned*, nvml::ProcessInfoV2*) = nullptr;

  explicit operator bool() const {
    return init != nullptr && shutdown != nullptr && by_uuid != nullptr && processes != nullptr;
  }
};

Nvml open_nvml(const std::filesystem::path& library) {
  Nvml nvml;
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nvml;
  const auto find = [handle](const char* symbol, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, symbol));
  };
  find("nvmlInit_v2", nvml.init);
  find("nvmlShutdown", nvml.shutdown);
  find("nvmlDeviceGetHandleByUUID", nvml.by_uuid);
  find("nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes);
  if (nvml.processes == nullptr) find("nvmlDeviceGetComputeRunningProcesses_v2", nvml.processes);
  return nvml;
}

/// The processes on a GPU with what they hold, the largest first.
std::vector<nvml::ProcessInfoV2> processes_on(const Nvml& nvml, const Uuid& gpu) {
  nvml::Device device = nullptr;
  if (nvml.by_uuid(gpu.value.c_str(), &device) != nvml::kSuccess) return {};
  std::array<nvml::ProcessInfoV2, 64> entries{};
  unsigned count = entries.size();
  if (nvml.processes(device, &count, entries.data()) != nvml::kSuccess) return {};
  std::vector<nvml::ProcessInfoV2> result(entries.begin(), entries.begin() + std::min<std::size_t>(count, 64));
  std::ranges::sort(result, std::greater(), &nvml::ProcessInfoV2::used_memory);
  return result;
}

std::string describe(const nvml::ProcessInfoV2& process) {
  const auto name = read_file(fmt::format("/proc/{}/comm", process.pid));
  const std::string words = name ? fmt::format(" ({})", printable(trim(*name))) : "";
  // What a driver may not tell is all ones.
  if (process.used_memory == ~0ULL) return fmt::format("process {}{} uses it, too", process.pid, words);
  return fmt::format("process {}{} holds {:.1f} MiB of it", process.pid, words,
                     static_cast<double>(process.used_memory) / (1 << 20));
}

}  // namespace

std::string who_holds(const Uuid& gpu, const std::filesystem::path& library) {
  const Nvml nvml = open_nvml(library);
  if (gpu.value.empty() || !nvml || nvml.init() != nvml::kSuccess)
    return "NVML does not say who else holds memory of it";
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> names;
  std::size_t others = 0;
  for (const nvml::ProcessInfoV2& process : processes_on(nvml, gpu)) {
    if (static_cast<pid_t>(process.pid) == ::getpid()) continue;
    if (++others <= kNamed) names.push_back(describe(process));
  }
  nvml.shutdown();
  if (others > kNamed) names.push_back(fmt::format("and {} more", others - kNamed));
  if (names.empty()) return "no other process is seen to hold memory of it";
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace gpuwarden::pools
