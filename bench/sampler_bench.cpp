// SPDX-License-Identifier: Apache-2.0
// What repeated readings of a node cost beside the NVML calls they make (the reader's child and its socket included),
// and how long a GPU that hangs keeps the others waiting.
//   bench_sampler [--latency MICROSECONDS] [READINGS]
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "probe/nvml_library.hpp"

namespace {

using namespace gpuwarden;
using nvml::Device;
using Milliseconds = std::chrono::duration<double, std::milli>;

/// What changes from reading to reading, as a C programmer would ask for it. Returns the number of calls.
int bare_reading(const nvml::Functions& n, Device device) {
  std::array<unsigned, 4> u{};
  unsigned long long w = 0;
  nvml::Utilization rates{};
  nvml::MemoryV2 memory{};
  memory.version = nvml::kMemoryV2;
  int state = 0;
  n.nvmlDeviceGetUtilizationRates(device, &rates);
  n.nvmlDeviceGetMemoryInfo_v2(device, &memory);
  n.nvmlDeviceGetTemperature(device, nvml::kTemperatureGpu, u.data());
  n.nvmlDeviceGetPowerUsage(device, u.data());
  for (int clock = nvml::kClockGraphics; clock <= nvml::kClockVideo; ++clock)
    n.nvmlDeviceGetClockInfo(device, clock, u.data());
  n.nvmlDeviceGetPerformanceState(device, &state);
  n.nvmlDeviceGetCurrentClocksEventReasons(device, &w);
  n.nvmlDeviceGetFanSpeed(device, u.data());
  n.nvmlDeviceGetCurrPcieLinkGeneration(device, u.data());
  n.nvmlDeviceGetCurrPcieLinkWidth(device, u.data());
  n.nvmlDeviceGetTotalEnergyConsumption(device, &w);
  n.nvmlDeviceGetEncoderUtilization(device, u.data(), u.data() + 1);
  n.nvmlDeviceGetDecoderUtilization(device, u.data(), u.data() + 1);
  n.nvmlDeviceGetJpgUtilization(device, u.data(), u.data() + 1);
  n.nvmlDeviceGetOfaUtilization(device, u.data(), u.data() + 1);
  std::array<nvml::FieldValue, 5> fields{};
  for (auto& field : fields) field.field_id = nvml::kFieldMemoryTemperature;
  n.nvmlDeviceGetFieldValues(device, static_cast<int>(fields.size()), fields.data());
  std::array<nvml::ProcessInfoV2, 32> processes{};
  for (auto* const list : {n.nvmlDeviceGetComputeRunningProcesses_v3, n.nvmlDeviceGetGraphicsRunningProcesses_v3,
                           n.nvmlDeviceGetMPSComputeRunningProcesses_v3}) {
    u[0] = 32;
    list(device, u.data(), processes.data());
  }
  return 22;
}

/// CPU time of this process, and of the children that are still there.
double cpu_milliseconds() {
  timespec own{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  double sum = static_cast<double>(own.tv_sec) * 1e3 + static_cast<double>(own.tv_nsec) / 1e6;
  for (const auto& task : list_directory("/proc/self/task")) {
    const auto children = read_file(task / "children");
    std::size_t at = 0;
    while (children && at < children->size()) {
      const std::size_t end = std::min(children->find(' ', at), children->size());
      if (const auto line = read_line("/proc/" + children->substr(at, end - at) + "/schedstat"))
        sum += std::strtod(line->c_str(), nullptr) / 1e6;
      at = end + 1;
    }
  }
  return sum;
}

struct Cost {
  double wall = 0;  ///< ms a reading
  double cpu = 0;
};

template <class Work>
Cost cost_of(int readings, const Work& work) {
  const double cpu = cpu_milliseconds();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < readings; ++i) work();
  const double wall = Milliseconds(std::chrono::steady_clock::now() - start).count();
  return {wall / readings, (cpu_milliseconds() - cpu) / readings};
}

std::string fleet_file(double latency, std::string_view extra) {
  const std::string path = fmt::format("/tmp/gpuwarden-sampler-bench-{}.yaml", ::getpid());
  std::ofstream(path) << fmt::format(
      "driver: 550.54.15\nnvlink: nvswitch\ncall_latency_microseconds: {}\ngpus:\n"
      "- {{model: NVIDIA H100 80GB HBM3, count: 7, workload: {{kind: training, memory: 40GiB}}}}\n"
      "- {{model: NVIDIA H100 80GB HBM3{}}}\n",
      latency, extra);
  return path;
}

int fail_with(std::string_view what) {
  fmt::print(stderr, "bench_sampler: {}\n", what);
  return 1;
}

/// The longest of the first readings of a series in which a GPU hangs from the start.
double longest_with_a_hung_gpu(const probe::ReaderOptions& options, std::chrono::milliseconds every) {
  probe::NvmlReader reader(options);
  double longest = 0;
  for (int i = 0; i < 6; ++i) {
    const auto start = std::chrono::steady_clock::now();
    probe::ReadRequest request;
    request.detail = probe::Detail::full;
    request.every = every;
    reader.read(request);
    longest = std::max(longest, Milliseconds(std::chrono::steady_clock::now() - start).count());
  }
  return longest;
}

void show_hung(const probe::ReaderOptions& options, double latency) {
  const std::string hung = fleet_file(latency, ", faults: [hang]");
  ::setenv("GPUWARDEN_SIM_FLEET", hung.c_str(), 1);
  for (const int every : {1000, 2000}) {
    const double longest = longest_with_a_hung_gpu(options, std::chrono::milliseconds(every));
    fmt::print("one of 8 hangs, a reading every {} ms: the longest reading of the others took {:.0f} ms\n", every,
               longest);
  }
  std::filesystem::remove(hung);
}

}  // namespace

