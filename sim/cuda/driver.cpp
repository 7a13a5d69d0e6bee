// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/driver.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gpuwarden/base/text.hpp"
#include "sim/core/process.hpp"

namespace gpuwarden::cuda::server {
namespace {

[[noreturn]] void hang() {
  for (;;) ::pause();
}

/// A context's own memory grows with the multiprocessors, for which it keeps local memory. Source: llama.cpp pull
/// request 23604: 555 MiB on an RTX PRO 6000 (188 multiprocessors), 107 MiB on an RTX 4060 Ti (34): about 3 MiB each.
std::uint64_t context_bytes(const DeviceState& device, const sim::FleetSpec& spec) {
  const int multiprocessors = device.instance ? device.instance->multiprocessors : device.gpu->model.multiprocessors;
  const double mib = spec.context_mib >= 0 ? spec.context_mib : 3.0 * multiprocessors;
  return round_up(static_cast<std::uint64_t>(mib * (1 << 20)), kPage);
}

/// What a GPU's faults do to a context (source: NVIDIA's Xid catalogue): after Xid 31 it answers with an illegal
/// address, after 13 with a failed launch, after uncorrectable memory errors with those.
Result sticky_code(const sim::FaultView& fault) {
  if (fault.kind == sim::FaultKind::cuda_corrupt) return static_cast<Result>(fault.value);
  if (fault.kind == sim::FaultKind::ecc_uncorrected) return kEccUncorrectable;
  if (fault.kind != sim::FaultKind::xid) return kSuccess;
  switch (fault.value) {
    case 13:
      return kLaunchFailed;
    case 31:
      return kIllegalAddress;
    case 48:
    case 63:
    case 95:
      return kEccUncorrectable;
    default:
      return kSuccess;
  }
}

bool has(const sim::GpuView& gpu, sim::FaultKind kind) {
  return std::ranges::find(gpu.faults, kind, &sim::FaultView::kind) != gpu.faults.end();
}

/// One error for whichever call comes first, or the next allocations.
Result passing_fault(Driver& d, const sim::GpuView& gpu, std::uint32_t index, const char* function) {
  using sim::FaultKind;
  const bool allocates = std::strncmp(function, "cuMemAlloc", 10) == 0 || std::strcmp(function, "cuMemCreate") == 0;
  if (has(gpu, FaultKind::cuda_error)) {
    const auto code = d.fleet->use_up(index, FaultKind::cuda_error);
    if (code && *code) return static_cast<Result>(**code);
  }
  if (allocates && has(gpu, FaultKind::cuda_out_of_memory)) {
    const auto times = d.fleet->use_up(index, FaultKind::cuda_out_of_memory);
    if (times && *times) return kOutOfMemory;
  }
  return kSuccess;
}

/// The faults of the context's GPU.
Result trouble_of(Driver& d, ContextState& context, const char* function) {
  const std::uint32_t index = d.devices[static_cast<std::size_t>(context.device)].place.gpu;
  const sim::FleetView* view = d.look();
  if (view == nullptr) return kUnknown;
  const sim::GpuView& gpu = view->gpus[index];
  if (gpu.hang) hang();
  if (context.broken == kSuccess && (gpu.lost || gpu.reset_required || gpu.unknown_error)) context.broken = kUnknown;
  for (const sim::FaultView& fault : gpu.faults) {
    if (context.broken == kSuccess && fault.number > context.born) context.broken = sticky_code(fault);
  }
  return context.broken != kSuccess ? context.broken : passing_fault(d, gpu, index, function);
}

/// Failures that this process asked for; `*` stands for every function.
Result planned_failure(Driver& d, ContextState* context, std::string_view function) {
  for (PlannedFailure& failure : d.failures) {
    if (failure.function != function && failure.function != "*") continue;
    if (failure.times == 0 || failure.after-- > 0) continue;
    if (failure.times > 0) --failure.times;
    failure.after = 0;
    if (failure.sticky && context != nullptr) context->broken = failure.code;
    return failure.code;
  }
  return kSuccess;
}

}  // namespace

namespace {

/// At the end of the process the fleet is let go, so that its folder is cleared up; calls after that say so.
struct Closer {
  ~Closer() {
    Driver& d = driver();
    // A thread that hangs on a hung GPU keeps the lock; the process may end all the same.
    const std::unique_lock lock(d.mutex, std::try_to_lock);
    if (!lock) return;
    d.closed = true;
    d.view.reset();
    d.fleet.reset();
  }
};

}  // namespace

Driver& driver() {
  // Never destroyed: programs free their memory in destructors of their own.
  static auto* const instance = new Driver();
  return *instance;
}

std::vector<std::uintptr_t>& context_stack() {
  thread_local std::vector<std::uintptr_t> stack;
  return stack;
}

bool& per_thread_default() {
  thread_local bool value = false;
  return value;
}

sim::Fleet* attach(Driver& d) {
  if (d.fleet || d.closed) return d.fleet.get();
  static const Closer closer;
  d.fleet = sim::Fleet::attach_for_library();
  if (d.fleet) adopt_fleet(d);
  return d.fleet.get();
}

void adopt_fleet(Driver& d) {
  d.owner = {::getpid(), sim::process_start_time(::getpid())};
  double factor = d.fleet->spec().cuda_latency;
  if (const char* given = std::getenv("GPUWARDEN_SIM_CUDA_LATENCY"))
    factor = std::string_view(given) == "off" ? 0 : parse_number(given).value_or(factor);
  d.latencies.set_factor(std::max(factor, 0.0));
}

Result initialise() {
  Driver& d = driver();
  std::shared_ptr<const sim::FleetView> view;
  {
    const std::scoped_lock lock(d.mutex);
    if (d.initialised) return d.owner.pid == ::getpid() ? kSuccess : kNotInitialized;
    sim::Fleet* live = attach(d);
    const auto seen = live != nullptr ? live->view() : fail(ErrorCode::not_found, "");
    if (!seen) return kNoDevice;
    view = *seen;
  }
  if (view->hang_init) hang();
  if (view->driver_not_loaded) return kNoDevice;
  if (view->mismatch) return kSystemDriverMismatch;
  const std::scoped_lock lock(d.mutex);
  if (d.initialised) return kSuccess;
  d.devices = visible_devices(*view);
  if (d.devices.empty()) return kNoDevice;
  for (int i = 0; i < static_cast<int>(d.devices.size()); ++i) {
    d.device(i)->small = std::make_unique<Segments>(kPage, kAlignment, device_upstream(d, i));
    d.device(i)->default_pool = d.device(i)->pool = d.make_pool(i, 0);
  }
  d.initialised = true;
  return kSuccess;
}

std::uintptr_t Driver::next_name() { return 0x6375'0000'0000 + (++last_number << 4U); }

const sim::FleetView* Driver::look() {
  constexpr std::int64_t kOftenNs = 100'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const std::int64_t at = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  if (view && fleet->fault_generation() == faults_seen && at - looked_at < kOftenNs) return view.get();
  const std::uint64_t generation = fleet->fault_generation();
  auto seen = fleet->view();
  if (!seen) return view.get();
  view = *seen;
  faults_seen = generation;
  looked_at = at;
  return view.get();
}

DeviceState* Driver::device(int ordinal) {
  const bool known = ordinal >= 0 && static_cast<std::size_t>(ordinal) < devices.size();
  return known ? &devices[static_cast<std::size_t>(ordinal)] : nullptr;
}

ContextState* Driver::context(Context name) {
  const auto found = contexts.find(reinterpret_cast<std::uintptr_t>(name));
  return found == contexts.end() ? nullptr : found->second.get();
}

ContextState* Driver::current() {
  const auto& stack = context_stack();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
  return stack.empty() ? nullptr : context(reinterpret_cast<Context>(stack.back()));
}

StreamState* Driver::stream(Stream name, ContextState* current, ContextState*& its_context) {
  const auto number = reinterpret_cast<std::uintptr_t>(name);
  its_context = current;
  const bool own = number == kStreamPerThread || (number == 0 && per_thread_default());
  if (own || number == 0 || number == kStreamLegacy) {
    if (current == nullptr) return nullptr;
    return own ? &current->timeline.of_thread() : &current->timeline.legacy();
  }
  const auto found = streams.find(number >> 4U);
  if (found == streams.end() || (number & 0xFU) != 0) return nullptr;
  its_context = contexts.at(found->second).get();
  return its_context->timeline.find(found->first);
}

Result Driver::take(int ordinal, std::uint64_t bytes, std::uint64_t object) {
  using Taken = sim::Fleet::Taken;
  const auto taken = fleet->take(owner, device(ordinal)->place, bytes, object);
  if (!taken) return kUnknown;
  return *taken == Taken::done ? kSuccess : *taken == Taken::out_of_memory ? kOutOfMemory : kOperatingSystem;
}

void Driver::give(int ordinal, std::uint64_t bytes, std::uint64_t object) {
  [[maybe_unused]] const auto given = fleet->give(owner, device(ordinal)->place, bytes, object);
}

namespace {

/// The compute mode may forbid a context; so does a GPU that is gone.
Result refusal(Driver& d, const DeviceState& device) {
  const sim::FleetView* view = d.look();
  if (view == nullptr) return kUnknown;
  const sim::GpuView& gpu = view->gpus[device.place.gpu];
  if (gpu.lost || gpu.unknown_error) return kUnknown;
  if (gpu.reset_required || gpu.settings.is_drained != 0) return kDevicesUnavailable;
  const auto mode = sim::at(gpu.readings, sim::Field::compute_mode).value_or(0);
  const bool others = std::ranges::any_of(
      gpu.processes, [&](const sim::ProcessView& process) { return process.compute && process.pid != d.owner.pid; });
  return mode == 2 || (mode == 3 && others) ? kDevicesUnavailable : kSuccess;
}

}  // namespace

Result Driver::make_context(int ordinal, unsigned flags, bool primary, std::shared_ptr<ContextState>& made) {
  const DeviceState& on = *device(ordinal);
  if (const Result refused = refusal(*this, on); refused != kSuccess) return refused;
  const auto taken = fleet->take(owner, on.place, context_bytes(on, fleet->spec()), 0, true);
  if (!taken) return kUnknown;
  if (*taken != sim::Fleet::Taken::done) return kOutOfMemory;
  made = std::make_shared<ContextState>(next_name());
  made->number = ++last_context;
  made->device = ordinal;
  made->primary = primary;
  made->flags = flags;
  made->born = view->gpus[on.place.gpu].fault_number;
  contexts[made->handle] = made;
  return kSuccess;
}

void Driver::destroy_context(ContextState& context) {
  const int ordinal = context.device;
  const std::uintptr_t name = context.handle;
  std::erase_if(streams, [&](const auto& stream) { return stream.second == name; });
  std::erase_if(events, [&](const auto& event) { return event.second.context == name; });
  std::vector<std::uint64_t> gone;
  for (const auto& [base, range] : space.ranges()) {
    if (range.context == name && range.kind != RangeKind::pool) gone.push_back(base);
  }
  for (const std::uint64_t base : gone) {
    const Range range = *space.at(base);
    space.remove(base);
    if (range.kind == RangeKind::registered) continue;  // the program's own
    if (range.kind == RangeKind::device && range.held == 0) {
      device(ordinal)->small->give(base, nullptr, clock.now());
      continue;
    }
    Space::unmap_memory(base, range.kind == RangeKind::device ? range.held : round_up(range.size, 4096));
    if (range.kind == RangeKind::device) give(ordinal, range.held);
  }
  device(ordinal)->small->trim(0, clock.now());
  const std::uint64_t own = context_bytes(*device(ordinal), fleet->spec());
  [[maybe_unused]] const auto given = fleet->give(owner, device(ordinal)->place, own, 0, true);
  contexts.erase(name);
}

void Driver::trim_pools(int ordinal) {
  for (auto& [handle, pool] : pools) {
    if (pool.device == ordinal) pool.segments->trim(pool.threshold, clock.now());
  }
}

Result admit(Call& call, const char* function, Needs needs) {
  Driver& d = call.driver;
  if (needs == Needs::nothing) return kSuccess;
  // CUDA does not survive a fork: the child's calls fail, whatever the parent had done.
  if (!d.initialised || d.owner.pid != ::getpid()) return kNotInitialized;
  if (d.closed) return kDeinitialized;
  call.context = d.current();
  if (needs == Needs::context && call.context == nullptr)
    return context_stack().empty() || context_stack().back() == 0 ? kInvalidContext : kContextIsDestroyed;
  if (!d.failures.empty()) {
    if (const Result planned = planned_failure(d, call.context, function); planned != kSuccess) return planned;
  }
  return needs == Needs::context ? trouble_of(d, *call.context, function) : kSuccess;
}

void leave(Call& call, const char* function) {
  const Latencies& latencies = call.driver.latencies;
  call.driver.clock.spend(latencies.of_call(function, call.mebibytes, call.pieces) +
                          latencies.factor() * 1000 * call.extra_price);
  if (call.wait_until > 0) call.driver.clock.wait_until(call.wait_until);
  if (!call.trims) return;
  const std::scoped_lock lock(call.driver.mutex);
  if (call.driver.closed) return;
  for (int i = 0; i < static_cast<int>(call.driver.devices.size()); ++i) call.driver.trim_pools(i);
}

}  // namespace gpuwarden::cuda::server
