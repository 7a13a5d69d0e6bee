// SPDX-License-Identifier: Apache-2.0
// What all simulated CUDA driver functions share: initialisation, devices, contexts, the fleet's faults and accounting,
// and how a call enters and leaves.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nvidia/cuda_functions.hpp"
#include "sim/core/fleet.hpp"
#include "sim/cuda/clock.hpp"
#include "sim/cuda/segments.hpp"
#include "sim/cuda/space.hpp"
#include "sim/cuda/timeline.hpp"

namespace gpuwarden::cuda::server {

/// A memory pool of cuMemPoolCreate, or a device's default pool.
struct PoolState {
  std::uintptr_t handle = 0;
  int device = 0;
  ReuseRules rules;
  std::uint64_t threshold = 0;  ///< reserved bytes that synchronising does not give back
  std::uint64_t largest = 0;    ///< at most so many bytes; 0: as the device has
  std::map<int, int> access;    ///< of other devices
  bool dying = false;           ///< destroyed, but blocks are still out
  std::unique_ptr<Segments> segments;
};

struct ContextState {
  std::uintptr_t handle = 0;
  std::uint64_t number = 0;
  int device = 0;
  bool primary = false;
  unsigned flags = 0;
  std::uint32_t born = 0;    ///< the newest fault when it was made
  Result broken = kSuccess;  ///< what it answers from now on
  std::map<int, std::uint64_t> limits;
  int cache_config = 0;
  std::vector<std::uintptr_t> peers;  ///< contexts whose memory it may use
  Timeline timeline;

  explicit ContextState(std::uintptr_t name) : handle(name), timeline(name) {}
};

/// A visible device: a GPU of the fleet, or a MIG instance.
struct DeviceState {
  sim::Fleet::Place place;
  const sim::GpuSpec* gpu = nullptr;
  std::optional<sim::MigInstance> instance;
  std::shared_ptr<ContextState> primary;
  unsigned primary_references = 0;
  unsigned primary_flags = 0;
  std::unique_ptr<DeviceFile> file;
  std::unique_ptr<Segments> small;  ///< cuMemAlloc blocks below kSmallest
  std::uintptr_t default_pool = 0;
  std::uintptr_t pool = 0;
};

/// A failure that this process asked for: of a function, `after` calls that go well, `times` in a row.
struct PlannedFailure {
  std::string function;
  Result code = kUnknown;
  std::int64_t after = 0;
  std::int64_t times = 1;
  bool sticky = false;  ///< the context answers so from then on
};

/// The process's driver. Everything below is guarded by `mutex`.
struct Driver {
  std::mutex mutex;
  bool initialised = false;
  bool closed = false;  ///< the process is ending
  std::shared_ptr<sim::Fleet> fleet;
  sim::Fleet::Owner owner;
  std::vector<DeviceState> devices;
  std::map<std::uintptr_t, std::shared_ptr<ContextState>> contexts;
  std::map<std::uint64_t, std::uintptr_t> streams;  ///< id, context
  std::map<std::uintptr_t, EventState> events;
  std::map<std::uintptr_t, PoolState> pools;
  std::map<std::uint64_t, std::shared_ptr<MemoryObject>> handles;  ///< of cuMemCreate
  Space space;
  std::vector<PlannedFailure> failures;
  std::uint64_t last_number = 0;
  std::uint64_t last_context = 0;

  std::shared_ptr<const sim::FleetView> view;
  std::uint64_t faults_seen = ~std::uint64_t{0};
  std::int64_t looked_at = 0;

  DeviceClock clock;
  Latencies latencies;

  /// A name for a new context, event, pool or handle: a number, not an address, so that a program that looks behind it
  /// crashes at once instead of by chance.
  std::uintptr_t next_name();
  /// The fleet's GPUs as they are, at most a tenth of a second old; never older than the newest fault.
  const sim::FleetView* look();

  DeviceState* device(int ordinal);
  ContextState* context(Context name);
  /// The current context of the thread, or nullptr.
  ContextState* current();
  /// The stream of a name, as seen by the calling thread; sets `its_context` to where it lives.
  StreamState* stream(Stream name, ContextState* current, ContextState*& its_context);

