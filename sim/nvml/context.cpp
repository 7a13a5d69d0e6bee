// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/context.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>

#include "sim/core/control.hpp"

namespace gpuwarden::nvml::server {
namespace {

// Handles are opaque numbers, not addresses: a client that dereferences one crashes at once instead of by chance.
constexpr std::uintptr_t kHandleBase = 0x6E760000;

struct Context {
  std::mutex mutex;
  std::shared_ptr<sim::Fleet> fleet;
  unsigned users = 0;  // nvmlInit calls not yet undone
};

Context& context() {
  static Context instance;
  // A process that forks while another of its threads is in here would leave its child a lock that nobody opens.
  static const int registered = ::pthread_atfork([] { context().mutex.lock(); }, [] { context().mutex.unlock(); },
                                                 [] { context().mutex.unlock(); });
  static_cast<void>(registered);
  return instance;
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

/// Call with the mutex held.
sim::Fleet* attach(Context& c) {
  if (c.fleet) return c.fleet.get();
  c.fleet = sim::Fleet::attach_for_library();
  return c.fleet.get();
}

}  // namespace

Device to_device(Handle handle) {
  const std::uintptr_t low = handle.instance ? *handle.instance + 1 : 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
  return reinterpret_cast<Device>(kHandleBase + (std::uintptr_t{handle.gpu} << 8U) + (low << 4U));
}

std::optional<Handle> to_handle(Device device) {
  const auto number = reinterpret_cast<std::uintptr_t>(device);
  if (number < kHandleBase || number >= kHandleBase + (sim::kMaxGpus << 8U) || (number & 0xFU) != 0)
    return std::nullopt;
  const auto offset = static_cast<std::uint32_t>(number - kHandleBase);
  const std::uint32_t low = offset >> 4U & 0xFU;
  return Handle{offset >> 8U, low > 0 ? std::optional(low - 1) : std::nullopt};
}

Return initialise(unsigned) {
  Context& c = context();
  std::shared_ptr<const sim::FleetView> view;
  {
    const std::scoped_lock lock(c.mutex);
    sim::Fleet* live = attach(c);
    const auto seen = live != nullptr ? live->view() : fail(ErrorCode::not_found, "");
    if (!seen) return kDriverNotLoaded;
    view = *seen;
  }
  if (view->hang_init) hang();
  if (view->driver_not_loaded) return kDriverNotLoaded;
  if (view->mismatch) return kLibRmVersionMismatch;
  const std::scoped_lock lock(c.mutex);
  ++c.users;
  return kSuccess;
}

Return shutdown() {
  Context& c = context();
  const std::scoped_lock lock(c.mutex);
  if (c.users == 0) return kUninitialized;
  --c.users;
  return kSuccess;
}

Return require_init() {
  Context& c = context();
  const std::scoped_lock lock(c.mutex);
  return c.users > 0 ? kSuccess : kUninitialized;
}

std::shared_ptr<sim::Fleet> fleet() {
  Context& c = context();
  const std::scoped_lock lock(c.mutex);
  attach(c);
  return c.fleet;
}

Return trouble_of(const sim::GpuView& gpu) {
  if (gpu.lost) return kGpuIsLost;
  if (gpu.reset_required) return kResetRequired;
  if (gpu.unknown_error) return kUnknown;
  if (gpu.no_permission) return kNoPermission;
  return kSuccess;
}

namespace {

/// A driver call keeps its caller waiting; sleeping would be far coarser than the microseconds that are asked for.
void take_time(double microseconds) {
  if (microseconds <= 0) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(microseconds);
  while (std::chrono::steady_clock::now() < end) continue;
}

}  // namespace

Return resolve(Device device, Target& target) {
  if (const Return code = require_init(); code != kSuccess) return code;
  const auto handle = to_handle(device);
  const auto live = fleet();
  if (live) take_time(live->spec().call_latency_us);
  const auto view = live ? live->view() : fail(ErrorCode::not_found, "");
  if (!view) return kUnknown;
  if (!handle || handle->gpu >= (*view)->gpus.size()) return kInvalidArgument;
  target.fleet = *view;
  target.handle = *handle;
  target.gpu = &target.fleet->gpus[handle->gpu];
  if (handle->instance) {
    const auto& devices = target.gpu->instances;
    const auto found = std::ranges::find(devices, *handle->instance, &sim::MigInstance::slot);
    if (found == devices.end()) return kInvalidArgument;
    target.instance = &*found;
  }
  if (target.gpu->hang) hang();
  return trouble_of(*target.gpu);
}

Return require_privilege() {
  const auto live = fleet();
  if (!live) return kUnknown;
  const sim::Privileged who = live->spec().privileged;
  const bool allowed = who == sim::Privileged::yes || (who == sim::Privileged::real && ::geteuid() == 0);
  return allowed ? kSuccess : kNoPermission;
}

Return change_gpu(Device device, const Change& change) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if (target.instance != nullptr) return kNotSupported;
  if (const Return code = require_privilege(); code != kSuccess) return code;
  Return result = kSuccess;
  const auto done = fleet()->update([&](sim::Body& body, const sim::FleetSpec& spec) {
    result = change(body, spec, target);
    return result == kSuccess;
  });
  return done ? result : kUnknown;
}

Return copy_text(std::string_view text, char* buffer, unsigned length) {
  if (buffer == nullptr) return kInvalidArgument;
  if (text.size() + 1 > length) return kInsufficientSize;
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return kSuccess;
}

Return whole_gpu_value(Device device, sim::Field field, double& out) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  const auto value = sim::at(target.gpu->readings, field);
  if (!value || target.instance != nullptr) return kNotSupported;
  out = *value;
  return kSuccess;
}

extern "C" int gpuwarden_sim_call(const char* request, char** reply) {
  if (request == nullptr || reply == nullptr) return 2;
  Context& c = context();
  std::string answer;
  {
    const std::scoped_lock lock(c.mutex);
    answer = sim::control(request, c.fleet);
  }
  *reply = ::strdup(answer.c_str());
  return answer.starts_with("{\"code\":") && answer.find("\"error\":") != std::string::npos ? 1 : 0;
}

}  // namespace gpuwarden::nvml::server
