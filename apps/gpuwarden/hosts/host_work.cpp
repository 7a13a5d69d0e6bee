// SPDX-License-Identifier: Apache-2.0
#include "hosts/host_work.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/json.hpp"
#include "gpuwarden/healing/run.hpp"
#include "gpuwarden/hosts/on_host.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/redact/redact.hpp"
#include "hosts/run_on_hosts.hpp"
#include "render/style.hpp"
#include "run/lasting.hpp"
#include "run/other_launchers.hpp"
#include "run/report_text.hpp"
#include "run/request.hpp"

namespace gpuwarden::cli {
namespace {

/// The launcher's folder, where there is one; else the job runs where ssh's login begins, and it is said.
Result<void> go_to(const hosts::Order& order, const hosts::RunEars& ears) {
  if (order.folder.empty() || ::chdir(order.folder.c_str()) == 0) return {};
  const Error error = error_from_errno(errno, fmt::format("cannot change to {}", printable(order.folder)));
  if (order.needs_folder) return std::unexpected(error);
  ears.warning(fmt::format("{}: the command runs in the login's folder (--chdir names another one)", error.message));
  return {};
}

/// The report without its head, which the launcher says for all hosts.
std::string lines_of(const std::string& text) {
  const std::size_t first = text.find("\n  ");
  return first == std::string::npos ? "" : text.substr(first + 1);
}

}  // namespace

Result<hosts::Held> HostWork::hold(const hosts::Order& order, const std::stop_token& stop, const hosts::RunEars& ears) {
  // Whoever waits in line for GPUs hears signals.
  const std::stop_callback ends_waiting(stop, [] { ::kill(::getpid(), SIGTERM); });
  // The old ones go back first; and there is one simulated fleet at a time.
  gpus_.reset();
  machine_.reset();
  GPUWARDEN_CHECK(read_order(order, ears));
  GPUWARDEN_CHECK(choose(order, ears));
  const launch::ReadyRun ready =
      launch::ready(plan_, *machine_, gpus_->decision(), gpus_->snapshot(), gpus_->descriptors());
  hosts::Held held;
  for (const auto& device : gpus_->decision().selected) held.gpus.push_back(device.index.value);
  if (!held.gpus.empty()) held.name = gpus_->decision().selected[0].name;
  held.ranks = ready.job.ranks;
  held.simulated = machine_->simulated();
  return held;
}

Result<void> HostWork::read_order(const hosts::Order& order, const hosts::RunEars& ears) {
  GPUWARDEN_CHECK(go_to(order, ears));
  GPUWARDEN_TRY(Args args, parse_arguments(kRunCommand, order.options));
  args.rest = order.command;
  Environment environment = environment_;
  for (const auto& [name, value] : order.environment) environment[name] = value;
  context_.emplace(Context{std::move(args), std::move(environment), &kRunCommand, order.options});
  GPUWARDEN_TRY(selection_, read_selection(*context_));
  if (selection_.least)
    return fail(ErrorCode::invalid_argument, "a range of GPUs is for one machine", "name one number for each host");
  // The host's copy of a --config may say what the launcher heeds for all hosts.
  for (const std::string_view key : kLaunchersOptions) context_->args.forget(std::string(key));
  GPUWARDEN_TRY(options_, read_run_options(context_->args));
  GPUWARDEN_TRY(plan_, read_plan(*context_, selection_));
  GPUWARDEN_CHECK(launch::check_program(plan_.job.argv[0], context_->environment));
  GPUWARDEN_TRY(knowledge_, open_knowledge(*context_));
  plan_.job.run_id = order.run_id;
  plan_.job.nodes = order.nodes;
  plan_.job.record_directory = lease_directory(*context_);
  launch::complete(plan_, selection_.request);
  return {};
}

Result<void> HostWork::choose(const hosts::Order& order, const hosts::RunEars& ears) {
  GPUWARDEN_TRY(machine_, open_machine(*context_));
  if (selection_.request.force_cpu) {
    gpus_ = machine::Reservation::of_cpu();
    return {};
  }
  machine::ReservationRequest request = reservation_of(selection_);
  request.without = order.without;
  auto held = reserve_heeding_signals(*machine_, std::move(request), {order.run_id, join(order.command, " ")});
  if (!held) return std::unexpected(refusal_of(context_->args, selection_, held.error()));
  gpus_ = std::move(*held);
  for (const std::string& warning : gpus_->decision().warnings) ears.warning(warning);
  for (const std::string& warning : gpus_->warnings()) ears.warning(warning);
  return {};
}

hosts::Done HostWork::run(const hosts::Start& start, const std::stop_token& stop, const hosts::RunEars& ears) {
  launch::RunPlan plan = plan_;
  launch::JobSpec& job = plan.job;
  hosts::place_ranks(start, job);
  for (const auto& [name, value] : healing::fill_in(start.changes, start.address, start.nodes, {}))
    job.extra_environment[name] = value;
  job.takes_signals = true;
  job.keep_last_words = true;
  const launch::ReadyRun ready =
      launch::ready(plan, *machine_, gpus_->decision(), gpus_->snapshot(), gpus_->descriptors());
  launch::RunOptions options = options_;
  options.rules = knowledge_->rules();
  options.warning = ears.warning;
  options.first_failed = ears.first_failed;
  options.stop = stop;
  options.time_limit = hosts::time_limit_of(start, system_clock().now());
  options.look_after = [this] { return gpus_->repair(); };
  const auto report = launch::run(ready, *machine_, options, system_clock());
  if (!report) {
    hosts::Done done;
    done.exit_code = exit_code_of_start(report.error().code);
    done.why = report.error().message;
    done.text = fmt::format("  {}\n", printable(report.error().message));
    if (done.exit_code == kNotFound || done.exit_code == kNotExecutable) done.restart = "never";
    return done;
  }
  for (const std::string& warning : launch::gpu_warnings(*report)) ears.warning(warning);
  Environment ranks = ready.job.environment;
  for (const auto& [name, value] : ready.job.extra_environment) ranks[name] = value;
  return ended(*report, ranks);
}

hosts::Done HostWork::ended(const launch::RunReport& report, const Environment& ranks) const {
  hosts::Done done;
  done.exit_code = report.end.exit_code;
  done.first_failure = report.end.first_failure;
  done.wall_time = report.end.wall_time;
  done.interrupted = report.end.interrupted_by.has_value();
  done.text = lines_of(run_report_text(report));
  healing::Healed healed;
  healed.report = report;
  if (done.exit_code != 0 && !done.interrupted) {
    healing::Attempt attempt;
    attempt.end = report.end;
    attempt.judgement = healing::judge(report, ranks);
    done.restart = knowledge::to_string(attempt.judgement.restart);
    done.why = attempt.judgement.why;
    done.gpus_at_fault = attempt.judgement.gpus_at_fault;
    done.remedy = attempt.judgement.remedy;
    if (const auto style = style_of(*context_)) done.text += attempt_text(attempt, true, *style);
    healed.failed.push_back(std::move(attempt));
  }
  const auto secrets = redact::secret_values(context_->environment);
  done.report = healing::to_json(healed, secrets).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return done;
}

Result<nlohmann::json> HostWork::look(const std::vector<std::string>& options) {
  GPUWARDEN_TRY(Args args, parse_arguments(kListCommand, options));
  const Context context{std::move(args), environment_, &kListCommand, options};
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  return cluster::to_json(hosts::this_node(machine));
}

}  // namespace gpuwarden::cli
