// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/healing/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <system_error>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::healing {
namespace {

using knowledge::Restart;
using launch::JobSpec;
using launch::RunReport;
using std::chrono::milliseconds;

constexpr double kJitter = 0.2;

/// "NAME=value".
std::string settings_text(const Environment& changes) {
  std::vector<std::string> settings;
  for (const auto& [name, value] : changes) settings.push_back(fmt::format("{}={}", name, value));
  return join(settings, " ");
}

class Run {
 public:
  Run(launch::RunPlan plan, const machine::Machine& machine, machine::Reservation gpus, const Options& options,
      Clock& clock)
      : plan_(std::move(plan)), machine_(machine), gpus_(std::move(gpus)), options_(options), clock_(clock) {
    const bool shared = plan_.rank_per_gpu || plan_.ranks.value_or(1) > 1 || plan_.job.log_directory.has_value();
    plan_.job.keep_last_words = shared || options.policy.max_restarts > 0;
    plan_.job.max_restarts = options.policy.max_restarts;
  }

  Result<Healed> to_its_end() {
    for (std::uint32_t number = 0;; ++number) {
      auto report = once(number);
      if (!report && number == 0) return std::unexpected(std::move(report).error());
      // The failure before it is the job's end.
      if (!report) return without_another(report.error());
      healed_.report = std::move(*report);
      if (healed_.report.end.exit_code == 0 || healed_.report.end.interrupted_by) return std::move(healed_);
      Attempt attempt = judged(number);
      decide(attempt);
      healed_.failed.push_back(attempt);
      if (options_.failed) options_.failed(healed_.failed.back());
      if (!attempt.restarts || !waits(attempt.pause)) return std::move(healed_);
      if (attempt.judgement.restart == Restart::other_gpus) {
        if (auto error = take_other_gpus()) return without_another(*error);
      }
    }
  }

 private:
  Result<RunReport> once(std::uint32_t number) {
    launch::RunPlan plan = plan_;
    plan.job.restart_count = number;
    if (number > 0) {
      for (const std::string& word : options_.policy.restart_arguments) plan.job.argv.push_back(word);
      if (plan.job.log_directory) GPUWARDEN_CHECK(make_log_directory(plan.job, number));
    }
    launch::ReadyRun ready = launch::ready(plan, machine_, gpus_.decision(), gpus_.snapshot(), gpus_.descriptors());
    if (options_.starting) options_.starting(ready.job, gpus_);
    launch::RunOptions run = options_.run;
    if (!run.look_after) run.look_after = [this] { return gpus_.repair(); };
    environment_ = ready.job.environment;
    for (const auto& [name, value] : ready.job.extra_environment) environment_[name] = value;
    return launch::run(ready, machine_, run, clock_);
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

  Attempt judged(std::uint32_t number) {
    const RunReport& report = healed_.report;
    Attempt attempt{.number = number, .end = report.end, .judgement = judge(report, environment_)};
    for (launch::RankEnd& rank : attempt.end.ranks) rank.last_output = rank.last_words = "";
    for (const launch::GpuReport& gpu : report.gpus) attempt.gpus.push_back(gpu.index);
    for (const Uuid& uuid : attempt.judgement.gpus_at_fault) {
      if (std::ranges::find(healed_.gpus_at_fault, uuid) == healed_.gpus_at_fault.end())
        healed_.gpus_at_fault.push_back(uuid);
    }
    return attempt;
  }

  void decide(Attempt& attempt) {
    const Judgement& judgement = attempt.judgement;
    const RestartPolicy& policy = options_.policy;
    const auto refuse = [&](std::string why) { attempt.decision = std::move(why); };
    if (policy.max_restarts == 0) return refuse("");
    if (attempt.number >= policy.max_restarts)
      return refuse(fmt::format("no restart is left of {}", policy.max_restarts));
    const bool remedied = policy.heal && !judgement.remedy.empty();
    if (judgement.restart == Restart::never && !remedied)
      return refuse(judgement.remedy.empty()
                        ? fmt::format("another try would end the same way: {}", judgement.why)
                        : fmt::format("another try would end the same way: {}; --heal would set {}", judgement.why,
                                      settings_text(judgement.remedy)));
    if (judgement.restart == Restart::other_gpus && !options_.other_gpus)
      return refuse(fmt::format("there are no other GPUs to be had: {}", judgement.why));
    attempt.restarts = true;
    if (remedied) {
      attempt.changes = judgement.remedy;
      for (const auto& [name, value] : judgement.remedy) plan_.job.extra_environment[name] = value;
    }
    in_a_row_ = attempt.end.wall_time >= policy.healthy ? 1 : in_a_row_ + 1;
    attempt.pause = pause_before(policy, in_a_row_, std::uniform_real_distribution<>(0, 1)(random_));
    attempt.decision = judgement.why;
  }

  bool waits(milliseconds pause) {
    if (options_.pause) return options_.pause(pause);
    return clock_.sleep_for(pause, options_.run.stop);
  }

  /// Why there are none; nothing: they are held.
  std::optional<Error> take_other_gpus() {
    gpus_ = machine::Reservation::of_cpu();  // gives the old ones back
    auto others = options_.other_gpus(healed_.gpus_at_fault);
    if (!others) return std::move(others).error();
    gpus_ = std::move(*others);
    return std::nullopt;
  }

  /// The job ends as its last try did, though another one was meant to follow.
  Result<Healed> without_another(const Error& error) {
    Attempt& last = healed_.failed.back();
    last.restarts = false;
    last.decision = fmt::format("it could not be started again: {}", error.message);
    if (options_.gave_up) options_.gave_up(last);
    return std::move(healed_);
  }

  launch::RunPlan plan_;
  const machine::Machine& machine_;
  machine::Reservation gpus_;
  const Options& options_;
  Clock& clock_;
  Healed healed_;
  Environment environment_;  ///< what the ranks of the last try were started with
  std::uint32_t in_a_row_ = 0;
  std::mt19937 random_{std::random_device{}()};
};

}  // namespace

milliseconds pause_before(const RestartPolicy& policy, std::uint32_t number, double chance) {
  constexpr std::uint32_t kMostDoublings = 30;
  const double doublings = std::min(number == 0 ? 0U : number - 1, kMostDoublings);
  const double longest = static_cast<double>(policy.longest_pause.count());
  const double pause = std::min(static_cast<double>(policy.first_pause.count()) * std::exp2(doublings), longest);
  return milliseconds(std::llround(pause * (1 + kJitter * (2 * chance - 1))));
}

Result<Healed> run(const launch::RunPlan& plan, const machine::Machine& machine, machine::Reservation gpus,
                   const Options& options, Clock& clock) {
  return Run(plan, machine, std::move(gpus), options, clock).to_its_end();
}

}  // namespace gpuwarden::healing
