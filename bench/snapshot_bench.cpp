// SPDX-License-Identifier: Apache-2.0
// What a snapshot of a node costs beside the NVML calls it makes: the reader of this library against the bare calls in
// a loop, on the simulator with a latency for each call.
//   bench_snapshot [--latency MICROSECONDS] [ROUNDS]
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/probe/nvml_reader.hpp"
#include "probe/nvml_library.hpp"

namespace {

using namespace gpuwarden;
using nvml::Device;

/// The reading that `list` makes of one GPU, as a C programmer would write it. Returns the number of calls.
int bare_reading(const nvml::Functions& n, Device device) {
  std::array<unsigned, 4> u{};
  std::array<unsigned long long, 4> w{};
  nvml::Utilization rates{};
  nvml::MemoryV2 memory{};
  memory.version = nvml::kMemoryV2;
  int state = 0;
  n.nvmlDeviceGetUtilizationRates(device, &rates);
  n.nvmlDeviceGetMemoryInfo_v2(device, &memory);
  n.nvmlDeviceGetTemperature(device, nvml::kTemperatureGpu, u.data());
  n.nvmlDeviceGetPowerUsage(device, u.data());
  n.nvmlDeviceGetEnforcedPowerLimit(device, u.data());
  for (int clock = nvml::kClockGraphics; clock <= nvml::kClockVideo; ++clock)
    n.nvmlDeviceGetClockInfo(device, clock, u.data());
  n.nvmlDeviceGetPerformanceState(device, &state);
  n.nvmlDeviceGetCurrentClocksEventReasons(device, w.data());
  n.nvmlDeviceGetFanSpeed(device, u.data());
  n.nvmlDeviceGetCurrPcieLinkGeneration(device, u.data());
  n.nvmlDeviceGetCurrPcieLinkWidth(device, u.data());
  for (int error = 0; error < 2; ++error) {
    for (int counter = 0; counter < 2; ++counter) n.nvmlDeviceGetTotalEccErrors(device, error, counter, w.data());
  }
  n.nvmlDeviceGetTotalEnergyConsumption(device, w.data());
  n.nvmlDeviceGetMigMode(device, u.data(), u.data() + 1);
  std::array<nvml::ProcessInfoV2, 32> processes{};
  for (auto* const list : {n.nvmlDeviceGetComputeRunningProcesses_v3, n.nvmlDeviceGetGraphicsRunningProcesses_v3,
                           n.nvmlDeviceGetMPSComputeRunningProcesses_v3}) {
    u[0] = 32;
    list(device, u.data(), processes.data());
  }
  return 22;
}

double milliseconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  double latency = 20;
  int rounds = 50;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--latency" && i + 1 < argc) {
      latency = std::atof(argv[++i]);
    } else {
      rounds = std::max(1, std::atoi(argv[i]));
    }
  }
  const std::string fleet = fmt::format("/tmp/gpuwarden-bench-{}.yaml", ::getpid());
  std::ofstream(fleet) << fmt::format(
      "driver: 550.54.15\nnvlink: nvswitch\ncall_latency_microseconds: {}\n"
      "gpus: [{{model: NVIDIA H100 80GB HBM3, count: 8}}]\n",
      latency);
  ::setenv("GPUWARDEN_SIM_FLEET", fleet.c_str(), 1);
  const std::filesystem::path library = GPUWARDEN_SIM_LIB_DIR "/550/libnvidia-ml.so.1";
  const auto functions = probe::open_nvml(library);
  if (!functions || functions->nvmlInit_v2() != nvml::kSuccess) {
    fmt::print(stderr, "the simulator cannot be opened: {}\n", library.string());
    return 1;
  }
  std::vector<Device> devices(8);
  for (unsigned i = 0; i < 8; ++i) functions->nvmlDeviceGetHandleByIndex_v2(i, &devices[i]);
  probe::ReaderOptions options;
  options.nvml_library = library;
  options.simulated = true;
  probe::NvmlReader reader(options);
  int calls = 0;
  std::vector<double> bare;
  std::vector<double> basic;
  std::vector<double> full;
  std::vector<double> slow;
  reader.read();
  for (int round = 0; round < rounds; ++round) {
    bare.push_back(milliseconds_of([&] {
      calls = 0;
      for (Device device : devices) calls += bare_reading(*functions, device);
    }));
    basic.push_back(milliseconds_of([&] { reader.read(); }));
    full.push_back(milliseconds_of([&] { reader.read({.detail = probe::Detail::full}); }));
    if (round < 5)
      slow.push_back(milliseconds_of([&] { reader.read({.detail = probe::Detail::slow, .links = true}); }));
  }
  std::filesystem::remove(fleet);
  fmt::print("8 simulated H100, {} us a call, median of {} interleaved rounds\n", latency, rounds);
  fmt::print("{:<44} {:>9} {:>8}\n", "", "ms", "ratio");
  const double base = median(bare);
  const auto row = [&](std::string_view name, double value) {
    fmt::print("{:<44} {:>9.2f} {:>8.2f}\n", name, value, value / base);
  };
  row(fmt::format("bare calls of the basic reading ({})", calls), base);
  row("NvmlReader::read, basic", median(basic));
  row("NvmlReader::read, full", median(full));
  row("NvmlReader::read, slow parts and links", median(slow));
  return 0;
}
