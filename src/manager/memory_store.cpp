// SPDX-License-Identifier: Apache-2.0
#include "manager/memory_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memory/async_pool.hpp"
#include "gpuwarden/memory/cuda_upstream.hpp"
#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/trimmer.hpp"

namespace gpuwarden::manager {
namespace {

using memory::DeviceAddress;
using memory::StreamId;

/// Idle memory is looked at after so much was given back.
constexpr Bytes kLookAfter = 2_MiB;

Bytes host_memory() {
  return Bytes(static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

class PoolStore final : public MemoryStore {
 public:
  static Result<std::unique_ptr<MemoryStore>> open(std::unique_ptr<memory::Upstream> upstream,
                                                   const MemoryConfig& config, Clock& clock) {
    GPUWARDEN_TRY(const memory::DeviceMemory has, upstream->memory());
    memory::PoolConfig pool;
    pool.strategy = memory::find_strategy(to_string(config.allocation_strategy));
    pool.limit = limit_of(config, has.total);
    std::unique_ptr<PoolStore> store(new PoolStore());
    store->cache_ratio_ = config.max_memory_cache_ratio;
    store->upstream_ = std::move(upstream);
    GPUWARDEN_TRY(store->pool_, memory::Pool::create(*store->upstream_, std::move(pool)));
    if (config.enable_cleanup)
      store->trimmer_.emplace(
          *store->pool_, clock,
          memory::TrimmerConfig{
              .interval = config.cleanup_interval / 4, .idle_for = config.cleanup_interval, .keep = {}});
    return store;
  }

  Result<DeviceAddress> allocate(Bytes size, StreamId stream) override { return pool_->allocate(size, stream); }

  Result<void> deallocate(DeviceAddress address, StreamId stream) override {
    const std::uint64_t size = pool_->size_of(address).value_or(Bytes{}).value;
    GPUWARDEN_CHECK(pool_->deallocate(address, stream));
    const std::uint64_t given_back = given_back_.fetch_add(size) + size;
    if (given_back < kLookAfter.value) return {};
    given_back_ = 0;
    return keep_cache_small();
  }

  Result<Bytes> trim(Bytes keep) override { return pool_->trim(keep); }

  Result<Defragmentation> defragment() override {
    Defragmentation done;
    done.idle_before = idle();
    GPUWARDEN_TRY(done.returned, pool_->trim());
    done.idle_after = idle();
    return done;
  }

  Result<void> set_limit(Bytes limit) override {
    return pool_->set_limit({.limit = limit, .limit_fraction = std::nullopt, .soft_limit = std::nullopt});
  }

  StoreFigures figures() const override {
    const memory::PoolStatus status = pool_->status();
    return {.live = status.live,
            .peak = status.peak_live,
            .reserved = status.reserved,
            .live_blocks = status.live_blocks,
            .allocations = status.allocations,
            .reused = status.quick_hits + status.learned_operations / 2,
            .fragmentation = memory::external_fragmentation(status.free, status.largest_free)};
  }

  Bytes limit() const override { return pool_->status().limit; }

 private:
  PoolStore() = default;

  Bytes idle() const {
    const memory::PoolStatus status = pool_->status();
    return status.reserved - status.live;
  }

  Result<void> keep_cache_small() {
    const memory::PoolStatus status = pool_->status();
    const Bytes most(static_cast<std::uint64_t>(static_cast<double>(status.limit.value) * cache_ratio_));
    if (status.reserved - status.live <= most) return {};
    GPUWARDEN_CHECK(pool_->trim(status.live + most));
    return {};
  }

  double cache_ratio_ = 1;
  std::atomic<std::uint64_t> given_back_ = 0;
  std::unique_ptr<memory::Upstream> upstream_;
  std::unique_ptr<memory::Pool> pool_;
  std::optional<memory::Trimmer> trimmer_;  ///< ends before the pool does
};

/// malloc and free, as the shape of memory::DirectResource has it.
class HostMemory {
 public:
  static Result<DeviceAddress> allocate(Bytes size, StreamId) {
    void* const memory = std::malloc(size.value);
    if (memory == nullptr) return fail(ErrorCode::unsatisfied, "the host is out of memory");
    return DeviceAddress{reinterpret_cast<std::uintptr_t>(memory)};
  }
  static Result<void> deallocate(DeviceAddress address, Bytes, StreamId) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): what allocate() gave out as a number
    std::free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address.value)));
    return {};
  }
};

/// No pool: what is given back is the device's again at once.
template <class Resource>
class DirectStore final : public MemoryStore {
 public:
  DirectStore(std::unique_ptr<Resource> resource, Bytes limit) : resource_(std::move(resource)), limit_(limit) {}
  DirectStore(const DirectStore&) = delete;
  DirectStore& operator=(const DirectStore&) = delete;
  ~DirectStore() override {
    for (const auto& [address, size] : sizes_) static_cast<void>(resource_->deallocate(address, size, {}));
  }

