// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/device_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::pools {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOften{20};
/// How often idle memory is looked for within the time after which it goes back.
constexpr int kLooks = 8;

/// Looks until others have given back enough; not at all where enough is free, since then something else is short.
bool wait_until_free(memory::CudaUpstream& device, Bytes needed, milliseconds patience) {
  const auto is_free = [&] {
    const auto now = device.memory();
    return now && now->free >= needed;
  };
  if (patience.count() <= 0 || is_free()) return false;
  Clock& clock = system_clock();
  const auto end = clock.now() + patience;
  while (clock.now() < end) {
    clock.sleep_for(kOften);
    if (is_free()) return true;
  }
  return false;
}

Result<const memory::Strategy*> strategy_named(const std::string& name) {
  if (name.empty()) return &memory::strategies().front();
  if (const auto* const found = memory::find_strategy(name)) return found;
  std::string known;
  for (const memory::Strategy& strategy : memory::strategies())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", strategy.name);
  return fail(ErrorCode::invalid_argument, fmt::format("unknown allocation strategy '{}'", printable(name)),
              "take one of " + known);
}

}  // namespace

Result<std::unique_ptr<DevicePool>> DevicePool::open(const DevicePoolOptions& options) {
  std::unique_ptr<DevicePool> result(new DevicePool());
  memory::PoolConfig config;
  GPUWARDEN_TRY(result->strategy_, strategy_named(options.strategy));
  config.strategy = result->strategy_;
  GPUWARDEN_TRY(result->device_, memory::CudaUpstream::open(options.cuda));
  memory::CudaUpstream& device = *result->device_;
  GPUWARDEN_TRY(const memory::DeviceMemory has, device.memory());
  result->total_ = has.total;
  config.limit = options.limit.of(has.total);
  config.keep_free = options.keep_free;
  config.wait_for_others = [&device, patience = options.wait_for_others](Bytes needed) {
    return wait_until_free(device, needed, patience);
  };
  config.who_holds_what = [uuid = device.uuid()] { return who_holds(uuid); };
  config.on_out_of_memory = options.on_out_of_memory;
  GPUWARDEN_TRY(result->pool_, memory::Pool::create(device, std::move(config)));
  if (options.trim_after.count() > 0) {
    const auto interval = std::clamp(options.trim_after / kLooks, kOften, milliseconds(std::chrono::seconds(1)));
    result->trimmer_.emplace(*result->pool_, system_clock(),
                             memory::TrimmerConfig{.interval = interval, .idle_for = options.trim_after, .keep = {}});
  }
  return result;
}

Result<void> DevicePool::set_limit(const memory::MemoryLimit& limit, const std::optional<memory::MemoryLimit>& soft) {
  memory::PoolLimits limits{.limit = limit.of(total_), .limit_fraction = std::nullopt, .soft_limit = std::nullopt};
  if (soft) limits.soft_limit = soft->of(total_);
  return pool_->set_limit(limits);
}

}  // namespace gpuwarden::pools
