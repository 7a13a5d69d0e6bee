// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/healing/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <system_error>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "healing/checkpoint.hpp"
#include "healing/holding.hpp"
#include "healing/meeting.hpp"

namespace gpuwarden::healing {
namespace {

using knowledge::Restart;
using launch::EarlyEnd;
using launch::JobSpec;
using launch::RunReport;
using std::chrono::milliseconds;

constexpr int kOutOfTime = 124;  ///< as JobEnd::exit_code

/// A GPU of an elastic job that is gone has that long before the job, which does not notice, is started again.
constexpr auto kLostGpuPatience = std::chrono::seconds(10);

class Run {
 public:
  Run(launch::RunPlan plan, const machine::Machine& machine, machine::Reservation gpus, const Options& options,
      Clock& clock)
      : plan_(std::move(plan)),
        machine_(machine),
        options_(options),
        clock_(clock),
        holding_(std::move(gpus), options, clock),
        restarts_(options.policy),
        checkpoint_(options.checkpoint, clock) {
    const bool shared = plan_.rank_per_gpu || plan_.ranks.value_or(1) > 1 || plan_.job.log_directory.has_value();
    plan_.job.keep_last_words = shared || options.policy.max_restarts > 0 || options.elastic;
    plan_.job.max_restarts = options.policy.max_restarts;
    if (!options.checkpoint.empty())
      plan_.job.extra_environment["GPUWARDEN_CHECKPOINT"] = std::filesystem::absolute(options.checkpoint).string();
  }

  Result<Healed> to_its_end() {
    if (options_.meeting) {
      GPUWARDEN_TRY(meeting_, Meeting::open(*options_.meeting, clock_));
    }
    for (bool first = true;; first = false) {
      auto report = once();
      if (!report && first) return std::unexpected(std::move(report).error());
      // What was before it is the job's end.
      if (!report) return without_another(report.error());
      healed_.report = std::move(*report);
      add(healed_.total, healed_.report, std::chrono::duration_cast<milliseconds>(clock_.now() - first_begun_));
      if (const auto next = what_follows(); next == Next::the_end) return std::move(healed_);
    }
  }

 private:
  enum class Next { another_try, the_end };

  Next what_follows() {
    launch::JobEnd& end = healed_.report.end;
    if (end.interrupted_by) return Next::the_end;
    const bool regroups = end.early && end.early->kind == EarlyEnd::Kind::regroup;
    // A failure after another node's follows from it.
    if (meeting_ && !summons_ && end.exit_code != 0 && !regroups) summons_ = meeting_->summons();
    if (meeting_ && !summons_ && end.exit_code == 0) {
      const auto of_all = attend<Summons>([&](const Waiting& until) { return meeting_->done(until); });
      if (!of_all) return leave_the_others(of_all.error());
      summons_ = *of_all;
    }
    if (summons_) return heed(*std::exchange(summons_, std::nullopt));
    if (regroups) return start_again_with_others(end.early->why);
    if (end.exit_code == 0) return Next::the_end;
    return after_failure();
  }

  /// Its own ranks ended well, and nobody waits any longer for those of the others.
  Next leave_the_others(const Error& error) {
    launch::JobEnd& end = healed_.report.end;
    end.exit_code = error.code == ErrorCode::timed_out ? kOutOfTime : 1;
    end.warnings.push_back(error.message);
    if (options_.run.warning) options_.run.warning(error.message);
    return Next::the_end;
  }

  Next after_failure() {
    Attempt attempt = judged();
    decide(attempt);
    healed_.failed.push_back(attempt);
    if (meeting_) meeting_->failed(attempt.restarts, attempt.counts, attempt.end.exit_code, attempt.judgement.why);
    if (options_.failed) options_.failed(healed_.failed.back());
    if (!attempt.restarts || !waits(attempt.pause)) return Next::the_end;
    const auto error = get_ready_again(attempt);
    if (!error) return Next::another_try;
    if (meeting_) meeting_->failed(false, false, attempt.end.exit_code, error->message);
    give_up(*error);
    return Next::the_end;
  }

  /// What the first node says of all of them.
  Next heed(const Summons& summons) {
    launch::JobEnd& end = healed_.report.end;
    if (!summons.ends) return start_again_with_others(summons.why);
    if (summons.exit_code == 0) return Next::the_end;
    end.exit_code = summons.exit_code;
    end.warnings.push_back(fmt::format("the job ends on all nodes: {}", summons.why));
    if (options_.run.warning) options_.run.warning(end.warnings.back());
    return Next::the_end;
  }

