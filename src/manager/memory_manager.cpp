// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/memory_manager.hpp"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "manager/config_table.hpp"
#include "manager/memory_store.hpp"

namespace gpuwarden::manager {
namespace {

using memory::DeviceAddress;
using memory::StreamId;

const std::vector<ConfigRow<MemoryConfig>>& memory_rows() {
  using C = MemoryConfig;
  static const std::vector<ConfigRow<C>> kRows{
      name_row<C, &C::allocation_strategy, allocation_strategy_from>(
          "allocation_strategy", "greedy, balanced, consolidated, fragmentation_aware or steady"),
      flag_row<C, &C::enable_pooling>("enable_pooling"),
      bytes_row<C, &C::max_pool_size, NumberRange{2097152, 1e15}>("max_pool_size", "bytes, at least 2097152 (2 MiB)"),
      number_row<C, &C::memory_fraction, kShare>("memory_fraction", "a number above 0, at most 1"),
      number_row<C, &C::max_memory_cache_ratio, NumberRange{0, 1}>("max_memory_cache_ratio", "a number from 0 to 1"),
      flag_row<C, &C::enable_cleanup>("enable_cleanup"),
      seconds_row<C, &C::cleanup_interval, NumberRange{0.02, 86400}>("cleanup_interval", "0.02 to 86400 seconds"),
      flag_row<C, &C::enable_oom_recovery>("enable_oom_recovery"),
  };
  return kRows;
}

}  // namespace

nlohmann::json to_json(const MemoryConfig& config) { return write_config(config, memory_rows()); }
Result<MemoryConfig> memory_config_from_json(const nlohmann::json& json) { return read_config(json, memory_rows()); }

nlohmann::json to_json(const MemoryStatus& status) {
  nlohmann::json json{{"device", to_json(status.device)},
                      {"open", status.open},
                      {"backing", status.backing},
                      {"fallback", status.fallback},
                      {"pooling", status.pooling},
                      {"allocation_strategy", to_string(status.strategy)},
                      {"live_bytes", status.live.value},
                      {"peak_bytes", status.peak.value},
                      {"reserved_bytes", status.reserved.value},
                      {"idle_bytes", status.idle().value},
                      {"live_blocks", status.live_blocks},
                      {"allocations", status.allocations},
                      {"reused", status.reused},
                      {"out_of_memory", status.out_of_memory},
                      {"recovered", status.recovered},
                      {"fragmentation", status.fragmentation},
                      {"pool_efficiency", status.efficiency()}};
  json["limit_bytes"] = status.limit ? nlohmann::json(status.limit->value) : nlohmann::json();
  return json;
}

class MemoryManager::Impl {
 public:
  Impl(MemoryConfig config, MemoryPlace place, Clock& clock)
      : config_(config), place_(std::move(place)), clock_(clock) {}

  Result<std::shared_ptr<MemoryStore>> store() {
    const std::scoped_lock lock(mutex_);
    if (opened_.store) return opened_.store;
    GPUWARDEN_CHECK(memory_config_from_json(to_json(config_)));
    GPUWARDEN_TRY(opened_, open_store(config_, place_, clock_));
    if (config_.enable_pooling) releases_->add(pool_of(opened_.store));
    return opened_.store;
  }

  std::shared_ptr<MemoryStore> store_if_open() const {
    const std::scoped_lock lock(mutex_);
    return opened_.store;
  }

  MemoryStatus status() const {
    const std::scoped_lock lock(mutex_);
    MemoryStatus status;
    status.device = place_.device;
    status.pooling = config_.enable_pooling;
    status.strategy = config_.allocation_strategy;
    status.out_of_memory = out_of_memory_;
    status.recovered = recovered_;
    if (!opened_.store) return status;
    const StoreFigures now = opened_.store->figures();
    status.open = true;
    status.backing = opened_.backing;
    status.fallback = opened_.fallback;
    status.limit = opened_.store->limit();
    status.live = now.live;
    status.peak = now.peak;
    status.reserved = now.reserved;
    status.live_blocks = now.live_blocks;
    status.allocations = now.allocations;
    status.reused = now.reused;
    status.fragmentation = now.fragmentation;
    return status;
  }

