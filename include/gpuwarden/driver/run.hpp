// SPDX-License-Identifier: Apache-2.0
// Carries a driver plan out, with a journal: whatever cuts a run off, at any moment, it can be resumed or rolled back.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

enum class StepState { pending, started, done, failed, undoing, undone, undo_failed };
std::string_view to_string(StepState state);

enum class RunState {
  in_progress,         ///< being carried out, or cut off
  failed,              ///< a step failed; nothing runs
  waiting_for_reboot,  ///< the next step needs a fresh boot
  rolling_back,        ///< on the way back, or cut off there
  completed,
  rolled_back,
};
std::string_view to_string(RunState state);
/// Completed and rolled back runs are over; all others wait for resume or rollback.
bool is_over(RunState state);

/// A run as its journal tells it.
struct DriverRun {
  Plan plan;
  std::string started_at;  ///< UTC
  std::string ended_at;    ///< of the last event
  RunState state = RunState::in_progress;
  std::vector<StepState> steps;  ///< one for each of the plan
  std::string boot_id;           ///< of the boot in which it asked for a reboot
  std::string message;           ///< of the last failure
};

/// Whether a run is past the point from which only rollback leads on.
bool is_on_the_way_back(const DriverRun& run);
/// Whether a run came so far that programs and people may be at the new driver: its way back would end them.
bool serves_again(const DriverRun& run);

/// The runs in a journal, oldest first. An unfinished last line (power was lost) is as if it had not been written;
/// a damaged line in between fails with corrupt.
Result<std::vector<DriverRun>> replay(std::string_view journal);

/// What a front end hears while a run proceeds.
struct StepReport {
  const Step* step = nullptr;
  StepState state = StepState::started;
  std::string message;
};
using Listener = std::function<void(const StepReport&)>;

/// Runs shell text inside the root. `step` is told to it as GPUWARDEN_STEP, its output goes to `log`.
using ShellRunner =
    std::function<Result<Completed>(const std::string& text, const std::string& step, const std::string& log)>;
/// chroot ROOT sh -eu, or sh -eu where the root is "/".
ShellRunner shell_in(const std::filesystem::path& root);

/// The name of a run that begins now, where no other has it: "20261121-080413".
std::string run_id_at(Clock::WallTime now);
/// A name for a new run: its time, with a number behind it where a run below `root` has that name already. Fails as
/// DriverProcedure::history() does.
Result<std::string> new_run_id(const std::filesystem::path& root, Clock::WallTime now);
/// The same for a plan: who may not read the records can make one, though not apply it, and gets the time alone.
Result<std::string> plan_run_id(const std::filesystem::path& root, Clock::WallTime now);

/// The plan for a machine or an image, named so that it can be applied there. Fails as plan_driver() and plan_run_id()
/// do.
Result<Plan> make_plan(const DriverFacts& facts, const DriverRequest& request, const knowledge::Knowledge& knowledge,
                       Clock::WallTime now);
/// What the steps of a run have written.
std::filesystem::path log_of(const std::filesystem::path& root, const DriverRun& run);

/// What opening does where nothing was ever recorded.
enum class Records { make, must_exist };

/// The runs of one machine or image. One process at a time holds it: a lock is kept as long as the object lives.
class DriverProcedure {
 public:
  /// Opens the folder of records below `root`, and makes it unless it must exist. Fails with unsatisfied while another
  /// process has it, where a link in it leads out of the root, or where there is no journal although there must be one
  /// (nothing is then made); and with permission_denied, corrupt.
  static Result<DriverProcedure> open(const std::filesystem::path& root, ShellRunner shell, Clock& clock,
                                      Records records = Records::make);
  /// The same for a driver that is really changed, by this machine's shell and clock. Fails with permission_denied,
  /// too, where root is not who asks.
  static Result<DriverProcedure> open_as_root(const std::filesystem::path& root, Records records);
  /// Reads the journal alone; nothing is made and nothing locked.
  static Result<std::vector<DriverRun>> history(const std::filesystem::path& root);

  const std::vector<DriverRun>& runs() const { return runs_; }
  /// The run that is not over; nullptr where there is none.
  const DriverRun* open_run() const;
  /// The run that rollback would undo; nullptr where there is none.
  const DriverRun* to_roll_back() const;
  /// The run that apply, resume or rollback worked on last; else the newest, nullptr where there is none.
  const DriverRun* latest() const;

  /// Each gives the state in which the run came to rest; a failed step is a state, not an error. apply() fails with
  /// unsatisfied where an earlier run is not over, resume() where none is.
  Result<RunState> apply(const Plan& plan, const Listener& listener);
  Result<RunState> resume(const Listener& listener);
  /// Undoes the steps of the run that is not over, else of the last completed one, in reverse. This and resume() fail
  /// with corrupt where the run's records are gone.
  Result<RunState> rollback(const Listener& listener);

 private:
  DriverProcedure(std::filesystem::path root, ShellRunner shell, Clock& clock)
      : root_(std::move(root)), shell_(std::move(shell)), clock_(&clock) {}

  Result<RunState> proceed(DriverRun& run, const Listener& listener);
  /// False: the step failed, which is in the journal.
  Result<bool> carry_out(DriverRun& run, std::size_t index, const Listener& listener);
  Result<bool> undo(DriverRun& run, std::size_t index, const Listener& listener);
  Result<void> note_state(DriverRun& run, RunState state, const std::string& message = {});
  Result<void> note_step(DriverRun& run, std::size_t index, StepState state, const Listener& listener,
                         const std::string& message = {});
  /// Empty: it succeeded; else why not.
  Result<std::string> run_text(const DriverRun& run, const std::string& text, const std::string& step);
  Result<void> append(const std::string& line);
  void wait_for_orphan() const;
  std::filesystem::path folder() const;
  std::string boot_id() const;
  std::string now() const;

  std::filesystem::path root_;
  ShellRunner shell_;
  Clock* clock_;
  UniqueFd lock_;
  UniqueFd journal_;
  std::vector<DriverRun> runs_;
  std::optional<std::size_t> worked_on_;
};

}  // namespace gpuwarden::driver
