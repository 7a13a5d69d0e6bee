// SPDX-License-Identifier: Apache-2.0
#include "burn_in/child.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "burn_in/bench.hpp"
#include "burn_in/pairs.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/burn_in_json.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "nvidia/cuda_library.hpp"

namespace gpuwarden::burn_in {

namespace {

using Json = nlohmann::json;
using probe::send_message;

/// More memory in use than this, beside what a driver takes for itself, is somebody's who cannot be seen from here.
constexpr double kLeastFreeShare = 0.8;
/// The tests end by themselves a little before they are ended.
constexpr double kOwnShare = 0.9;
/// Of the time, so that the other tests get theirs.
constexpr double kMemoryTime = 0.6;

void send_problem(int fd, const Error& error, cuda::Result code, std::vector<std::string> steps) {
  if (!error.hint.empty()) steps.insert(steps.begin(), error.hint);
  const bool absent = error.code == ErrorCode::not_found;
  send_message(fd, {{"problem", error.message}, {"code", code}, {"absent", absent}, {"steps", steps}});
}

/// CUDA, started; what keeps it from starting is told to the parent.
std::optional<cuda::Functions> start_cuda(int fd, const Options& options) {
  // The compiled kernels are not to stay behind in the user's cache.
  ::setenv("CUDA_CACHE_DISABLE", "1", 1);
  const auto cuda = open_cuda(options.library);
  if (!cuda) {
    send_problem(fd, cuda.error(), 0, {});
    return std::nullopt;
  }
  const cuda::Result code = cuda->init(0);
  if (code == cuda::kSuccess) return *cuda;
  const Error error = cuda_error(*cuda, "cuInit", code);
  send_problem(fd, error, code, error.code == ErrorCode::not_found ? std::vector<std::string>{} : next_steps(code));
  return std::nullopt;
}

/// Empty where the driver does not tell.
std::string uuid_text(const cuda::Functions& cuda, cuda::Device device) {
  cuda::Uuid uuid{};
  const auto ask = cuda.device_uuid_v2 != nullptr ? cuda.device_uuid_v2 : cuda.device_uuid;
  if (ask == nullptr || ask(&uuid, device) != cuda::kSuccess) return "";
  return cuda::uuid_text(uuid);
}

Result<Json> describe_device(const cuda::Functions& cuda, int ordinal) {
  cuda::Device device = 0;
  GPUWARDEN_CUDA(cuda, device, &device, ordinal);
  std::array<char, 256> name{};
  GPUWARDEN_CUDA(cuda, device_name, name.data(), static_cast<int>(name.size()) - 1, device);
  std::array<char, 32> bus{};
  if (cuda.device_pci_bus_id(bus.data(), static_cast<int>(bus.size()) - 1, device) != cuda::kSuccess) bus[0] = '\0';
  return Json{{"ordinal", ordinal},
              {"uuid", uuid_text(cuda, device)},
              {"pci_bus_id", bus.data()},
              {"name", printable(name.data())}};
}

Result<Json> describe_devices(const cuda::Functions& cuda) {
  int version = 0;
  GPUWARDEN_CUDA(cuda, driver_version, &version);
  int count = 0;
  GPUWARDEN_CUDA(cuda, device_count, &count);
  Json devices = Json::array();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    GPUWARDEN_TRY(Json device, describe_device(cuda, ordinal));
    devices.push_back(std::move(device));
  }
  return Json{{"devices", devices}, {"cuda", version}};
}

/// One of the tests: what the parent is told, what goes on, and its share of the time.
struct Step {
  std::string_view phase;
  std::function<Result<void>(const Bench&, facts::BurnInGpu&)> run;
};

Result<void> run_steps(int fd, const cuda::Functions& cuda, int ordinal, const Options& options,
                       facts::BurnInGpu& gpu) {
  const auto start = options.clock->now();
  const auto after = [&](double share) {
    return start + std::chrono::duration_cast<std::chrono::nanoseconds>(options.deadline * (share * kOwnShare));
  };
  cuda::Device device = 0;
  GPUWARDEN_CUDA(cuda, device, &device, ordinal);
  GPUWARDEN_TRY(Bench bench, Bench::open(cuda, device, after(kMemoryTime), *options.clock));
  bench.pace = options.pace;
  bench.announce = [fd](std::string_view what) { send_message(fd, {{"moment", what}}); };
  GPUWARDEN_TRY(const Bench::Memory memory, bench.memory());
  if (!options.force && static_cast<double>(memory.free) < kLeastFreeShare * static_cast<double>(memory.total)) {
    gpu.not_possible = fmt::format("{} of its {} are in use, by whom cannot be seen from here",
                                   format_size(Bytes(memory.total - memory.free)), format_size(Bytes(memory.total)));
    return {};
  }
  const std::array<Step, 5> steps{
      {{"memory", [&](const auto& b, auto& g) { return test_memory(b, options.memory_share, g); }},
       {"pcie", test_transfers},
       {"bandwidth", test_bandwidth},
       {"arithmetic", test_arithmetic},
       {"matrix",
        [&](const auto& b, auto& g) { return test_matrix_product(b, options.cublas, options.all_types, g); }}}};
  for (const Step& step : steps) {
    if (step.phase == "memory" && options.memory_share <= 0) continue;
    send_message(fd, {{"phase", step.phase}});
    bench.set_deadline(after(step.phase == "memory" ? kMemoryTime : 1));
    const auto done = step.run(bench, gpu);
    if (!done && done.error().code != ErrorCode::timed_out && done.error().code != ErrorCode::unsatisfied)
      return fail(ErrorCode::failed, fmt::format("{}: {}", step.phase, done.error().message));
    if (!done) gpu.notes.push_back(fmt::format("{}: {}", step.phase, done.error().message));
    send_message(fd, {{"gpu", facts::to_json(gpu)}});
  }
  return {};
}

}  // namespace

void list_devices(int fd, const Options& options) {
  const auto cuda = start_cuda(fd, options);
  if (!cuda) return;
  const auto devices = describe_devices(*cuda);
  if (devices)
    send_message(fd, *devices);
  else
    send_problem(fd, devices.error(), 0, {});
}

void test_pairs(int fd, const std::vector<int>& ordinals, const Options& options) {
  const auto cuda = start_cuda(fd, options);
  if (!cuda) return;
  const auto copied = copy_between(*cuda, ordinals, options, [fd](const Json& message) { send_message(fd, message); });
  if (!copied)
    send_problem(fd, copied.error(), 0, {});
  else
    send_message(fd, {{"done", true}});
}

void test_device(int fd, int ordinal, const Options& options) {
  const auto cuda = start_cuda(fd, options);
  if (!cuda) return;
  facts::BurnInGpu gpu;
  const auto done = run_steps(fd, *cuda, ordinal, options, gpu);
  const auto code = done ? ErrorCode::failed : done.error().code;
  // An exclusive, a prohibited and a full GPU are somebody's wish or work, no fault.
  const bool refused = code == ErrorCode::permission_denied || code == ErrorCode::unsatisfied;
  if (!done) (refused ? gpu.not_possible : gpu.failed) = done.error().message;
  send_message(fd, {{"gpu", facts::to_json(gpu)}});
  send_message(fd, {{"done", true}});
}

}  // namespace gpuwarden::burn_in
