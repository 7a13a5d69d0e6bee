// SPDX-License-Identifier: Apache-2.0
#include "launch/crew.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "gpuwarden/base/scope_guard.hpp"
#include "gpuwarden/lease/grounds.hpp"

namespace gpuwarden::launch {
namespace {

/// Rank 0 reads our standard input; a terminal only if it is alone with it (a background group would be stopped).
UniqueFd choose_input(std::uint32_t local_rank, bool foreground) {
  const bool ours = local_rank == 0 && (foreground || ::isatty(0) == 0);
  return ours ? UniqueFd() : UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_shown(const JobSpec& spec, std::uint32_t local_rank) {
  return !spec.shown_ranks || std::ranges::find(*spec.shown_ranks, local_rank) != spec.shown_ranks->end();
}

/// Many ranks need many pipes while they are started: both ends of two each, and their input.
rlimit lift_file_limit(std::uint32_t ranks) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t wanted = 128 + rlim_t{ranks} * 6;
  if (limit.rlim_cur < wanted) {
    const rlimit lifted{std::min(wanted, limit.rlim_max), limit.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &lifted);
  }
  return limit;
}

/// Its program runs, has ended or could not be started.
bool has_begun(const Seat& seat) {
  return seat.exec_error.load() != 0 || seat.ended.load() != 0 || has_executed(seat.pid.load());
}

}  // namespace

Crew::~Crew() {
  guardians.reset();
  if (group_) remove_group(group_->path());
}

Result<void> Crew::start(const sigset_t& ignored, std::vector<std::string>& warnings) {
  plan_.spec = &spec_;
  plan_.board = &board_;
  plan_.argv = ExecArray(spec_.argv);
  plan_.own_groups = !(spec_.takes_signals && spec_.ranks == 1 && ::isatty(0) != 0);
  plan_.launcher_group = ::getpgrp();
  plan_.ignored = ignored;
  plan_.files = lift_file_limit(spec_.ranks);
  const ScopeGuard restore([&] { ::setrlimit(RLIMIT_NOFILE, &plan_.files); });
  GPUWARDEN_TRY(plan_.exec_report, make_pipe());
  GPUWARDEN_TRY(plan_.hangup, make_pipe());
  plan_.hangup_path = fmt::format("/proc/self/fd/{}", plan_.hangup.read_end.get());
  GPUWARDEN_CHECK(plan_ranks(warnings));
  if (spec_.control_group) group_ = JobGroup::make(spec_.run_id);
  if (group_) {
    plan_.group = group_->fd();
    plan_.group_folder = group_->path();
  }
  // A job on the CPU chose none of a lease's GPUs: it is within the lease as any other command is.
  if (!spec_.held_descriptors.empty()) plan_.outer_leases = lease::inherited_descriptors();
  record_ = RunRecord::make(spec_.record_directory, spec_.run_id, plan_.group_folder, spec_.held_descriptors);
  if (record_) {
    plan_.record = record_->path();
    plan_.record_lock = record_->lock();
  }
  GPUWARDEN_CHECK(guardians.emplace(plan_).start());
  return wait_for_programs();
}

Result<void> Crew::choose_port() {
  if (!spec_.master_port && spec_.nodes > 1) {
    port_ = port_of_job(spec_.rendezvous_id, spec_.restart_count);
    return spec_.node_rank == 0 ? check_port(port_) : Result<void>{};
  }
  if (!spec_.master_port) {
    GPUWARDEN_TRY(held_port_, HeldPort::any());
    port_ = held_port_->number();
    return {};
  }
  port_ = *spec_.master_port;
  // Rank 0 is to listen there: better said now than by a program that hangs until its time is over.
  return spec_.node_rank == 0 ? check_port(port_) : Result<void>{};
}

Result<void> Crew::plan_ranks(std::vector<std::string>& warnings) {
  GPUWARDEN_CHECK(choose_port());
  for (std::uint32_t local = 0; local < spec_.ranks; ++local) GPUWARDEN_CHECK(add_rank(local, warnings));
  return {};
}

Result<void> Crew::add_rank(std::uint32_t local, std::vector<std::string>& warnings) {
  const bool capture =
      spec_.ranks > 1 || spec_.log_directory.has_value() || spec_.keep_last_words || !is_shown(spec_, local);
  RankPlan rank{ExecArray(rank_environment(spec_, local, port_)), choose_input(local, !plan_.own_groups), {}, {}, {}};
  if (local < spec_.cpus.size()) rank.cpus = affinity_mask(spec_.cpus[local]);
  Pipe out;
  Pipe err;
  if (capture) {
    GPUWARDEN_TRY(out, make_pipe());
    GPUWARDEN_TRY(err, make_pipe());
    rank.out = std::move(out.write_end);
    rank.err = std::move(err.write_end);
    for (const Pipe* pipe : {&out, &err}) ::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  }
  const std::uint32_t number = first_rank_of(spec_) + local;
  members.push_back({number,
                     local,
                     {},
                     make_stream(local, false, std::move(out.read_end), warnings),
                     make_stream(local, true, std::move(err.read_end), warnings)});
  plan_.ranks.push_back(std::move(rank));
  return {};
}

Stream Crew::make_stream(std::uint32_t local, bool error, UniqueFd from, std::vector<std::string>& warnings) {
  const std::uint32_t number = first_rank_of(spec_) + local;
  const std::string prefix = spec_.ranks == 1 || !spec_.prefix_lines ? "" : fmt::format("[rank {}] ", number);
  const std::uint8_t bit = error ? 2 : 1;
  const bool shown_too = (spec_.tee.of(local) & bit) != 0;
  const bool redirected = (spec_.redirects.of(local) & bit) != 0;
  const bool logged = shown_too || redirected || (spec_.redirects.none() && spec_.tee.none());
  Outlet& ours = error ? standard_error : standard_output;
  LineWriter writer(prefix, (redirected && !shown_too) || !is_shown(spec_, local) ? nowhere : ours,
                    logged ? open_log(number, error ? "err" : "out", warnings) : UniqueFd());
  if (spec_.ranks == 1) writer.pass_through();
  if (spec_.keep_last_words) writer.keep_end();
  return {std::move(from), std::move(writer)};
}

UniqueFd Crew::open_log(std::uint32_t number, const char* ending, std::vector<std::string>& warnings) const {
  if (!spec_.log_directory) return {};
  const auto path = *spec_.log_directory / fmt::format("rank-{}.{}", number, ending);
  UniqueFd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!log) warnings.push_back(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  return log;
}

/// Every rank is executed, or has said why not; a rank's process is taken hold of while its parent keeps its number.
Result<void> Crew::wait_for_programs() {
  // The pipe ends when the guardians close it, too: one that is stopped must not keep the job waiting.
  constexpr int kLookPeriodMs = 100;
  pollfd report{plan_.exec_report.read_end.get(), POLLIN, 0};
  const auto is_settled = [&](const Member& member) { return has_begun(board_.seat(member.local)); };
  while (::poll(&report, 1, kLookPeriodMs) <= 0 && !std::ranges::all_of(members, is_settled)) continue;
  plan_.exec_report.read_end.reset();
  if (held_port_) held_port_->hand_over();
  for (Member& member : members) {
    const Seat& seat = board_.seat(member.local);
    if (const int error = seat.exec_error.load(); error != 0) {
      signal_ranks(SIGKILL);
      finish();
      return std::unexpected(exec_error(error, spec_.argv[0]));
    }
    if (seat.pid.load() == 0) return fail(ErrorCode::failed, "the guardian process died while it started the ranks");
    member.process = Process::open(seat.pid.load());
    // One that has ended already may have lost its number to another process.
    if (status(member)) member.process.reset();
  }
  return {};
}

std::vector<pid_t> Crew::running_ranks() const {
  std::vector<pid_t> pids;
  for (const Member& member : members) {
    const pid_t pid = board_.seat(member.local).pid.load();
    // How it ended is noted down before its number can be given to another process.
    if (pid > 0 && !board_.status(member.local)) pids.push_back(pid);
  }
  return pids;
}

void Crew::signal_ranks(int signal) const {
  for (const pid_t pid : running_ranks()) ::kill(plan_.own_groups ? -pid : pid, signal);
}

void Crew::signal_programs(int signal) const {
  for (const pid_t pid : running_ranks()) ::kill(pid, signal);
}

std::vector<pid_t> Crew::finish() {
  auto left = guardians->finish();
  if (left.empty()) {
    if (group_) remove_group(group_->path());
    if (record_) record_->remove();
  }
  return left;
}

std::vector<pid_t> Crew::end_strays(Clock& clock) {
  for (const Member& member : members) {
    if (member.process && !status(member)) member.process->signal(SIGKILL);
  }
  if (group_ && !processes_in_group(group_->path()).empty()) kill_group(group_->path());
  return sweep_run(spec_.run_id, kSweepGrace, kSweepPatience, clock);
}

}  // namespace gpuwarden::launch
