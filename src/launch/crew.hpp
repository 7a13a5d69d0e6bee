// SPDX-License-Identifier: Apache-2.0
// A job that has been started: its guardians, its ranks and their output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/launch/output.hpp"
#include "gpuwarden/launch/port.hpp"
#include "launch/board.hpp"
#include "launch/cgroup.hpp"
#include "launch/guardian.hpp"
#include "launch/parts.hpp"
#include "launch/process.hpp"
#include "launch/record.hpp"

namespace gpuwarden::launch {

/// One of a rank's two streams: where it comes from (empty when the rank writes to ours), and where it goes.
struct Stream {
  UniqueFd from;
  LineWriter writer;
};

struct Member {
  std::uint32_t number = 0;  ///< in the whole job, over all nodes
  std::uint32_t local = 0;
  std::optional<Process> process;
  Stream out;
  Stream err;
};

/// Everything that run_job starts; the guardians end it when this goes.
class Crew {
 public:
  Crew(const JobSpec& spec, Board board) : spec_(spec), board_(std::move(board)) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();

  /// Fails where the program cannot be executed; nothing of it runs then.
  Result<void> start(const sigset_t& ignored, std::vector<std::string>& warnings);
  /// Ends what is left below the guardians; gives what could not be ended.
  std::vector<pid_t> finish();
  /// Kills what may be out of the guardians' reach, after one of them was killed.
  std::vector<pid_t> end_strays(Clock& clock);

  std::optional<int> status(const Member& member) const { return board_.status(member.local); }
  int order(const Member& member) const { return board_.order(member.local); }
  Pid pid(const Member& member) const { return Pid{board_.seat(member.local).pid.load()}; }
  /// To the whole process group of each rank that runs, so that its helpers hear it as well.
  void signal_ranks(int signal) const;
  /// To the ranks' own processes alone: a helper that does not expect the signal (a data loader's worker) would die.
  void signal_programs(int signal) const;
  bool own_groups() const { return plan_.own_groups; }

  std::vector<Member> members;
  Outlet standard_output{1};
  Outlet standard_error{2};
  Outlet nowhere{-1};  ///< for streams that are redirected into a log
  std::optional<Guardians> guardians;

 private:
  std::vector<pid_t> running_ranks() const;
  Result<void> plan_ranks(std::vector<std::string>& warnings);
  Result<void> choose_port();
  Result<void> add_rank(std::uint32_t local, std::vector<std::string>& warnings);
  Stream make_stream(std::uint32_t local, bool error, UniqueFd from, std::vector<std::string>& warnings);
  UniqueFd open_log(std::uint32_t number, const char* ending, std::vector<std::string>& warnings) const;
  Result<void> wait_for_programs();

  const JobSpec& spec_;
  Board board_;
  Plan plan_;
  std::uint16_t port_ = 0;
  std::optional<HeldPort> held_port_;
  std::optional<JobGroup> group_;
  std::optional<RunRecord> record_;
};

}  // namespace gpuwarden::launch
