// SPDX-License-Identifier: Apache-2.0
#include "lease/gate.hpp"

#include <fmt/format.h>
#include <sys/file.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/lock_file.hpp"

namespace gpuwarden::lease {
namespace {

constexpr auto kGatePause = std::chrono::milliseconds(1);
constexpr int kLooksAtHolder = 8;  ///< within the patience
constexpr int kMostPatience = 6;   ///< times the patience, where many pass one after another

/// Tells a gate that one process holds from one that many pass: only the first is waited for no longer.
class Crowd {
 public:
  Crowd(const StoreOptions& options, Clock::SteadyTime now, std::chrono::milliseconds patience)
      : options_(options), patience_(patience), begin_(now), unchanged_since_(now), looked_(now) {}
  bool is_stuck(const UniqueFd& gate, Clock::SteadyTime now) {
    if (now - looked_ >= patience_ / kLooksAtHolder) {
      looked_ = now;
      const auto holders = LockTable(options_.proc_root).on(gate);
      if (holders_ && holders != *holders_) unchanged_since_ = now;
      holders_ = holders;
    }
    return now - unchanged_since_ >= patience_ || now - begin_ >= kMostPatience * patience_;
  }

 private:
  const StoreOptions& options_;
  std::chrono::milliseconds patience_;
  Clock::SteadyTime begin_;
  Clock::SteadyTime unchanged_since_;
  Clock::SteadyTime looked_;
  std::optional<std::vector<Pid>> holders_;
};

Error stuck(const StoreOptions& options, const UniqueFd& gate, std::chrono::milliseconds waited) {
  std::string who;
  std::string pids;
  for (const Process& process : LockTable(options.proc_root).holders_of(gate)) {
    who += fmt::format("{}{} (pid {}: {})", who.empty() ? "" : ", ", user_name(process.uid), process.pid.value,
                       process.command);
    pids += fmt::format(" {}", process.pid.value);
  }
  const bool named = !who.empty();
  return {ErrorCode::timed_out,
          fmt::format("timed out after {}: the lease directory {} is locked by {}", format_duration(waited),
                      options.directory.string(), named ? who : "a process that is not visible to you"),
          named ? fmt::format("a claim takes milliseconds: if what holds the lock was stopped, kill -CONT{} lets it "
                              "continue; else kill{} frees the lock",
                              pids, pids)
                : fmt::format("root sees it: fuser -v {}", (options.directory / "gate.lock").string())};
}

}  // namespace

Result<Gate> Gate::pass(const StoreOptions& options, Clock& clock, std::chrono::milliseconds patience,
                        const std::stop_token& stop) {
  const std::filesystem::path path = options.directory / (options.prefix + "gate.lock");
  GPUWARDEN_TRY(UniqueFd gate, open_lock_file(path, true));
  Crowd crowd(options, clock.now(), patience);
  for (;;) {
    const LockResult result = try_lock(gate, true);
    if (result == LockResult::impossible)
      return std::unexpected(error_from_errno(errno, "cannot lock " + path.string()));
    if (result == LockResult::had && is_at(gate, path)) return Gate(std::move(gate));
    if (result == LockResult::had) {
      // Somebody removed the file while this one waited: others meet at the new one.
      GPUWARDEN_TRY(gate, open_lock_file(path, true));
    }
    if (crowd.is_stuck(gate, clock.now())) return std::unexpected(stuck(options, gate, patience));
    // Unequal pauses keep many waiters from coming back all at once.
    const auto pause = kGatePause + std::chrono::microseconds(clock.now().time_since_epoch().count() % 1000);
    if (!clock.sleep_for(pause, stop)) return fail(ErrorCode::interrupted, "interrupted while waiting for GPUs");
  }
}

Gate::~Gate() {
  if (fd_) ::flock(fd_.get(), LOCK_UN);
}

}  // namespace gpuwarden::lease