int main(int argc, char** argv) {
  double latency = 100;
  int readings = 100;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--latency" && i + 1 < argc)
      latency = std::atof(argv[++i]);
    else
      readings = std::max(1, std::atoi(argv[i]));
  }
  probe::ReaderOptions options;
  options.nvml_library = GPUWARDEN_SIM_LIB_DIR "/550/libnvidia-ml.so.1";
  options.simulated = true;
  show_hung(options, latency);
  const std::string fleet = fleet_file(latency, ", workload: {kind: training, memory: 40GiB}");
  ::setenv("GPUWARDEN_SIM_FLEET", fleet.c_str(), 1);
  // Children inherit what this process has opened: it comes after the series on another fleet.
  const auto functions = probe::open_nvml(options.nvml_library);
  if (!functions || functions->nvmlInit_v2() != nvml::kSuccess) return fail_with("the simulator cannot be opened");
  std::vector<Device> devices(8);
  for (unsigned i = 0; i < 8; ++i) functions->nvmlDeviceGetHandleByIndex_v2(i, &devices[i]);
  int calls = 0;
  const auto bare = [&] {
    calls = 0;
    for (Device device : devices) calls += bare_reading(*functions, device);
  };
  probe::NvmlReader reader(options);
  probe::ReadRequest request;
  request.detail = probe::Detail::full;
  request.every = std::chrono::seconds(1);
  bare();
  reader.read(request);
  const Cost bare_cost = cost_of(readings, bare);
  const Cost series_cost = cost_of(readings, [&] { reader.read(request); });
  const double per_call = bare_cost.cpu / calls;
  fmt::print("8 simulated H100 with a process each, {} us a call, mean of {} readings\n", latency, readings);
  fmt::print("{:<52} {:>8.2f} ms wall {:>8.2f} ms CPU\n", fmt::format("bare calls ({})", calls), bare_cost.wall,
             bare_cost.cpu);
  fmt::print("{:<52} {:>8.2f} ms wall {:>8.2f} ms CPU\n", "NvmlReader::read, one of a series", series_cost.wall,
             series_cost.cpu);
  fmt::print("wall: {:.2f} times the bare calls; CPU above theirs: {:.2f} ms a reading ({:.0f} calls' worth)\n",
             series_cost.wall / bare_cost.wall, series_cost.cpu - bare_cost.cpu,
             (series_cost.cpu - bare_cost.cpu) / per_call);
  std::filesystem::remove(fleet);
  return 0;
}