  Next start_again_with_others(const std::string& why) {
    ++healed_.regroups;
    if (options_.regrouped) options_.regrouped(why);
    const auto at_fault = judge(healed_.report, environment_).gpus_at_fault;
    if (at_fault.empty()) return Next::another_try;
    holding_.blame(at_fault);
    if (!holding_.is_elastic() && !options_.other_gpus) return Next::another_try;
    const auto error = holding_.replace(at_fault);
    if (!error) return Next::another_try;
    if (meeting_) meeting_->failed(false, false, 1, error->message);
    if (options_.run.warning) options_.run.warning(fmt::format("it could not be started again: {}", error->message));
    healed_.report.end.exit_code = std::max(healed_.report.end.exit_code, 1);
    return Next::the_end;
  }

  Result<RunReport> once() {
    const machine::Reservation& gpus = holding_.gpus();
    launch::ReadyRun ready = launch::ready(plan_, machine_, gpus.decision(), gpus.snapshot(), gpus.descriptors());
    if (meeting_) GPUWARDEN_CHECK(meet(ready.job));
    number_ = meeting_ ? ready.job.restart_count : starts_;
    ready.job.restart_count = number_;
    ready.job.counted_restarts = restarts_.counted();
    if (starts_++ > 0) {
      for (const std::string& word : options_.policy.restart_arguments) ready.job.argv.push_back(word);
      if (ready.job.log_directory) GPUWARDEN_CHECK(make_log_directory(ready.job, number_));
    }
    if (options_.starting) options_.starting(ready.job, gpus);
    holding_.begin();
    checkpoint_.begin();
    begun_ = clock_.now();
    if (healed_.total.tries == 0) first_begun_ = begun_;
    environment_ = ready.job.environment;
    for (const auto& [name, value] : ready.job.extra_environment) environment_[name] = value;
    return launch::run(ready, machine_, run_options(), clock_);
  }

  launch::RunOptions run_options() {
    launch::RunOptions run = options_.run;
    if (!run.look_after) run.look_after = [this] { return holding_.gpus().repair(); };
    run.glance = [this, next = run.glance](const telemetry::Reading& reading) {
      holding_.hear(reading);
      if (next) next(reading);
    };
    if (!run.regroup) run.regroup = [this] { return regroup(); };
    if (options_.replaces_stragglers && !run.ends_for)
      run.ends_for = [this](const launch::Straggler& one) { return may_follow() && holding_.can_spare(one.uuid); };
    if (holding_.is_elastic() && run.lost_gpu_patience.count() == 0) run.lost_gpu_patience = kLostGpuPatience;
    return run;
  }

  /// Whether another try could follow where this one is ended now: its ranks may use all of their grace.
  bool may_follow() const {
    const auto now = clock_.now();
    const auto lasted = std::chrono::duration_cast<milliseconds>(now - begun_);
    return restarts_.may_follow(options_.run.time_limit, now + plan_.job.grace, lasted);
  }

  /// The numbers of this node's ranks among all.
  Result<void> meet(JobSpec& job) {
    GPUWARDEN_TRY(const Round round,
                  attend<Round>([&](const Waiting& until) { return meeting_->join(job.ranks, until); }));
    job.nodes = round.nodes;
    job.node_rank = round.group_rank;
    job.first_rank = round.first_rank;
    job.world_size = round.world_size;
    job.restart_count = round.number;
    restarts_.count_as(round.restarts);
    return {};
  }

  /// Waits for other nodes: not longer than the job has time, whose other ranks may use all of it.
  template <class T>
  Result<T> attend(const std::function<Result<T>(const Waiting&)>& wait) const {
    const launch::TimeLimit& limit = options_.run.time_limit;
    Waiting until{.stop = options_.run.stop};
    if (limit.end && limit.ends_job) until.end = *limit.end + plan_.job.grace;
    if (!options_.attend) return wait(until);
    Result<T> result = T{};
    options_.attend([&](const std::stop_token& stop) {
      until.stop = stop;
      result = wait(until);
    });
    // It came together with what was waited for.
    if (result && until.stop.stop_requested()) return fail(ErrorCode::interrupted, "interrupted");
    return result;
  }

