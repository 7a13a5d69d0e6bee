// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/host_work.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/json.hpp"
#include "gpuwarden/hosts/on_host.hpp"
#include "gpuwarden/placement/export.hpp"
#include "gpuwarden/redact/redact.hpp"

namespace gpuwarden::jobs {
namespace {

using machine::Machine;

/// The launcher's folder, where there is one; else the job runs where ssh's login begins, and it is said.
Result<void> go_to(const hosts::Order& order, const hosts::RunEars& ears) {
  if (order.folder.empty() || ::chdir(order.folder.c_str()) == 0) return {};
  const Error error = error_from_errno(errno, fmt::format("cannot change to {}", printable(order.folder)));
  if (order.needs_folder) return std::unexpected(error);
  ears.warning(fmt::format("{}: the command runs in the login's folder (--chdir names another one)", error.message));
  return {};
}

class HostWork final : public hosts::AgentWork {
 public:
  HostWork(Environment environment, HostFace face) : environment_(std::move(environment)), face_(std::move(face)) {}
  Result<hosts::Held> hold(const hosts::Order& order, const std::stop_token& stop, const hosts::RunEars& ears) override;
  hosts::Done run(const hosts::Start& start, const std::stop_token& stop, const hosts::RunEars& ears) override;
  Result<nlohmann::json> look(const std::vector<std::string>& options) override;

 private:
  Result<void> choose(const hosts::Order& order, const hosts::RunEars& ears);
  launch::ReadyRun ready(const launch::RunPlan& plan) const {
    return launch::ready(plan, ordered_->machine, gpus_->decision(), gpus_->snapshot(), gpus_->descriptors());
  }
  launch::ReadyRun at_its_place(const hosts::Start& start) const;
  hosts::Done not_started(const Error& error) const;
  hosts::Done ended(const launch::RunReport& report, const Environment& ranks);

  Environment environment_;
  HostFace face_;
  std::optional<OrderedJob> ordered_;
  std::optional<machine::Reservation> gpus_;
  std::optional<Clock::SteadyTime> first_begun_;
  healing::Total total_;  ///< of all tries of the job on this host
};

Result<hosts::Held> HostWork::hold(const hosts::Order& order, const std::stop_token& stop, const hosts::RunEars& ears) {
  const std::stop_callback ends_waiting(stop, [] { ::kill(::getpid(), SIGTERM); });
  // The old ones go back first; and there is one simulated fleet at a time.
  gpus_.reset();
  ordered_.reset();
  GPUWARDEN_CHECK(choose(order, ears));
  hosts::Held held;
  for (const auto& device : gpus_->decision().selected) held.gpus.push_back(device.index.value);
  held.name = placement::models_in_words(gpus_->decision());
  held.ranks = ready(ordered_->job.plan).job.ranks;
  held.simulated = ordered_->machine.simulated();
  return held;
}

Result<void> HostWork::choose(const hosts::Order& order, const hosts::RunEars& ears) {
  GPUWARDEN_CHECK(go_to(order, ears));
  Environment environment = environment_;
  for (const auto& [name, value] : order.environment) environment[name] = value;
  GPUWARDEN_TRY(ordered_, face_.read(order, environment));
  Job& job = ordered_->job;
  job.plan.job.run_id = order.run_id;
  job.plan.job.nodes = order.nodes;
  job.gpus.without = order.without;
  launch::complete(job.plan, job.gpus.gpus);
  // Whoever waits in line for GPUs hears signals.
  const StopOnSignals signals;
  auto held = hold_gpus(job, ordered_->machine, system_clock(), signals.token());
  if (!held) return std::unexpected(face_.refusal ? face_.refusal(held.error()) : held.error());
  gpus_ = std::move(*held);
  for (const std::string& warning : gpus_->decision().warnings) ears.warning(warning);
  for (const std::string& warning : gpus_->warnings()) ears.warning(warning);
  return {};
}

launch::ReadyRun HostWork::at_its_place(const hosts::Start& start) const {
  launch::RunPlan plan = ordered_->job.plan;
  hosts::place_ranks(start, plan.job);
  for (const auto& [name, value] : healing::fill_in(start.changes, start.address, start.nodes, {}))
    plan.job.extra_environment[name] = value;
  plan.job.takes_signals = true;
  plan.job.keep_last_words = true;
  return ready(plan);
}

hosts::Done HostWork::run(const hosts::Start& start, const std::stop_token& stop, const hosts::RunEars& ears) {
  const launch::ReadyRun ready = at_its_place(start);
  launch::RunOptions options = ordered_->job.options.run;
  options.rules = ordered_->knowledge.rules();
  options.warning = ears.warning;
  options.first_failed = ears.first_failed;
  options.stop = stop;
  options.time_limit = hosts::time_limit_of(start, system_clock().now());
  options.look_after = [this] { return gpus_->repair(); };
  if (!first_begun_) first_begun_ = system_clock().now();
  const auto report = launch::run(ready, ordered_->machine, options, system_clock());
  if (!report) return not_started(report.error());
  for (const std::string& warning : launch::gpu_warnings(*report)) ears.warning(warning);
  Environment ranks = ready.job.environment;
  for (const auto& [name, value] : ready.job.extra_environment) ranks[name] = value;
  return ended(*report, ranks);
}

/// As a shell has it; a program that is not there, or is none, is not tried again.
hosts::Done HostWork::not_started(const Error& error) const {
  hosts::Done done;
  const bool never = error.code == ErrorCode::not_found || error.code == ErrorCode::permission_denied;
  done.exit_code = error.code == ErrorCode::not_found ? 127 : never ? 126 : 1;
  if (never) done.restart = "never";
  done.why = error.message;
  done.text = fmt::format("  {}\n", printable(error.message));
  return done;
}

hosts::Done HostWork::ended(const launch::RunReport& report, const Environment& ranks) {
  hosts::Done done;
  done.exit_code = report.end.exit_code;
  done.first_failure = report.end.first_failure;
  done.wall_time = report.end.wall_time;
  done.interrupted = report.end.interrupted_by.has_value();
  healing::Healed healed;
  healed.report = report;
  const auto since_first = system_clock().now() - *first_begun_;
  healing::add(total_, report, std::chrono::duration_cast<std::chrono::milliseconds>(since_first));
  healed.total = total_;
  if (done.exit_code != 0 && !done.interrupted) {
    healing::Attempt attempt;
    attempt.end = report.end;
    attempt.judgement = healing::judge(report, ranks);
    done.restart = knowledge::to_string(attempt.judgement.restart);
    done.why = attempt.judgement.why;
    done.gpus_at_fault = attempt.judgement.gpus_at_fault;
    done.remedy = attempt.judgement.remedy;
    healed.failed.push_back(std::move(attempt));
  }
  if (face_.text) done.text = face_.text(report, healed.failed.empty() ? nullptr : &healed.failed.front());
  const auto secrets = redact::secret_values(ordered_->job.plan.job.environment);
  done.report = healing::to_json(healed, secrets).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return done;
}

Result<nlohmann::json> HostWork::look(const std::vector<std::string>& options) {
  GPUWARDEN_TRY(const Machine machine, face_.open(options));
  return cluster::to_json(hosts::this_node(machine));
}

}  // namespace

std::unique_ptr<hosts::AgentWork> make_host_work(Environment environment, HostFace face) {
  return std::make_unique<HostWork>(std::move(environment), std::move(face));
}

}  // namespace gpuwarden::jobs