  Result<DeviceAddress> allocate(Bytes size, StreamId stream) override {
    const std::scoped_lock lock(mutex_);
    if (size.value == 0) return fail(ErrorCode::invalid_argument, "0 bytes cannot be allocated");
    if (figures_.live + size > limit_ || figures_.live + size < figures_.live)
      return fail(ErrorCode::unsatisfied,
                  fmt::format("{} would exceed the limit of {} ({} are in use)", format_size(size), format_size(limit_),
                              format_size(figures_.live)),
                  "raise max_pool_size or memory_fraction");
    GPUWARDEN_TRY(const DeviceAddress address, resource_->allocate(size, stream));
    sizes_[address] = size;
    figures_.live += size;
    figures_.peak = std::max(figures_.peak, figures_.live);
    ++figures_.allocations;
    return address;
  }

  Result<void> deallocate(DeviceAddress address, StreamId stream) override {
    const std::scoped_lock lock(mutex_);
    const auto found = sizes_.find(address);
    if (found == sizes_.end())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{:#x} was not given out, or was given back", address.value));
    GPUWARDEN_CHECK(resource_->deallocate(address, found->second, stream));
    figures_.live -= found->second;
    sizes_.erase(found);
    return {};
  }

  Result<Bytes> trim(Bytes) override { return Bytes{}; }
  Result<Defragmentation> defragment() override { return Defragmentation{}; }

  Result<void> set_limit(Bytes limit) override {
    const std::scoped_lock lock(mutex_);
    if (figures_.live > limit)
      return fail(ErrorCode::unsatisfied,
                  fmt::format("{} are in use, more than {}", format_size(figures_.live), format_size(limit)));
    limit_ = limit;
    return {};
  }

  StoreFigures figures() const override {
    const std::scoped_lock lock(mutex_);
    StoreFigures now = figures_;
    now.reserved = now.live;
    now.live_blocks = sizes_.size();
    return now;
  }

  Bytes limit() const override {
    const std::scoped_lock lock(mutex_);
    return limit_;
  }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<Resource> resource_;
  Bytes limit_;
  StoreFigures figures_;
  std::map<DeviceAddress, Bytes> sizes_;
};

Result<std::unique_ptr<MemoryStore>> open_cuda(const MemoryConfig& config, const MemoryPlace& place, Clock& clock,
                                               Bytes& total) {
  memory::CudaOptions options;
  options.uuid = place.device.uuid;
  options.library = place.cuda_library;
  GPUWARDEN_TRY(std::unique_ptr<memory::CudaUpstream> upstream, memory::CudaUpstream::open(options));
  GPUWARDEN_TRY(const memory::DeviceMemory has, upstream->memory());
  total = has.total;
  if (config.enable_pooling) return PoolStore::open(std::move(upstream), config, clock);
  GPUWARDEN_TRY(auto direct, memory::DirectResource::open(options));
  return std::make_unique<DirectStore<memory::DirectResource>>(std::move(direct), limit_of(config, has.total));
}

Result<std::unique_ptr<MemoryStore>> open_host(const MemoryConfig& config, Bytes total, Clock& clock) {
  if (!config.enable_pooling)
    return std::make_unique<DirectStore<HostMemory>>(std::make_unique<HostMemory>(), limit_of(config, total));
  GPUWARDEN_TRY(std::unique_ptr<memory::MemfdUpstream> upstream, memory::MemfdUpstream::open(total));
  return PoolStore::open(std::move(upstream), config, clock);
}

}  // namespace

Bytes limit_of(const MemoryConfig& config, Bytes total) {
  const Bytes share(static_cast<std::uint64_t>(static_cast<double>(total.value) * config.memory_fraction));
  return std::min(config.max_pool_size.value_or(share), share);
}

Result<OpenedStore> open_store(const MemoryConfig& config, const MemoryPlace& place, Clock& clock) {
  OpenedStore opened;
  if (!place.device.is_cpu() && !place.cuda_library.empty()) {
    auto store = open_cuda(config, place, clock, opened.total);
    if (store) {
      opened.store = std::move(*store);
      opened.backing = "cuda";
      return opened;
    }
    opened.fallback = store.error().message;
  } else if (!place.device.is_cpu()) {
    opened.fallback = "this process has no CUDA driver for " + spoken_name(place.device);
  }
  opened.total = place.host_capacity.value_or(host_memory());
  GPUWARDEN_TRY(opened.store, open_host(config, opened.total, clock));
  opened.backing = "host";
  return opened;
}

}  // namespace gpuwarden::manager