  /// Whether the ranks that run are to be ended, to be started again with others: a sentence.
  std::string regroup() {
    if (meeting_) summons_ = meeting_->summons();
    if (summons_) return summons_->why;
    if (!checkpoint_.was_written()) return "";
    std::string why = holding_.regroup();
    if (why.empty() && meeting_ && meeting_->has_newcomer())
      why = "a checkpoint was written and another node has come: starting again with it";
    if (!why.empty() && meeting_) meeting_->regroup(why);
    return why;
  }

  /// A restart's logs do not replace those of the failure.
  static Result<void> make_log_directory(JobSpec& job, std::uint32_t number) {
    *job.log_directory /= fmt::format("restart-{}", number);
    std::error_code error;
    std::filesystem::create_directories(*job.log_directory, error);
    if (!error) return {};
    return fail(ErrorCode::failed,
                fmt::format("cannot make {}: {}", printable(job.log_directory->string()), error.message()));
  }

  Attempt judged() {
    const RunReport& report = healed_.report;
    Attempt attempt{.number = number_, .end = report.end, .judgement = judge(report, environment_)};
    attempt.judgement.remedy =
        fill_in(std::move(attempt.judgement.remedy), plan_.job.master_address, plan_.job.nodes, environment_);
    for (launch::RankEnd& rank : attempt.end.ranks) rank.last_output = rank.last_words = "";
    for (const launch::GpuReport& gpu : report.gpus) attempt.gpus.push_back(gpu.index);
    holding_.blame(attempt.judgement.gpus_at_fault);
    for (const Uuid& uuid : attempt.judgement.gpus_at_fault) {
      if (std::ranges::find(healed_.gpus_at_fault, uuid) == healed_.gpus_at_fault.end())
        healed_.gpus_at_fault.push_back(uuid);
    }
    return attempt;
  }

  /// Whether the job goes on with other devices as it was asked to, which is no try that counts.
  bool changes_devices(const Attempt& attempt) const {
    if (attempt.judgement.restart != Restart::other_gpus) return false;
    // A slow GPU is no loss: that the job is started again without it was asked for, as a restart.
    if (attempt.end.early && attempt.end.early->kind == EarlyEnd::Kind::straggler) return false;
    const bool all = attempt.judgement.gpus_at_fault.size() >= attempt.gpus.size();
    return holding_.is_elastic() || (options_.cpu_fallback && all);
  }

  /// Why no try follows whatever is left of them; empty: one may.
  std::string final_because(const Attempt& attempt, bool fewer) const {
    const Judgement& judgement = attempt.judgement;
    const auto& early = attempt.end.early;
    const bool used_up =
        early && (early->kind == EarlyEnd::Kind::no_resources || early->kind == EarlyEnd::Kind::out_of_time);
    if (used_up && judgement.restart == Restart::never && !fewer) return early->why;
    if (changes_devices(attempt)) return "";
    if (judgement.restart == Restart::other_gpus && !options_.other_gpus && !holding_.is_elastic())
      return fmt::format("there are no other GPUs to be had: {}", judgement.why);
    return "";
  }

  /// With how many GPUs instead the job may get by: half of them, as long as that is enough.
  std::optional<std::uint32_t> fewer_gpus(const Attempt& attempt) const {
    const Judgement& judgement = attempt.judgement;
    // Those at fault are replaced, whatever else would have helped.
    if (!judgement.fewer_gpus || judgement.restart == Restart::other_gpus) return std::nullopt;
    if (!holding_.is_elastic() || !plan_.rank_per_gpu) return std::nullopt;
    const std::uint32_t now = holding_.count();
    const std::uint32_t fewer = std::max(options_.elastic->least, now / 2);
    return fewer < now ? std::optional(fewer) : std::nullopt;
  }

