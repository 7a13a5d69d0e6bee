// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/slurm/site.hpp"

namespace gpuwarden::slurm {
namespace {

std::string reason_text(const NodeFault& fault) {
  // scontrol takes what is quoted as it stands, but the quotes too.
  std::string text = "gpuwarden: " + fault.reason.substr(0, 400);
  std::ranges::replace(text, '"', '\'');
  return text;
}

std::vector<std::string> drain_words(const NodeFault& fault) {
  return {"scontrol", "update", "NodeName=" + fault.node, "State=DRAIN", "Reason=" + reason_text(fault)};
}

/// The nodes that failed are drained, and not taken again.
void keep_away(Programs& programs, const Policy& policy, BatchJob& job, Attempt& attempt) {
  for (const NodeFault& fault : attempt.verdict.faults) {
    if (std::ranges::find(job.exclude, fault.node) == job.exclude.end()) job.exclude.push_back(fault.node);
    const bool wanted = policy.drains == Drains::all || (policy.drains == Drains::real && !fault.simulated);
    const bool drained = wanted && drain(programs, fault).has_value();
    (drained ? attempt.drained : attempt.not_drained).push_back(fault);
  }
}

}  // namespace

Result<std::string> submit(Programs& programs, const BatchJob& job) {
  GPUWARDEN_TRY(std::string script, sbatch_script(job));
  GPUWARDEN_TRY(const std::string answer,
                output_of(programs, {"sbatch", "--parsable"}, ErrorCode::unsatisfied, std::move(script)));
  // "123;cluster" in a federation.
  const std::string_view id = trim(std::string_view(answer).substr(0, answer.find(';')));
  if (!parse_integer(id)) return fail(ErrorCode::corrupt, fmt::format("sbatch tells of no job: '{}'", printable(id)));
  return std::string(id);
}

Result<Job> find_job(Programs& programs, const std::string& id) {
  auto now = output_of(programs, {"scontrol", "show", "job", "-o", id}, ErrorCode::unavailable);
  if (now) {
    GPUWARDEN_TRY(const auto jobs, parse_jobs(*now));
    return jobs.front();
  }
  if (now.error().code != ErrorCode::not_found) return std::unexpected(now.error());
  const auto before =
      output_of(programs, {"sacct", "-n", "-X", "-P", "-j", id, "-o", kHistoryFormat}, ErrorCode::not_found);
  const auto jobs = before ? parse_history(*before) : std::vector<Job>{};
  if (!jobs.empty()) return jobs.front();
  return fail(ErrorCode::not_found, fmt::format("Slurm knows no job {}", printable(id)),
              "see gpuwarden slurm queue; jobs that have ended are forgotten after some minutes");
}

Result<void> cancel(Programs& programs, const std::string& id) {
  GPUWARDEN_CHECK(output_of(programs, {"scancel", id}));
  return {};
}

Result<void> drain(Programs& programs, const NodeFault& fault) {
  GPUWARDEN_CHECK(output_of(programs, drain_words(fault), ErrorCode::permission_denied));
  return {};
}

std::string drain_command(const NodeFault& fault) { return shell_line(drain_words(fault)); }

int exit_code_of(const Outcome& outcome) {
  const NodeReport* const guilty = outcome.job.state == "FAILED" ? guilty_of(outcome.reports) : nullptr;
  return guilty != nullptr ? *guilty->exit_code : exit_code_of(outcome.job);
}

Result<Outcome> run(Programs& programs, BatchJob job, const Policy& policy, const Hooks& hooks, Clock& clock) {
  const std::string& log_directory = policy.log_directory;
  Outcome outcome{.log_directory = log_directory};
  Clock::WallTime since = clock.wall_now();
  auto id = submit(programs, job);
  for (std::uint32_t restarts = 0;; ++restarts) {
    if (!id) return std::unexpected(std::move(id).error());
    if (hooks.submitted) hooks.submitted(*id);
    GPUWARDEN_TRY(outcome.job, follow(programs, *id, log_of(log_directory, *id), hooks.follow, clock));
    outcome.reports = read_reports(logs_of(log_directory, *id), outcome.job.nodes, since);
    if (outcome.job.state == "COMPLETED" || outcome.job.state == "CANCELLED") return outcome;
    Attempt attempt{.job = outcome.job, .verdict = judge(outcome.job, outcome.reports, !job.signal.empty())};
    attempt.again = attempt.verdict.again && restarts < policy.max_restarts && !hooks.follow.stop.stop_requested();
    keep_away(programs, policy, job, attempt);
    if (attempt.again) {
      if (!policy.again_command.empty()) job.command = policy.again_command;
      since = clock.wall_now();
      id = submit(programs, job);
      attempt.again = id.has_value();
      // How the job ended is known all the same.
      if (!id) attempt.verdict.why += "; it could not be submitted again: " + id.error().message;
    }
    if (hooks.failed) hooks.failed(attempt);
    outcome.failed.push_back(attempt);
    if (!attempt.again) return outcome;
  }
}

nlohmann::json to_json(const Outcome& outcome) {
  nlohmann::json nodes = nlohmann::json::array();
  bool simulated = false;
  for (const NodeReport& report : outcome.reports) {
    nlohmann::json document = nlohmann::json::parse(report.document, nullptr, false);
    if (document.is_discarded()) document = nullptr;
    nodes.push_back({{"node", report.node}, {"report", std::move(document)}});
    simulated = simulated || report.simulated;
  }
  const auto names = [](const std::vector<NodeFault>& faults) {
    nlohmann::json list = nlohmann::json::array();
    for (const NodeFault& fault : faults) list.push_back({{"node", fault.node}, {"reason", fault.reason}});
    return list;
  };
  nlohmann::json attempts = nlohmann::json::array();
  for (const Attempt& attempt : outcome.failed)
    attempts.push_back({{"job", to_json(attempt.job)},
                        {"why", attempt.verdict.why},
                        {"again", attempt.again},
                        {"faults", names(attempt.verdict.faults)},
                        {"drained", names(attempt.drained)}});
  return facts::answer(
      {{"job", to_json(outcome.job)}, {"exit_code", exit_code_of(outcome)}, {"nodes", nodes}, {"attempts", attempts}},
      simulated);
}

}  // namespace gpuwarden::slurm
