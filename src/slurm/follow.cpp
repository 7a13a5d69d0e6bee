// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/slurm/run.hpp"

namespace gpuwarden::slurm {
namespace {

/// The controller serves everybody: it is asked ever more seldom.
constexpr std::chrono::milliseconds kFirstPeriod{500};
constexpr std::chrono::milliseconds kLongestPeriod{5000};

/// A file that grows.
class Tail {
 public:
  explicit Tail(std::filesystem::path file) : file_(std::move(file)) {}
  /// Whether there was something new; at most kMostALook of it, so that a log that grows faster than it is shown keeps
  /// nobody from the job itself.
  bool read(const std::function<void(std::string_view)>& take) {
    if (!take) return false;
    std::ifstream input(file_, std::ios::binary);
    if (!input.seekg(static_cast<std::streamoff>(at_))) return false;
    std::string block(std::size_t{64} << 10U, '\0');
    const std::size_t begun = at_;
    while (at_ - begun < kMostALook) {
      input.read(block.data(), static_cast<std::streamsize>(block.size()));
      const auto length = static_cast<std::size_t>(input.gcount());
      if (length == 0) break;
      take(std::string_view(block).substr(0, length));
      at_ += length;
    }
    return at_ > begun;
  }

 private:
  static constexpr std::size_t kMostALook = std::size_t{4} << 20U;
  std::filesystem::path file_;
  std::size_t at_ = 0;
};

class Follower {
 public:
  Follower(Programs& programs, const std::string& id, const std::filesystem::path& log, const FollowHooks& hooks,
           Clock& clock)
      : programs_(programs), id_(id), tail_(log), hooks_(hooks), clock_(clock), heard_(clock.now()), told_(heard_) {}

  Result<Job> to_end(const std::stop_token& stop) {
    for (std::chrono::milliseconds period = kFirstPeriod;; period = std::min(period * 5 / 4, kLongestPeriod)) {
      GPUWARDEN_CHECK(look());
      if (is_over(job_)) break;
      if (!clock_.sleep_for(period, stop))
        return fail(ErrorCode::interrupted, fmt::format("job {} is no longer followed; it goes on", id_));
    }
    // What a node wrote last may still be on its way through a network's file system.
    clock_.sleep_for(kFirstPeriod, stop);
    while (tail_.read(hooks_.output) && !stop.stop_requested()) continue;
    return job_;
  }

 private:
  Result<void> look() {
    auto job = find_job(programs_, id_);
    const auto now = clock_.now();
    if (!job) {
      if (job.error().code == ErrorCode::not_found || now - heard_ > kOutage) return std::unexpected(job.error());
      if (!silent_ && hooks_.warning) hooks_.warning(job.error().message + "; asking again");
      silent_ = true;
      return {};
    }
    silent_ = false;
    heard_ = now;
    const bool changed = job->state != job_.state || job->reason != job_.reason || job->nodes != job_.nodes;
    job_ = std::move(*job);
    if (changed && hooks_.changed) hooks_.changed(job_);
    if (tail_.read(hooks_.output) || changed) told_ = now;
    if (job_.state != "RUNNING") summed_up_ = now;
    if (now - summed_up_ >= kStillPeriod) {
      summed_up_ = now;
      if (hooks_.summary && hooks_.summary(job_)) told_ = now;
    }
    if (now - told_ < kStillPeriod) return {};
    told_ = now;
    if (hooks_.still) hooks_.still(job_);
    return {};
  }

  Programs& programs_;
  std::string id_;
  Tail tail_;
  const FollowHooks& hooks_;
  Clock& clock_;
  Clock::SteadyTime heard_;               ///< when Slurm last answered
  Clock::SteadyTime told_;                ///< when something was last shown
  Clock::SteadyTime summed_up_ = heard_;  ///< when what its GPUs do was last told
  bool silent_ = false;
  Job job_;
};

}  // namespace

Result<Job> follow(Programs& programs, const std::string& id, const std::filesystem::path& log,
                   const FollowHooks& hooks, Clock& clock) {
  return Follower(programs, id, log, hooks, clock).to_end(hooks.stop);
}

}  // namespace gpuwarden::slurm
