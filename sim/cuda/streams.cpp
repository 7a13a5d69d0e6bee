// SPDX-License-Identifier: Apache-2.0
// Streams and events; how their time passes: timeline.hpp.
#include <algorithm>
#include <utility>

#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda {
namespace {

using namespace server;

Stream name_of(const StreamState& stream) {
  return reinterpret_cast<Stream>(stream.id << 4U);  // NOLINT(performance-no-int-to-ptr): a number, not an address
}

/// A stream, with the context that it is in.
struct Found {
  StreamState* stream = nullptr;
  ContextState* owner = nullptr;
};

/// Runs `body(Call&, Found)` for a stream that there is.
template <class Body>
Result with_stream(const char* function, Stream name, const Body& body) {
  return with_context(function, [&](Call& call) {
    Found found;
    found.stream = call.driver.stream(name, call.context, found.owner);
    return found.stream == nullptr ? kInvalidHandle : body(call, found);
  });
}

template <class Body>
Result with_event(const char* function, Event name, const Body& body) {
  return with_driver(function, [&](Call& call) {
    const auto found = call.driver.events.find(reinterpret_cast<std::uintptr_t>(name));
    return found == call.driver.events.end() ? kInvalidHandle : body(call, found->second);
  });
}

/// A broken context's streams and events answer with what broke it.
Result state_of(Driver& d, std::uintptr_t context) {
  const auto found = d.contexts.find(context);
  return found == d.contexts.end() ? kContextIsDestroyed : found->second->broken;
}

Result create(const char* function, Stream* stream, unsigned flags, int priority) {
  if (stream == nullptr || flags > kStreamNonBlocking) return kInvalidValue;
  return with_context(function, [&](Call& call) {
    const StreamState& made = call.context->timeline.add(flags, std::clamp(priority, -5, 0));
    call.driver.streams[made.id] = call.context->handle;
    return *stream = name_of(made), kSuccess;
  });
}

Result record(const char* function, Event event, Stream name) {
  return with_stream(function, name, [&](Call& call, const Found& found) {
    const auto state = call.driver.events.find(reinterpret_cast<std::uintptr_t>(event));
    if (state == call.driver.events.end()) return kInvalidHandle;
    // Events and streams of one context belong together.
    if (state->second.context != found.owner->handle) return kInvalidHandle;
    return found.owner->timeline.record(state->second, *found.stream, call.now()), kSuccess;
  });
}

Result elapsed(const char* function, float* milliseconds, Event begin, Event end) {
  if (milliseconds == nullptr) return kInvalidValue;
  return with_event(function, begin, [&](Call& call, const EventState& first) {
    const auto second = call.driver.events.find(reinterpret_cast<std::uintptr_t>(end));
    if (second == call.driver.events.end()) return kInvalidHandle;
    const EventState& last = second->second;
    if (((first.flags | last.flags) & kEventDisableTiming) != 0 || !first.recorded || !last.recorded)
      return kInvalidHandle;
    if (std::max(first.at, last.at) > call.now()) return kNotReady;
    *milliseconds = static_cast<float>(static_cast<double>(last.at - first.at) / 1e6);
    return kSuccess;
  });
}

}  // namespace

extern "C" {

Result cuStreamCreate(Stream* stream, unsigned flags) { return create(__func__, stream, flags, 0); }
Result cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  return create(__func__, stream, flags, priority);
}

Result cuStreamDestroy_v2(Stream name) {
  return with_driver(__func__, [&](Call& call) {
    const auto number = reinterpret_cast<std::uintptr_t>(name);
    const auto found = call.driver.streams.find(number >> 4U);
    if (found == call.driver.streams.end() || (number & 0xFU) != 0) return kInvalidHandle;
    // Its work goes on; nobody waits for it here.
    call.driver.contexts.at(found->second)->timeline.remove(found->first);
    call.driver.streams.erase(found);
    return kSuccess;
  });
}

Result cuStreamQuery(Stream name) {
  return with_stream(__func__, name, [&](Call& call, const Found& found) {
    return found.owner->timeline.end_of(*found.stream) <= call.now() ? kSuccess : kNotReady;
  });
}