  /// Takes bytes from a device for this process; kOutOfMemory where they are not free.
  Result take(int ordinal, std::uint64_t bytes, std::uint64_t object = 0);
  void give(int ordinal, std::uint64_t bytes, std::uint64_t object = 0);
  /// Makes a context with its memory.
  Result make_context(int ordinal, unsigned flags, bool primary, std::shared_ptr<ContextState>& made);
  void destroy_context(ContextState& context);
  /// Gives back what pools hold above their thresholds, as synchronising does.
  void trim_pools(int ordinal);
  std::uintptr_t make_pool(int ordinal, std::uint64_t largest);
};

Driver& driver();
/// Attaches to the fleet and finds the visible devices: cuInit.
Result initialise();
/// The fleet that GPUWARDEN_SIM_FLEET or GPUWARDEN_SIMULATE names (h100x8 otherwise). Call with the lock held.
sim::Fleet* attach(Driver& driver);
/// After a change of fleet: who we are in it, and its latencies.
void adopt_fleet(Driver& driver);
/// The GPUs and instances that a process may use, in CUDA's order.
std::vector<DeviceState> visible_devices(const sim::FleetView& view);

/// Device memory for segments: taken from the fleet, and mapped.
Segments::Upstream device_upstream(Driver& driver, int ordinal);

/// cuMemAlloc gives addresses at multiples of this; so do pools. Source: measured on GPUs by many, for example
/// PyTorch's kMinBlockSize; CUDA promises 256.
inline constexpr std::uint64_t kAlignment = 512;
/// Requests below this share pages.
inline constexpr std::uint64_t kSmallest = std::uint64_t{1} << 20U;
/// Pools take memory in pieces of this (source: observed on drivers since CUDA 11.2: cudaMemPoolAttrReservedMemCurrent
/// rises by 32 MiB).
inline constexpr std::uint64_t kPoolSegment = std::uint64_t{32} << 20U;

/// The thread's context stack, and whether null streams mean the thread's own.
std::vector<std::uintptr_t>& context_stack();
bool& per_thread_default();

/// One call on its way through the driver.
struct Call {
  Driver& driver;
  ContextState* context = nullptr;
  Moment wait_until = 0;   ///< the caller is kept until then, after the lock is given back
  double mebibytes = 0;    ///< what the call is about, for its price
  double pieces = 1;       ///< of memory mapped there
  double extra_price = 0;  ///< microseconds on top
  bool trims = false;      ///< pools give back what they need not keep, once the wait is over

  DeviceState& device() const { return driver.devices[static_cast<std::size_t>(context->device)]; }
  Moment now() const { return driver.clock.now(); }
  void synchronise(Moment moment) {
    wait_until = moment;
    trims = true;
  }
};

enum class Needs { nothing, initialised, context };
/// What stands in the way of a call: not initialised, a forked child, a failure asked for, a fault of the GPU, no or a
/// broken context.
Result admit(Call& call, const char* function, Needs needs);
/// The price of the call, and what it waits for.
void leave(Call& call, const char* function);

/// Runs `body` (Result(Call&)) with the lock held; afterwards the caller pays and waits.
template <class Body>
Result run(const char* function, Needs needs, const Body& body) try {
  Call call{driver()};
  Result result = kSuccess;
  {
    const std::scoped_lock lock(call.driver.mutex);
    result = admit(call, function, needs);
    if (result == kSuccess) result = body(call);
    // What is refused is not more expensive because much was asked for.
    if (result != kSuccess) {
      call.mebibytes = 0;
      call.pieces = 1;
    }
  }
  leave(call, function);
  return result;
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
} catch (...) {
  return kUnknown;  // no exception may leave a C function
}

template <class Body>
Result with_driver(const char* function, const Body& body) {
  return run(function, Needs::initialised, body);
}
/// The same for functions that work in the current context.
template <class Body>
Result with_context(const char* function, const Body& body) {
  return run(function, Needs::context, body);
}

}  // namespace gpuwarden::cuda::server
