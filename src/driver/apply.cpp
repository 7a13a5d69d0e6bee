// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a plan. Before and after each, a line goes to the journal and to the disk; so at any moment it is
// known which step may be half done, and every step can be run, and undone, again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "driver/journal.hpp"
#include "driver/records.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/run.hpp"

namespace gpuwarden::driver {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::hours kLongestStep{3};
constexpr std::chrono::minutes kLongestOrphan{60};

/// The last line that a step wrote to its log from `start` on.
std::string last_words(const fs::path& log, std::size_t start) {
  const auto text = read_file(log);
  if (!text || text->size() <= start) return "it left no message";
  const auto lines = split(trim(std::string_view(*text).substr(start)), '\n');
  return printable(lines.back().substr(0, 500));
}

std::size_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<std::size_t>(size);
}

Result<UniqueFd> open_journal(const fs::path& file) {
  UniqueFd journal(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!journal) return std::unexpected(error_from_errno(errno, "cannot open " + file.string()));
  return journal;
}

}  // namespace

ShellRunner shell_in(const fs::path& root) {
  return [root](const std::string& text, const std::string& step, const std::string& log) {
    Command command;
    if (root != "/") command.argv = {"chroot", root.string()};
    const std::string opening = fmt::format("exec >>'{}' 2>&1\n", log);
    for (const std::string& word : {std::string("sh"), std::string("-eu"), std::string("-c"), opening + text})
      command.argv.push_back(word);
    command.environment = {{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                           {"HOME", "/root"},
                           {"GPUWARDEN_STEP", step}};
    command.deadline = kLongestStep;
    return run_command(command);
  };
}

Result<DriverProcedure> DriverProcedure::open(const fs::path& root, ShellRunner shell, Clock& clock, Records records) {
  DriverProcedure procedure(root, std::move(shell), clock);
  const fs::path folder = procedure.folder();
  std::error_code ignored;
  if (records == Records::must_exist && !fs::exists(folder / "journal.jsonl", ignored))
    return fail(ErrorCode::unsatisfied, "no driver was changed here: there is no run to resume or roll back",
                "gpuwarden driver apply begins one");
  GPUWARDEN_CHECK(make_records(root));
  procedure.lock_.reset(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!procedure.lock_) return std::unexpected(error_from_errno(errno, "cannot open " + (folder / "lock").string()));
  if (::flock(procedure.lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::unsatisfied, "another gpuwarden is changing the driver of this machine",
                "wait for it; gpuwarden driver history shows how far it is");
  const fs::path file = folder / "journal.jsonl";
  GPUWARDEN_TRY(procedure.journal_, open_journal(file));
  GPUWARDEN_TRY(const std::string text, read_file(file));
  GPUWARDEN_TRY(procedure.runs_, replay(text));
  // What was cut off while it was written must not run into the next line.
  if (const std::size_t whole = whole_part(text); whole < text.size()) {
    if (::ftruncate(procedure.journal_.get(), static_cast<off_t>(whole)) != 0)
      return std::unexpected(error_from_errno(errno, "cannot repair " + file.string()));
  }
  const UniqueFd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) ::fsync(directory.get());
  return procedure;
}

Result<DriverProcedure> DriverProcedure::open_as_root(const fs::path& root, Records records) {
  if (::geteuid() != 0)
    return fail(ErrorCode::permission_denied, "only root can change the driver", "sudo gpuwarden driver ...");
  return open(root, shell_in(root), system_clock(), records);
}

Result<std::vector<DriverRun>> DriverProcedure::history(const fs::path& root) {
  const fs::path file = records_folder(root) / "journal.jsonl";
  GPUWARDEN_CHECK(check_inside(root, file));
  const auto text = read_file(file);
  if (!text && text.error().code == ErrorCode::not_found) return std::vector<DriverRun>{};
  if (!text) return std::unexpected(text.error());
  return replay(*text);
}

fs::path DriverProcedure::folder() const { return records_folder(root_); }

std::string DriverProcedure::now() const { return format_utc(clock_->wall_now()); }

std::string DriverProcedure::boot_id() const {
  return read_line(root_ / "proc/sys/kernel/random/boot_id").value_or("");
}

const DriverRun* DriverProcedure::open_run() const {
  const auto found = std::ranges::find_if(runs_, [](const DriverRun& run) { return !is_over(run.state); });
  return found == runs_.end() ? nullptr : &*found;
}

const DriverRun* DriverProcedure::to_roll_back() const {
  const auto found = std::find_if(runs_.rbegin(), runs_.rend(),
                                  [](const DriverRun& run) { return run.state != RunState::rolled_back; });
  return found == runs_.rend() ? nullptr : &*found;
}

const DriverRun* DriverProcedure::latest() const {
  if (worked_on_) return &runs_[*worked_on_];
  return runs_.empty() ? nullptr : &runs_.back();
}

Result<void> DriverProcedure::append(const std::string& line) {
  GPUWARDEN_CHECK(write_descriptor(journal_.get(), line, "the journal of driver runs"));
  if (::fsync(journal_.get()) != 0)
    return std::unexpected(error_from_errno(errno, "cannot write the journal of driver runs"));
  return {};
}

Result<void> DriverProcedure::note_state(DriverRun& run, RunState state, const std::string& message) {
  worked_on_ = static_cast<std::size_t>(&run - runs_.data());
  const std::string boot = state == RunState::waiting_for_reboot ? boot_id() : "";
  GPUWARDEN_CHECK(append(state_line(run.plan.id, now(), state, boot, message)));
  run.state = state;
  run.boot_id = boot;
  return {};
}

Result<void> DriverProcedure::note_step(DriverRun& run, std::size_t index, StepState state, const Listener& listener,
                                        const std::string& message) {
  const Step& step = run.plan.steps[index];
  GPUWARDEN_CHECK(append(step_line(run.plan.id, now(), step.id, state, message)));
  run.steps[index] = state;
  if (!message.empty()) run.message = message;
  if (listener) listener({&step, state, message});
  return {};
}

Result<std::string> DriverProcedure::run_text(const DriverRun& run, const std::string& text, const std::string& step) {
  const std::string records = fmt::format("{}/{}", kDriverFolder, run.plan.id);
  GPUWARDEN_CHECK(check_inside(root_, folder() / run.plan.id / "log"));
  std::error_code error;
  fs::create_directories(folder() / run.plan.id, error);
  if (error)
    return std::unexpected(error_from_errno(error.value(), "cannot make " + (folder() / run.plan.id).string()));
  const fs::path log = folder() / run.plan.id / "log";
  const std::size_t start = size_of(log);
  // The shell's number lets a later gpuwarden wait for it, should this one be killed.
  const std::string opening = fmt::format("echo $$ >{}/running\nB={}\n", kDriverFolder, records);
  GPUWARDEN_TRY(const Completed done, shell_(opening + run.plan.prelude + text, step, records + "/log"));
  ::unlink((folder() / "running").c_str());
  if (done.exit_code == 0) return std::string();
  if (done.timed_out) return std::string("it did not end within its time");
  return last_words(log, start);
}

void DriverProcedure::wait_for_orphan() const {
  const auto number = read_line(folder() / "running");
  const auto pid = number ? parse_integer(*number) : std::nullopt;
  if (!pid || *pid <= 1) return;
  const fs::path environment = fs::path("/proc") / std::to_string(*pid) / "environ";
  const auto end = clock_->now() + kLongestOrphan;
  while (clock_->now() < end) {
    const auto variables = read_file(environment, std::size_t{1} << 20U);
    if (!variables || !variables->contains("GPUWARDEN_STEP=")) return;
    clock_->sleep_for(std::chrono::milliseconds(50));
  }
}

Result<bool> DriverProcedure::carry_out(DriverRun& run, std::size_t index, const Listener& listener) {
  const Step step = run.plan.steps[index];
  // A step that was begun before may have come to its end without anybody to write it down.
  if (run.steps[index] != StepState::pending && !step.check.empty()) {
    GPUWARDEN_TRY(const std::string undone, run_text(run, step.check, step.id + "/check"));
    if (undone.empty()) {
      GPUWARDEN_CHECK(note_step(run, index, StepState::done, listener));
      return true;
    }
  }
  GPUWARDEN_CHECK(note_step(run, index, StepState::started, listener));
  GPUWARDEN_TRY(std::string problem, run_text(run, step.commands, step.id));
  if (problem.empty() && !step.check.empty()) {
    GPUWARDEN_TRY(problem, run_text(run, step.check, step.id + "/check"));
    if (!problem.empty()) problem = fmt::format("its commands succeeded, but it is not done: {}", problem);
  }
  if (!problem.empty()) {
    GPUWARDEN_CHECK(note_step(run, index, StepState::failed, listener, problem));
    GPUWARDEN_CHECK(note_state(run, RunState::failed, fmt::format("{}: {}", step.id, problem)));
    return false;
  }
  if (step.reboot) {
    GPUWARDEN_CHECK(note_state(run, RunState::waiting_for_reboot));
    return false;
  }
  GPUWARDEN_CHECK(note_step(run, index, StepState::done, listener));
  return true;
}

Result<RunState> DriverProcedure::proceed(DriverRun& run, const Listener& listener) {
  for (std::size_t i = 0; i < run.plan.steps.size(); ++i) {
    if (run.steps[i] == StepState::done) continue;
    GPUWARDEN_TRY(const bool on, carry_out(run, i, listener));
    if (!on) return run.state;
  }
  GPUWARDEN_CHECK(note_state(run, RunState::completed));
  return run.state;
}

Result<RunState> DriverProcedure::apply(const Plan& plan, const Listener& listener) {
  if (const DriverRun* open = open_run())
    return fail(ErrorCode::unsatisfied,
                fmt::format("the run {} is not over ({})", open->plan.id, to_string(open->state)),
                is_on_the_way_back(*open)
                    ? "gpuwarden driver rollback goes on with its way back"
                    : "gpuwarden driver apply --resume goes on with it, gpuwarden driver rollback goes back");
  const std::string at = now();
  GPUWARDEN_CHECK(append(begin_line(plan, at)));
  DriverRun run;
  run.plan = plan;
  run.started_at = at;
  run.steps.assign(plan.steps.size(), StepState::pending);
  runs_.push_back(std::move(run));
  return proceed(runs_.back(), listener);
}

Result<RunState> DriverProcedure::resume(const Listener& listener) {
  if (open_run() == nullptr)
    return fail(ErrorCode::unsatisfied, "there is no run to resume", "gpuwarden driver history shows what was done");
  DriverRun& run = runs_[static_cast<std::size_t>(open_run() - runs_.data())];
  if (is_on_the_way_back(run))
    return fail(ErrorCode::unsatisfied, fmt::format("the run {} is on its way back", run.plan.id),
                "gpuwarden driver rollback goes on with that");
  GPUWARDEN_CHECK(check_records(root_, run));
  wait_for_orphan();
  if (run.state == RunState::waiting_for_reboot) {
    if (!run.boot_id.empty() && run.boot_id == boot_id())
      return fail(ErrorCode::unsatisfied, "the machine has not been rebooted since", "reboot, then resume");
    const auto waiting = std::ranges::find(run.steps, StepState::started);
    if (waiting != run.steps.end())
      GPUWARDEN_CHECK(note_step(run, static_cast<std::size_t>(waiting - run.steps.begin()), StepState::done, listener));
  }
  GPUWARDEN_CHECK(note_state(run, RunState::in_progress));
  return proceed(run, listener);
}

Result<bool> DriverProcedure::undo(DriverRun& run, std::size_t index, const Listener& listener) {
  const Step step = run.plan.steps[index];
  GPUWARDEN_CHECK(note_step(run, index, StepState::undoing, listener));
  if (!step.undo.empty()) {
    GPUWARDEN_TRY(const std::string problem, run_text(run, step.undo, step.id + "/undo"));
    if (!problem.empty()) {
      GPUWARDEN_CHECK(note_step(run, index, StepState::undo_failed, listener, problem));
      GPUWARDEN_CHECK(note_state(run, RunState::failed, fmt::format("{}: {}", step.id, problem)));
      return false;
    }
  }
  GPUWARDEN_CHECK(note_step(run, index, StepState::undone, listener));
  return true;
}

Result<RunState> DriverProcedure::rollback(const Listener& listener) {
  if (to_roll_back() == nullptr)
    return fail(ErrorCode::unsatisfied, "there is no run to roll back", "gpuwarden driver history shows what was done");
  DriverRun& run = runs_[static_cast<std::size_t>(to_roll_back() - runs_.data())];
  GPUWARDEN_CHECK(check_records(root_, run));
  wait_for_orphan();
  GPUWARDEN_CHECK(note_state(run, RunState::rolling_back));
  for (std::size_t i = run.plan.steps.size(); i-- > 0;) {
    if (run.steps[i] == StepState::pending || run.steps[i] == StepState::undone) continue;
    GPUWARDEN_TRY(const bool on, undo(run, i, listener));
    if (!on) return run.state;
  }
  GPUWARDEN_CHECK(note_state(run, RunState::rolled_back));
  return run.state;
}

}  // namespace gpuwarden::driver