  std::string pool_name() const { return "memory pool of " + spoken_name(place_.device); }

  Result<void> set_fraction(double fraction) {
    MemoryConfig wanted = config_;
    wanted.memory_fraction = fraction;
    GPUWARDEN_CHECK(memory_config_from_json(to_json(wanted)));
    const std::scoped_lock lock(mutex_);
    if (opened_.store) {
      GPUWARDEN_CHECK(opened_.store->set_limit(limit_of(wanted, opened_.total)));
    }
    config_.memory_fraction = fraction;
    return {};
  }

  MemoryConfig config_;
  const MemoryPlace place_;
  Clock& clock_;
  std::shared_ptr<ReleaseBook> releases_ = std::make_shared<ReleaseBook>();
  std::atomic<std::uint64_t> out_of_memory_ = 0;
  std::atomic<std::uint64_t> recovered_ = 0;

 private:
  /// Somebody may be letting go of it while its manager ends.
  Releasable pool_of(const std::weak_ptr<MemoryStore>& known) const {
    return {.name = pool_name(),
            .kind = ReleaseKind::pool,
            .size = [known]() -> std::optional<Bytes> {
              const auto store = known.lock();
              if (!store) return Bytes{};
              const StoreFigures now = store->figures();
              return now.reserved - now.live;
            },
            .release = [known]() -> Result<Bytes> {
              const auto store = known.lock();
              return store ? store->trim({}) : Bytes{};
            },
            .is_on = [gpu = place_.device.gpu](const Device& device) { return device.gpu == gpu; }};
  }

  mutable std::mutex mutex_;
  OpenedStore opened_;
};

MemoryManager::MemoryManager(MemoryConfig config, MemoryPlace place, Clock& clock)
    : impl_(std::make_unique<Impl>(config, std::move(place), clock)) {}
MemoryManager::~MemoryManager() { impl_->releases_->remove(impl_->pool_name()); }

Result<DeviceAddress> MemoryManager::allocate(Bytes size, StreamId stream) {
  GPUWARDEN_TRY(const auto store, impl_->store());
  auto address = store->allocate(size, stream);
  if (address || address.error().code != ErrorCode::unsatisfied) return address;
  ++impl_->out_of_memory_;
  if (!impl_->config_.enable_oom_recovery) return address;
  emergency_release(size);
  auto again = store->allocate(size, stream);
  if (again) ++impl_->recovered_;
  return again;
}

Result<void> MemoryManager::deallocate(DeviceAddress address, StreamId stream) {
  const auto store = impl_->store_if_open();
  if (store == nullptr) return fail(ErrorCode::invalid_argument, fmt::format("{:#x} was not given out", address.value));
  return store->deallocate(address, stream);
}

Result<Bytes> MemoryManager::trim(Bytes keep) {
  const auto store = impl_->store_if_open();
  return store == nullptr ? Bytes{} : store->trim(keep);
}

Result<Defragmentation> MemoryManager::defragment() {
  const auto store = impl_->store_if_open();
  return store == nullptr ? Defragmentation{} : store->defragment();
}

Result<void> MemoryManager::set_memory_fraction(double fraction) { return impl_->set_fraction(fraction); }

ReleaseReport MemoryManager::emergency_release(std::optional<Bytes> needed) {
  return impl_->releases_->release(needed, &impl_->place_.device);
}

ReleaseBook& MemoryManager::releases() { return *impl_->releases_; }
void MemoryManager::share_releases(std::shared_ptr<ReleaseBook> releases) { impl_->releases_ = std::move(releases); }
MemoryStatus MemoryManager::status() const { return impl_->status(); }
const MemoryConfig& MemoryManager::config() const { return impl_->config_; }

}  // namespace gpuwarden::manager
