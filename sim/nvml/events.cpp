// SPDX-License-Identifier: Apache-2.0
// Event sets: waiting really blocks, as clients count on.
#include <mutex>
#include <unordered_map>

#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace server;

constexpr unsigned long long kSupported =
    kEventSingleBitEcc | kEventDoubleBitEcc | kEventPState | kEventXid | kEventClock;

struct Set {
  unsigned long long mask = 0;
  std::uint64_t gpus = 0;
  std::uint64_t last = 0;  ///< number of the last event handed out
};

std::mutex g_mutex;                              // NOLINT(readability-identifier-naming): guards the two below
std::unordered_map<std::uintptr_t, Set> g_sets;  // NOLINT(readability-identifier-naming)
std::uintptr_t g_next = 1;                       // NOLINT(readability-identifier-naming)

std::optional<Set> find(EventSet set) {
  const std::scoped_lock lock(g_mutex);
  const auto found = g_sets.find(reinterpret_cast<std::uintptr_t>(set));
  return found == g_sets.end() ? std::nullopt : std::optional(found->second);
}

Return wait(EventSet handle, unsigned timeout_ms, EventData& out) {
  if (const Return code = require_init(); code != kSuccess) return code;
  const auto set = find(handle);
  if (!set) return kInvalidArgument;
  const auto event = fleet()->wait_event(set->last, set->mask, set->gpus, std::chrono::milliseconds(timeout_ms));
  if (!event) return kTimeout;
  {
    const std::scoped_lock lock(g_mutex);
    g_sets[reinterpret_cast<std::uintptr_t>(handle)].last = event->number;
  }
  out = {to_device({event->gpu, std::nullopt}), event->type, event->data, kNoInstance, kNoInstance};
  return kSuccess;
}

}  // namespace

extern "C" {

Return nvmlEventSetCreate(EventSet* set) {
  if (const Return code = require_init(); code != kSuccess) return code;
  if (set == nullptr) return kInvalidArgument;
  const auto view = fleet()->view();
  Set made;
  if (view && !(*view)->events.empty()) made.last = (*view)->events.back().number;
  const std::scoped_lock lock(g_mutex);
  g_sets[g_next] = made;
  *set = reinterpret_cast<EventSet>(g_next++);  // NOLINT(performance-no-int-to-ptr): an opaque number
  return kSuccess;
}

Return nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
  if (types == nullptr) return kInvalidArgument;
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  *types = target.gpu->spec->model.ecc ? kSupported : kEventXid | kEventPState | kEventClock;
  return kSuccess;
}

Return nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet set) {
  Target target;
  if (const Return code = resolve(device, target); code != kSuccess) return code;
  if ((types & ~kSupported) != 0) return kNotSupported;
  const std::scoped_lock lock(g_mutex);
  const auto found = g_sets.find(reinterpret_cast<std::uintptr_t>(set));
  if (found == g_sets.end()) return kInvalidArgument;
  found->second.mask |= types;
  found->second.gpus |= 1ULL << target.handle.gpu;
  return kSuccess;
}

Return nvmlEventSetWait_v2(EventSet set, EventData* data, unsigned timeout_ms) {
  return data == nullptr ? kInvalidArgument : wait(set, timeout_ms, *data);
}

Return nvmlEventSetWait(EventSet set, EventDataV1* data, unsigned timeout_ms) {
  EventData full{};
  if (data == nullptr) return kInvalidArgument;
  const Return code = wait(set, timeout_ms, full);
  if (code == kSuccess) *data = {full.device, full.type, full.data};
  return code;
}

Return nvmlEventSetFree(EventSet set) {
  const std::scoped_lock lock(g_mutex);
  return g_sets.erase(reinterpret_cast<std::uintptr_t>(set)) == 1 ? kSuccess : kInvalidArgument;
}

}  // extern "C"
}  // namespace gpuwarden::nvml
