// SPDX-License-Identifier: Apache-2.0
// All that a GpuManager does, one after the other: main [FLEET]. Without a fleet this machine's own GPUs, or its CPU.
// examples/gpu_management_demo.py is the same in Python.
#include <cstdio>
#include <string>

#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/manager/gpu_manager.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::literals;
using manager::GpuManager;

int complain(const Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.message.c_str(), error.hint.c_str());
  return 1;
}

void show_devices(GpuManager& gpus) {
  const manager::ManagerStatus status = gpus.status();
  std::printf("%s%zu GPUs; CUDA %s\n", status.simulated ? "SIMULATED: " : "", status.gpus.size(),
              status.cuda_available ? "is available" : "is not available");
  for (const auto& gpu : status.gpus)
    std::printf("  GPU %u %s: %s\n", gpu.device.gpu->value, gpu.device.name.c_str(),
                std::string(to_string(gpu.health.state)).c_str());
  if (!status.problem.empty()) std::printf("  %s\n", status.problem.c_str());
  std::printf("  best: %s\n", manager::spoken_name(status.current).c_str());
}

/// The first GPU fails; the work goes on elsewhere.
Result<void> show_failover(GpuManager& gpus) {
  gpus.cuda().add_error_callback([](const manager::DeviceError& error) {
    std::printf("  %s: attempt %u of '%s' failed: %s\n", manager::spoken_name(error.device).c_str(), error.attempt,
                error.operation.c_str(), error.error.message.c_str());
  });
  const auto first = gpus.cuda().best_device();
  const auto done = gpus.cuda().run("inference", [&](const manager::Device& device) -> Result<void> {
    const auto scope = gpus.monitor().profile_operation("inference");
    if (!device.is_cpu() && device == first) return fail(ErrorCode::failed, "CUDA error 700 (for the example)");
    return {};
  });
  if (!done) return std::unexpected(done.error());
  std::printf("inference ran on %s after %zu failures\n", manager::spoken_name(done->device).c_str(),
              done->failures.size());
  return {};
}

Result<void> show_memory(GpuManager& gpus) {
  auto& memory = gpus.memory();
  const auto address = memory.allocate(64_MiB);
  if (!address) return std::unexpected(address.error());
  if (auto freed = memory.deallocate(*address); !freed) return freed;
  const auto status = memory.status();
  std::printf("memory from the %s: %llu bytes reserved, %llu of them idle\n", status.backing.c_str(),
              static_cast<unsigned long long>(status.reserved.value),
              static_cast<unsigned long long>(status.idle().value));
  const auto report = gpus.emergency_release();
  std::printf("let go of: %llu bytes in %zu steps\n", static_cast<unsigned long long>(report.freed.value),
              report.steps.size());
  return {};
}

Result<void> demonstrate(GpuManager& gpus) {
  show_devices(gpus);
  if (auto worked = show_failover(gpus); !worked) return worked;
  if (auto remembered = show_memory(gpus); !remembered) return remembered;
  const auto plan = gpus.optimization();
  std::printf("models: level %s, precision %s\n", std::string(to_string(plan.level)).c_str(),
              std::string(to_string(plan.precision)).c_str());
  const auto setup = gpus.set_up_distributed();
  if (!setup) return std::unexpected(setup.error());
  std::printf("distributed: %s, rank %u of %u\n", setup->backend.c_str(), setup->rank, setup->world_size);
  for (const auto& operation : gpus.status().operations) std::printf("profiled: %s\n", operation.name.c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const machine::Source source = argc > 1 ? machine::Source(machine::Simulated{argv[1]}) : machine::Real{};
  const auto machine = machine::Machine::open(source, machine::options_from(current_environment()));
  if (!machine) return complain(machine.error());
  manager::Options options = manager::options_for(*machine);
  options.config.memory_fraction = 0.5;
  options.config.enable_profiling = true;
  options.cuda.retry_delay = std::chrono::milliseconds(1);
  GpuManager gpus(options);
  if (const auto ready = gpus.initialize(); !ready) return complain(ready.error());
  const auto done = demonstrate(gpus);
  return done ? 0 : complain(done.error());
}
