// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/host_processes.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/process.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::view {
namespace {

namespace fs = std::filesystem;

/// Deeper trees than this are cut.
constexpr std::size_t kMostAncestors = 12;
constexpr std::string_view kRealProc = "/proc";

double seconds_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct FoundStat {
  ProcStat stat;
  bool stand_in = false;
};

std::optional<FoundStat> read_stat(const std::vector<fs::path>& roots, Pid pid) {
  for (const fs::path& root : roots) {
    const auto text = read_file(root / std::to_string(pid.value) / "stat");
    if (!text) continue;
    const auto stat = parse_proc_stat(*text);
    return stat ? std::optional(FoundStat{*stat, root != kRealProc}) : std::nullopt;
  }
  return std::nullopt;
}

std::vector<Pid> ancestors_of(const std::vector<fs::path>& roots, Pid parent) {
  std::vector<Pid> all;
  while (parent.value > 1 && all.size() < kMostAncestors) {
    all.push_back(parent);
    const auto found = read_stat(roots, parent);
    if (!found) break;
    parent = found->stat.parent;
  }
  return all;
}

}  // namespace

class HostProcesses::Impl {
 public:
  Impl(std::vector<fs::path> roots, std::function<pools::Pools()> read_pools)
      : roots_(std::move(roots)), read_pools_(std::move(read_pools)) {
    worker_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }

  void look_at(std::vector<Pid> pids, bool ancestors, std::function<void()> done) {
    const std::scoped_lock lock(mutex_);
    wanted_ = Wanted{std::move(pids), ancestors, std::move(done)};
    changed_.notify_all();
  }
  HostTable latest() const {
    const std::scoped_lock lock(mutex_);
    return table_;
  }

 private:
  /// Processor time of a process at one look.
  struct Look {
    std::uint64_t start_ticks = 0;
    std::uint64_t cpu_ticks = 0;
    double at = 0;
  };
  struct Wanted {
    std::vector<Pid> pids;
    bool ancestors = false;
    std::function<void()> done;
  };

  void work(const std::stop_token& stop) {
    for (;;) {
      Wanted wanted;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return wanted_.has_value(); })) return;
        wanted = std::move(*wanted_);
        wanted_.reset();
      }
      HostTable table;
      std::map<Pid, Look> looks;
      for (const Pid pid : wanted.pids) {
        if (auto process = look(pid, wanted.ancestors, looks)) table.emplace(pid, std::move(*process));
      }
      if (read_pools_ && !table.empty()) add_pools(table, read_pools_());
      looks_ = std::move(looks);
      {
        const std::scoped_lock lock(mutex_);
        table_ = std::move(table);
      }
      if (wanted.done) wanted.done();
    }
  }

  static void add_pools(HostTable& table, pools::Pools found) {
    for (pools::PublishedPool& pool : found) {
      const auto process = table.find(pool.process.pid);
      if (process != table.end()) process->second.pools.push_back(std::move(pool));
    }
  }

  std::optional<HostProcess> look(Pid pid, bool ancestors, std::map<Pid, Look>& looks) const {
    static const auto kTicks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    static const auto kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto found = read_stat(roots_, pid);
    if (!found) return std::nullopt;
    const ProcStat& stat = found->stat;
    const Look now{stat.start_ticks, stat.cpu_ticks, seconds_since_boot()};
    looks[pid] = now;
    HostProcess process;
    process.stand_in = found->stand_in;
    process.memory = Bytes(stat.resident_pages * kPage);
    process.start_ticks = now.start_ticks;
    const double age = now.at - static_cast<double>(now.start_ticks) / kTicks;
    if (age >= 0) process.age = std::chrono::seconds(static_cast<std::int64_t>(age));
    const auto before = looks_.find(pid);
    if (before != looks_.end() && before->second.start_ticks == now.start_ticks && now.at > before->second.at &&
        now.cpu_ticks >= before->second.cpu_ticks)
      process.cpu_percent =
          static_cast<double>(now.cpu_ticks - before->second.cpu_ticks) / kTicks / (now.at - before->second.at) * 100;
    if (ancestors) process.ancestors = ancestors_of(roots_, stat.parent);
    return process;
  }

  const std::vector<fs::path> roots_;
  const std::function<pools::Pools()> read_pools_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Wanted> wanted_;
  HostTable table_;
  std::map<Pid, Look> looks_;  ///< the worker's own
  std::jthread worker_;
};

HostProcesses::HostProcesses(std::vector<fs::path> proc_roots, std::function<pools::Pools()> read_pools)
    : impl_(std::make_unique<Impl>(std::move(proc_roots), std::move(read_pools))) {}
HostProcesses::~HostProcesses() = default;
void HostProcesses::look_at(std::vector<Pid> pids, bool ancestors, std::function<void()> done) {
  impl_->look_at(std::move(pids), ancestors, std::move(done));
}
HostTable HostProcesses::latest() const { return impl_->latest(); }

}  // namespace gpuwarden::view
