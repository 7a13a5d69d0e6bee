// SPDX-License-Identifier: Apache-2.0
// What the header declares is all that can be seen from outside.
#pragma GCC visibility push(default)
#include "gpuwarden/memory.h"
#pragma GCC visibility pop

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "gpuwarden/pools/device_pool.hpp"
#include "observer.hpp"
#include "pool_status.hpp"

struct gpuwarden_pool {
  explicit gpuwarden_pool(gpuwarden::bindings::ObserverSettings settings) : observer(std::move(settings)) {}
  gpuwarden_pool(const gpuwarden_pool&) = delete;
  gpuwarden_pool& operator=(const gpuwarden_pool&) = delete;
  ~gpuwarden_pool() { observer.finish(); }

  gpuwarden::bindings::PoolObserver observer;
  std::unique_ptr<gpuwarden::pools::DevicePool> on_device;
};

namespace {

using gpuwarden::Bytes;
using gpuwarden::Error;
using gpuwarden::ErrorCode;
using gpuwarden::fail;
using gpuwarden::Result;
using gpuwarden::memory::DeviceAddress;
using gpuwarden::memory::MemoryLimit;
using gpuwarden::memory::parse_memory_limit;
using gpuwarden::memory::StreamId;
using gpuwarden::pools::DevicePool;
using gpuwarden::pools::DevicePoolOptions;

thread_local std::string last_error;

gpuwarden_result code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return GPUWARDEN_INVALID_ARGUMENT;
    case ErrorCode::unsatisfied:
      return GPUWARDEN_OUT_OF_MEMORY;
    case ErrorCode::unavailable:
      return GPUWARDEN_UNAVAILABLE;
    case ErrorCode::not_found:
      return GPUWARDEN_NOT_FOUND;
    case ErrorCode::permission_denied:
      return GPUWARDEN_PERMISSION_DENIED;
    default:
      return GPUWARDEN_FAILED;
  }
}

/// Runs `body`, a Result<void>(), and keeps its error for gpuwarden_last_error(); no exception gets through.
template <class Body>
gpuwarden_result answer(const Body& body) noexcept try {
  const Result<void> result = body();
  if (result) return GPUWARDEN_OK;
  const Error& error = result.error();
  last_error = error.hint.empty() ? error.message : fmt::format("{} ({})", error.message, error.hint);
  return code_of(error.code);
} catch (const std::exception& exception) {
  // Of a few bytes, which a string holds without memory.
  last_error.assign(dynamic_cast<const std::bad_alloc*>(&exception) != nullptr ? "out of host memory"
                                                                               : "internal error");
  return GPUWARDEN_FAILED;
}

std::unexpected<Error> null_given(std::string_view what) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} is NULL", what));
}

StreamId id_of(void* stream) { return {reinterpret_cast<std::uintptr_t>(stream)}; }

/// Another thread's default stream cannot be told from this one's.
Result<void> check_stream(void* stream) {
  constexpr std::uint64_t kPerThread = 2;  // CU_STREAM_PER_THREAD
  if (id_of(stream).value != kPerThread) return {};
  return fail(ErrorCode::invalid_argument, "the per-thread default stream is another one in each thread",
              "use a stream that was created, or NULL for the legacy default stream");
}

/// The caller's options, which may be of an older or a newer version.
Result<gpuwarden_pool_options> known_part(const gpuwarden_pool_options& given) {
  if (given.size < sizeof given.size)
    return fail(ErrorCode::invalid_argument, fmt::format("options of size {} cannot be", given.size),
                "begin with GPUWARDEN_POOL_OPTIONS_INIT");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&given);
  const std::size_t known = std::min(given.size, sizeof given);
  if (std::any_of(bytes + known, bytes + given.size, [](unsigned char byte) { return byte != 0; }))
    return fail(ErrorCode::invalid_argument, "the program asks for options that this library does not know",
                "install a newer libgpuwarden-memory");
  gpuwarden_pool_options options = GPUWARDEN_POOL_OPTIONS_INIT;
  std::memcpy(&options, &given, known);
  return options;
}

Result<DevicePoolOptions> translate(const gpuwarden_pool_options& given) {
  GPUWARDEN_TRY(const gpuwarden_pool_options options, known_part(given));
  DevicePoolOptions result;
  result.cuda.device.value = options.device;
  if (options.uuid != nullptr) result.cuda.uuid = gpuwarden::Uuid(options.uuid);
  if (options.library != nullptr) result.cuda.library = options.library;
  if (options.strategy != nullptr) result.strategy = options.strategy;
  if (options.limit != nullptr) {
    GPUWARDEN_TRY(result.limit, parse_memory_limit(options.limit));
  }
  result.keep_free = Bytes(options.keep_free);
  result.wait_for_others = std::chrono::milliseconds(options.wait_for_others);
  constexpr std::uint64_t kYear = 31'536'000'000;  // beyond, clocks would wrap around
  result.trim_after = std::chrono::milliseconds(std::min(options.trim_after, kYear));
  return result;
}

/// The pools that there are. Never destroyed: a program may destroy its pools while it ends.
struct Pools {
  std::mutex mutex;
  std::set<gpuwarden_pool*> live;
  unsigned made = 0;
  pid_t process = ::getpid();
};

Pools& pools() {
  static auto* const instance = new Pools();
  return *instance;
}

