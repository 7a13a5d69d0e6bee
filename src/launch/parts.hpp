// SPDX-License-Identifier: Apache-2.0
// The pieces a job is run with: environment, port, sweep, guardian, ranks, output.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/launch/job.hpp"

namespace gpuwarden::launch {

/// A port that nobody has bound, drawn at random from [15000, start of the ephemeral range) so that no outgoing
/// connection takes it and two launchers hardly ever meet. Rank 0 binds it itself, so it cannot be held for it.
Result<std::uint16_t> find_free_port();

/// The variables of one rank: torchrun's (source: torch.distributed.elastic's local agent), CUDA's and gpuwarden's.
Environment rank_environment(const JobSpec& spec, std::uint32_t local_rank, std::uint16_t port);

/// Processes that carry GPUWARDEN_RUN_ID=run_id in the environment they were started with; never the caller.
std::vector<pid_t> processes_of_run(const std::string& run_id);
/// Ends all of them: SIGTERM, then SIGKILL after `grace`; until none is left or `patience` is over. Gives those left.
std::vector<pid_t> sweep_run(const std::string& run_id, std::chrono::milliseconds grace,
                             std::chrono::milliseconds patience);

/// A process that outlives the launcher: if that dies without a word, it ends everything of the run. It holds
/// copies of the lease locks until then.
class Guardian {
 public:
  static Result<Guardian> start(const JobSpec& spec);
  Guardian(Guardian&&) noexcept = default;
  Guardian& operator=(Guardian&&) = delete;
  ~Guardian();  ///< tells it that all is well
  pid_t pid() const { return pid_; }

 private:
  Guardian(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  pid_t pid_;
  UniqueFd pipe_;
};

/// One running process of the job, and our ends of its output (empty when it writes to ours).
struct Rank {
  std::uint32_t number = 0;
  pid_t pid = -1;
  bool own_group = true;
  UniqueFd out;
  UniqueFd err;
  std::optional<int> status;  ///< as waitpid gives it
};

/// How ranks are started, the same for all.
struct Launchpad {
  const JobSpec& spec;
  std::uint16_t port = 0;
  bool capture = false;     ///< outputs go through us
  bool foreground = false;  ///< the single rank stays in our process group, because it talks to a terminal
};
Result<Rank> start_rank(const Launchpad& pad, std::uint32_t local_rank);

/// Cuts a stream into lines and passes them on with a prefix; a line is written whole.
class LineWriter {
 public:
  LineWriter(std::string prefix, int target, UniqueFd log)
      : prefix_(std::move(prefix)), target_(target), log_(std::move(log)) {}
  void add(std::string_view data);
  /// Writes what is there of an unfinished line.
  void flush();
  bool has_partial() const { return !line_.empty(); }

 private:
  void emit(std::string_view line, char ending);
  std::string prefix_;
  std::string line_;
  int target_;
  UniqueFd log_;
};

}  // namespace gpuwarden::launch
