// SPDX-License-Identifier: Apache-2.0
// Who is on a GPU at one reading holds it until the next. A use is open for as long as each reading shows its holder,
// so that its `from` and `to` are the time for which it held the GPU; it is cut at multiples of the step.
#include "gpuwarden/telemetry/usage.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "gpuwarden/facts/use.hpp"
#include "telemetry/columns_metrics.hpp"

namespace gpuwarden::telemetry {

/// One holder of one GPU. A pid that comes back with another program or user is another one.
struct HolderKey {
  std::string gpu;
  std::int32_t pid = 0;  ///< 0: a lease under which no process runs
  std::string user;
  std::string command;
  std::string job;
  auto operator<=>(const HolderKey&) const = default;
};

struct Holding {
  GpuIndex index;
  std::optional<double> utilization;
  std::optional<Bytes> memory;
};

struct OpenUse {
  Use use;
  double known_seconds = 0;
};

using Holdings = std::map<HolderKey, Holding>;

namespace {

constexpr int kLongestHoldOfUse = 3;  // usual times between readings

bool computes(const facts::GpuProcess& process) {
  // Who only draws is a display server; who is not listed only has the device open (a monitor, a shell in a container).
  return process.listed && (process.compute || process.mps || !process.graphics);
}

/// The run of the lease's holder who is this user; empty where that is none or more than one.
std::string run_of(const facts::Lease* lease, const std::string& user) {
  std::string run;
  if (lease == nullptr || user.empty()) return run;
  for (const facts::LeaseHolder& holder : lease->holders) {
    if (holder.user != user || holder.run_id.empty() || holder.run_id == run) continue;
    if (!run.empty()) return {};
    run = holder.run_id;
  }
  return run;
}

std::string job_of(const facts::GpuProcess& process, const facts::Lease* lease) {
  std::string run = run_of(lease, process.user.value_or(""));
  if (!run.empty() || !process.slurm_job) return run;
  return "slurm:" + *process.slurm_job;
}

std::optional<double> as_double(const std::optional<Percent>& share) {
  return share ? std::optional(static_cast<double>(share->value)) : std::nullopt;
}

/// A process in several MIG instances of a GPU is listed for each: it is one holder.
void add_process(Holdings& holdings, HolderKey key, const Holding& holding) {
  const auto [entry, is_new] = holdings.try_emplace(std::move(key), holding);
  if (is_new) return;
  Holding& known = entry->second;
  if (holding.memory) known.memory = known.memory.value_or(Bytes(0)) + *holding.memory;
  if (holding.utilization) known.utilization = std::max(known.utilization.value_or(0), *holding.utilization);
}

void add_holders_without_process(Holdings& holdings, const facts::GpuRecord& record, const facts::Lease& lease,
                                 std::size_t processes) {
  const std::string gpu = facts::identity_of(record).value;
  for (const facts::LeaseHolder& holder : lease.holders) {
    const auto has_process = std::ranges::any_of(
        holdings, [&](const auto& entry) { return entry.first.gpu == gpu && entry.first.user == holder.user; });
    if (has_process || holder.user.empty()) continue;
    Holding holding{.index = record.gpu.index, .utilization = {}, .memory = {}};
    if (processes == 0 && record.processes) holding.utilization = as_double(record.sample.utilization_gpu);
    holdings.try_emplace(HolderKey{gpu, 0, holder.user, holder.command, holder.run_id}, holding);
  }
}

void add_holders(Holdings& holdings, const facts::GpuRecord& record, const facts::Lease* lease) {
  const std::string gpu = facts::identity_of(record).value;
  static const std::vector<facts::GpuProcess> kNobody;
  const auto& processes = record.processes ? *record.processes : kNobody;
  const auto count = static_cast<std::size_t>(std::ranges::count_if(processes, computes));
  for (const facts::GpuProcess& process : processes) {
    if (!computes(process)) continue;
    Holding holding{.index = record.gpu.index, .utilization = as_double(process.sm), .memory = process.memory};
    if (!holding.utilization && processes.size() == 1) holding.utilization = as_double(record.sample.utilization_gpu);
    add_process(
        holdings,
        {gpu, process.pid.value, process.user.value_or(""), process.command.value_or(""), job_of(process, lease)},
        holding);
  }
  if (lease != nullptr) add_holders_without_process(holdings, record, *lease, count);
}

Holdings holdings_of(const Reading& reading) {
  Holdings holdings;
  for (const facts::GpuRecord& record : reading.snapshot.gpus)
    add_holders(holdings, record, facts::find_lease(reading.leases, record));
  return holdings;
}

double seconds(std::int64_t millis) { return static_cast<double>(millis) / 1000; }

}  // namespace

struct UsageMeter::Impl {
  std::int64_t step = 1;
  Holdings last;
  std::optional<std::int64_t> last_time;
  Clock::SteadyTime last_when{};
  std::optional<std::int64_t> usual;  ///< time between readings
  bool after_gap = false;
  std::map<HolderKey, OpenUse> open;
  std::vector<Use> finished;