/// At the end of the program, for pools that nobody destroyed; unless it is a child that was forked off.
struct Finisher {
  ~Finisher() {
    if (pools().process != ::getpid()) return;
    const std::lock_guard lock(pools().mutex);
    for (gpuwarden_pool* const pool : pools().live) pool->observer.finish();
  }
};

Result<gpuwarden_pool*> open(const DevicePoolOptions& options) {
  static const Finisher finisher;
  GPUWARDEN_TRY(auto settings, gpuwarden::bindings::read_observer_settings());
  auto pool = std::make_unique<gpuwarden_pool>(std::move(settings));
  DevicePoolOptions with = options;
  with.on_out_of_memory = pool->observer.on_out_of_memory();
  GPUWARDEN_TRY(pool->on_device, DevicePool::open(with));
  const std::lock_guard lock(pools().mutex);
  pool->observer.start(*pool->on_device, pools().made++);
  pools().live.insert(pool.get());
  return pool.release();
}

}  // namespace

extern "C" {

gpuwarden_result gpuwarden_pool_create(const gpuwarden_pool_options* options, gpuwarden_pool** pool) {
  return answer([&]() -> Result<void> {
    if (options == nullptr || pool == nullptr) return null_given(pool == nullptr ? "pool" : "options");
    *pool = nullptr;
    GPUWARDEN_TRY(const DevicePoolOptions translated, translate(*options));
    GPUWARDEN_TRY(*pool, open(translated));
    return {};
  });
}

void gpuwarden_pool_destroy(gpuwarden_pool* pool) {
  if (pool == nullptr) return;
  // In a forked child the lock may be held for ever by a thread that is not there.
  if (pools().process == ::getpid()) {
    const std::lock_guard lock(pools().mutex);
    pools().live.erase(pool);
  }
  delete pool;
}

gpuwarden_result gpuwarden_pool_allocate(gpuwarden_pool* pool, uint64_t bytes, void* stream, void** address) {
  return answer([&]() -> Result<void> {
    if (pool == nullptr || address == nullptr) return null_given(pool == nullptr ? "pool" : "address");
    *address = nullptr;
    GPUWARDEN_CHECK(check_stream(stream));
    GPUWARDEN_TRY(const DeviceAddress found, pool->on_device->pool().allocate(Bytes(bytes), id_of(stream)));
    *address = reinterpret_cast<void*>(found.value);  // NOLINT(performance-no-int-to-ptr)
    return {};
  });
}

gpuwarden_result gpuwarden_pool_free(gpuwarden_pool* pool, void* address, void* stream) {
  return answer([&]() -> Result<void> {
    if (pool == nullptr) return null_given("pool");
    if (address == nullptr) return {};
    GPUWARDEN_CHECK(check_stream(stream));
    return pool->on_device->pool().deallocate({reinterpret_cast<std::uintptr_t>(address)}, id_of(stream));
  });
}

gpuwarden_result gpuwarden_pool_size_of(gpuwarden_pool* pool, const void* address, uint64_t* bytes) {
  return answer([&]() -> Result<void> {
    if (pool == nullptr || bytes == nullptr) return null_given(pool == nullptr ? "pool" : "bytes");
    GPUWARDEN_TRY(const Bytes size, pool->on_device->pool().size_of({reinterpret_cast<std::uintptr_t>(address)}));
    *bytes = size.value;
    return {};
  });
}

gpuwarden_result gpuwarden_pool_trim(gpuwarden_pool* pool, uint64_t keep, uint64_t* released) {
  return answer([&]() -> Result<void> {
    if (pool == nullptr) return null_given("pool");
    GPUWARDEN_TRY(const Bytes gone, pool->on_device->pool().trim(Bytes(keep)));
    if (released != nullptr) *released = gone.value;
    return {};
  });
}

gpuwarden_result gpuwarden_pool_set_limit(gpuwarden_pool* pool, const char* limit, const char* soft_limit) {
  return answer([&]() -> Result<void> {
    if (pool == nullptr) return null_given("pool");
    MemoryLimit hard;
    std::optional<MemoryLimit> soft;
    if (limit != nullptr) {
      GPUWARDEN_TRY(hard, parse_memory_limit(limit));
    }
    if (soft_limit != nullptr) {
      GPUWARDEN_TRY(soft, parse_memory_limit(soft_limit));
    }
    return pool->on_device->set_limit(hard, soft);
  });
}

gpuwarden_result gpuwarden_pool_get_status(gpuwarden_pool* pool, gpuwarden_pool_status* status) {
  return answer([&]() -> Result<void> {
    if (pool == nullptr || status == nullptr) return null_given(pool == nullptr ? "pool" : "status");
    const std::size_t size = status->size;
    if (size < sizeof size)
      return fail(ErrorCode::invalid_argument, fmt::format("a status of size {} cannot be", size),
                  "begin with GPUWARDEN_POOL_STATUS_INIT");
    GPUWARDEN_CHECK(pool->on_device->pool().check_process());
    const auto device = pool->on_device->device().memory().value_or(gpuwarden::memory::DeviceMemory{});
    gpuwarden_pool_status now = gpuwarden::status_for_c(pool->on_device->pool().status(), device);
    now.size = size;
    std::memcpy(status, &now, std::min(size, sizeof now));
    return {};
  });
}

const char* gpuwarden_last_error(void) { return last_error.c_str(); }
const char* gpuwarden_memory_version(void) { return GPUWARDEN_VERSION; }

}  // extern "C"