Result cuStreamSynchronize(Stream name) {
  return with_stream(__func__, name, [&](Call& call, const Found& found) {
    return call.synchronise(found.owner->timeline.end_of(*found.stream)), kSuccess;
  });
}

Result cuStreamWaitEvent(Stream name, Event event, unsigned flags) {
  if (flags > 1) return kInvalidValue;
  return with_stream(__func__, name, [&](Call& call, const Found& found) {
    const auto state = call.driver.events.find(reinterpret_cast<std::uintptr_t>(event));
    if (state == call.driver.events.end()) return kInvalidHandle;
    return Timeline::wait(*found.stream, state->second), kSuccess;
  });
}

Result cuStreamGetFlags(Stream name, unsigned* flags) {
  if (flags == nullptr) return kInvalidValue;
  return with_stream(__func__, name, [&](Call&, const Found& found) { return *flags = found.stream->flags, kSuccess; });
}

Result cuStreamGetPriority(Stream name, int* priority) {
  if (priority == nullptr) return kInvalidValue;
  return with_stream(__func__, name,
                     [&](Call&, const Found& found) { return *priority = found.stream->priority, kSuccess; });
}

Result cuStreamGetCtx(Stream name, Context* context) {
  if (context == nullptr) return kInvalidValue;
  return with_stream(__func__, name, [&](Call&, const Found& found) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
    return *context = reinterpret_cast<Context>(found.owner->handle), kSuccess;
  });
}

Result cuStreamGetId(Stream name, unsigned long long* id) {
  if (id == nullptr) return kInvalidValue;
  return with_stream(__func__, name, [&](Call&, const Found& found) { return *id = found.stream->id, kSuccess; });
}

Result cuStreamGetDevice(Stream name, Device* device) {
  if (device == nullptr) return kInvalidValue;
  return with_stream(__func__, name,
                     [&](Call&, const Found& found) { return *device = found.owner->device, kSuccess; });
}

Result cuStreamIsCapturing(Stream name, int* status) {
  if (status == nullptr) return kInvalidValue;
  return with_stream(__func__, name, [&](Call&, const Found&) { return *status = 0, kSuccess; });
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  // Nothing can be captured here, so that the mode is only remembered: global, thread-local or relaxed.
  static thread_local int current = 0;
  if (mode == nullptr || *mode < 0 || *mode > 2) return kInvalidValue;
  std::swap(*mode, current);
  return kSuccess;
}

Result cuEventCreate(Event* event, unsigned flags) {
  if (event == nullptr || flags > (kEventBlockingSync | kEventDisableTiming | kEventInterprocess)) return kInvalidValue;
  if ((flags & kEventInterprocess) != 0) return kNotSupported;
  return with_context(__func__, [&](Call& call) {
    const std::uintptr_t name = call.driver.next_name();
    call.driver.events[name] = {.context = call.context->handle, .flags = flags};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
    return *event = reinterpret_cast<Event>(name), kSuccess;
  });
}

Result cuEventRecord(Event event, Stream stream) { return record(__func__, event, stream); }
Result cuEventRecordWithFlags(Event event, Stream stream, unsigned flags) {
  return flags > 1 ? kInvalidValue : record("cuEventRecord", event, stream);
}

Result cuEventQuery(Event name) {
  return with_event(__func__, name, [&](Call& call, const EventState& event) {
    if (const Result state = state_of(call.driver, event.context); state != kSuccess) return state;
    return !event.recorded || event.at <= call.now() ? kSuccess : kNotReady;
  });
}

Result cuEventSynchronize(Event name) {
  return with_event(__func__, name, [&](Call& call, const EventState& event) {
    if (event.recorded) call.synchronise(event.at);
    return state_of(call.driver, event.context);
  });
}

Result cuEventDestroy_v2(Event name) {
  return with_event(__func__, name, [&](Call& call, const EventState&) {
    return call.driver.events.erase(reinterpret_cast<std::uintptr_t>(name)), kSuccess;
  });
}

Result cuEventElapsedTime(float* milliseconds, Event begin, Event end) {
  return elapsed(__func__, milliseconds, begin, end);
}
Result cuEventElapsedTime_v2(float* milliseconds, Event begin, Event end) {
  return elapsed(__func__, milliseconds, begin, end);
}

}  // extern "C"
}  // namespace gpuwarden::cuda