  /// Time since the last reading; 0 where nothing can be said of it.
  std::int64_t passed_until(std::int64_t time, Clock::SteadyTime when) {
    if (!last_time) return 0;
    // Not by the time of day, which may be set, where the reading tells better.
    std::int64_t passed = std::chrono::round<std::chrono::milliseconds>(when - last_when).count();
    const std::int64_t by_day = time - *last_time;
    // Both agree but for rounding: the stretch begins where the last one ended.
    const bool agree = by_day > 0 && std::abs(by_day - passed) <= 2 + passed / 100;
    if (passed <= 0 || agree) passed = by_day;
    if (passed <= 0) return 0;
    const bool gap = usual && passed > kLongestHoldOfUse * *usual;
    // A reading beside the regular ones comes early, and does not make a gap of the time until the next.
    usual = usual && !gap && !after_gap ? std::max(passed, *usual - *usual / 8) : passed;
    after_gap = gap;
    return gap ? 0 : passed;
  }

  void close(std::map<HolderKey, OpenUse>::iterator entry) {
    OpenUse& open_use = entry->second;
    if (open_use.known_seconds > 0)
      open_use.use.mean_utilization = 100 * open_use.use.busy_seconds / open_use.known_seconds;
    finished.push_back(std::move(open_use.use));
    open.erase(entry);
  }

  void close_all_but(const Holdings& kept, std::int64_t from) {
    for (auto entry = open.begin(); entry != open.end();) {
      const auto next = std::next(entry);
      if (!kept.contains(entry->first) || to_millis(entry->second.use.to) != from) close(entry);
      entry = next;
    }
  }

  /// Adds a stretch that lies within one step.
  void hold(const HolderKey& key, const Holding& holding, std::int64_t from, std::int64_t to) {
    const auto [entry, is_new] = open.try_emplace(key);
    Use& use = entry->second.use;
    if (is_new) {
      use.user = key.user;
      use.job = key.job;
      use.command = key.command;
      if (key.pid != 0) use.pid = Pid{key.pid};
      use.gpu = Uuid(key.gpu);
      use.from = from_millis(from);
    }
    use.index = holding.index;
    use.to = from_millis(to);
    use.gpu_seconds += seconds(to - from);
    if (holding.utilization) {
      use.busy_seconds += seconds(to - from) * std::clamp(*holding.utilization, 0.0, 100.0) / 100;
      entry->second.known_seconds += seconds(to - from);
    }
    if (holding.memory) use.peak_memory = std::max(use.peak_memory.value_or(Bytes(0)), *holding.memory);
    if (to % step == 0) close(entry);
  }

  void hold_all(std::int64_t from, std::int64_t to) {
    while (from < to) {
      const std::int64_t end = std::min(floor_to(from, step) + step, to);
      for (const auto& [key, holding] : last) hold(key, holding, from, end);
      from = end;
    }
  }

  void add(const Reading& reading) {
    const std::int64_t time = to_millis(reading.snapshot.taken_at);
    const std::int64_t passed = passed_until(time, reading.when);
    // The stretch ends now; where the clock was set it begins elsewhere than the last one ended.
    close_all_but(passed > 0 ? last : Holdings{}, time - passed);
    if (passed > 0) hold_all(time - passed, time);
    last = holdings_of(reading);
    last_time = time;
    last_when = reading.when;
  }
};

UsageMeter::UsageMeter(std::chrono::milliseconds step) : impl_(std::make_unique<Impl>()) {
  impl_->step = std::max<std::int64_t>(step.count(), 1);
}
UsageMeter::UsageMeter(UsageMeter&&) noexcept = default;
UsageMeter& UsageMeter::operator=(UsageMeter&&) noexcept = default;
UsageMeter::~UsageMeter() = default;

void UsageMeter::add(const Reading& reading) { impl_->add(reading); }

std::vector<Use> UsageMeter::take_finished() { return std::exchange(impl_->finished, {}); }

std::vector<Use> UsageMeter::take_all() {
  while (!impl_->open.empty()) impl_->close(impl_->open.begin());
  return take_finished();
}

}  // namespace gpuwarden::telemetry