  void decide(Attempt& attempt) {
    const Judgement& judgement = attempt.judgement;
    const launch::TimeLimit& limit = options_.run.time_limit;
    const auto fewer = fewer_gpus(attempt);
    launch::Failure failure{.restart = judgement.restart, .why = judgement.why, .remedy = judgement.remedy};
    if (fewer) failure.other_remedy = fmt::format("with {} instead of {} GPUs", *fewer, holding_.count());
    failure.final_because = final_because(attempt, options_.policy.heal && fewer);
    failure.lasted = attempt.end.wall_time;
    if (changes_devices(attempt)) return start_elsewhere(attempt);
    const auto decision =
        restarts_.decide(failure, limit, clock_.now(), std::uniform_real_distribution<>(0, 1)(random_));
    attempt.restarts = decision.restarts;
    attempt.decision = decision.text;
    attempt.pause = decision.pause;
    if (!decision.remedied) return;
    attempt.fewer_gpus = fewer;
    attempt.changes = judgement.remedy;
    for (const auto& [name, value] : judgement.remedy) plan_.job.extra_environment[name] = value;
  }

  void start_elsewhere(Attempt& attempt) const {
    attempt.counts = false;
    attempt.restarts = has_time(milliseconds(0));
    attempt.decision = attempt.restarts ? attempt.judgement.why : "no time is left for another try";
  }

  bool has_time(milliseconds pause) const { return launch::has_time(options_.run.time_limit, clock_.now(), pause); }

  bool waits(milliseconds pause) {
    if (pause.count() == 0) return !options_.run.stop.stop_requested();
    if (options_.pause) return options_.pause(pause);
    return clock_.sleep_for(pause, options_.run.stop);
  }

  /// Others instead of those at fault. A driver that does not answer may do so later: that is tried as often as
  /// restarts are left.
  std::optional<Error> replace(const std::vector<Uuid>& at_fault) {
    for (;;) {
      auto error = holding_.replace(at_fault);
      if (!error || error->code != ErrorCode::unavailable) return error;
      const auto pause = restarts_.again_later(options_.run.time_limit, clock_.now());
      if (!pause || !waits(*pause)) return error;
    }
  }

  /// The GPUs of the next try. Why there are none; nothing: they are held.
  std::optional<Error> get_ready_again(const Attempt& attempt) {
    if (attempt.judgement.restart != Restart::other_gpus) {
      if (attempt.fewer_gpus) holding_.shrink(*attempt.fewer_gpus);
      holding_.grow();
      return std::nullopt;
    }
    auto error = replace(attempt.judgement.gpus_at_fault);
    if (!error || !options_.cpu_fallback) return error;
    if (options_.run.warning) options_.run.warning(fmt::format("{}: going on on the CPU", error->message));
    holding_.leave_gpus();
    plan_.ranks = static_cast<std::uint32_t>(attempt.end.ranks.size());
    plan_.rank_per_gpu = false;
    return std::nullopt;
  }

  /// The job ends as its last try did, though another one was meant to follow.
  void give_up(const Error& error) {
    Attempt& last = healed_.failed.back();
    last.restarts = false;
    last.decision = fmt::format("it could not be started again: {}", error.message);
    if (options_.gave_up) options_.gave_up(last);
  }

  Result<Healed> without_another(const Error& error) {
    if (!healed_.failed.empty()) {
      give_up(error);
    } else {
      // It was ended for another node's sake.
      healed_.report.end.exit_code = std::max(healed_.report.end.exit_code, 1);
      if (options_.run.warning) options_.run.warning(fmt::format("it could not be started again: {}", error.message));
    }
    if (meeting_) meeting_->failed(false, false, healed_.report.end.exit_code, error.message);
    return std::move(healed_);
  }

  launch::RunPlan plan_;
  const machine::Machine& machine_;
  const Options& options_;
  Clock& clock_;
  Holding holding_;
  launch::Restarts restarts_;
  Checkpoint checkpoint_;
  std::unique_ptr<Meeting> meeting_;
  std::optional<Summons> summons_;  ///< what the first node said while ranks ran
  Healed healed_;
  Environment environment_;  ///< what the ranks of the last try were started with
  Clock::SteadyTime begun_;  ///< the present try
  Clock::SteadyTime first_begun_;
  std::uint32_t starts_ = 0;  ///< of this node's ranks
  std::uint32_t number_ = 0;  ///< of the present try, on all nodes
  std::mt19937 random_{std::random_device{}()};
};

}  // namespace

Result<Healed> run(const launch::RunPlan& plan, const machine::Machine& machine, machine::Reservation gpus,
                   const Options& options, Clock& clock) {
  return Run(plan, machine, std::move(gpus), options, clock).to_its_end();
}

}  // namespace gpuwarden::healing
