// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/hosts/run.hpp"
#include "hosts/message.hpp"

namespace gpuwarden::hosts {
namespace {

Json failure_json(const HostsTry& one, const JobOnHosts& job) {
  if (!one.failed_host) return {};
  return {{"host", job.hosts[*one.failed_host].host.name}, {"rank", one.failed_rank ? Json(*one.failed_rank) : Json()}};
}

Json host_json(const HostEnd& end) {
  Json report = end.done && !end.done->report.empty() ? Json::parse(end.done->report, nullptr, false) : Json();
  if (report.is_discarded()) report = Json();
  return {{"host", end.host.name},
          {"gpus", end.held.gpus},
          {"ranks", end.held.ranks},
          {"exit_code", end.done ? Json(end.done->exit_code) : Json()},
          {"lost", end.lost.empty() ? Json() : Json(end.lost)},
          {"report", std::move(report)}};
}

Json try_json(const HostsTry& one, const JobOnHosts& job) {
  return {{"restart_count", one.number},
          {"exit_code", one.exit_code},
          {"first_failure", failure_json(one, job)},
          {"wall_seconds", std::chrono::duration<double>(one.wall_time).count()},
          {"restarts", one.restarts},
          {"decision", one.decision},
          {"pause_seconds", std::chrono::duration<double>(one.pause).count()},
          {"changes", one.changes}};
}

}  // namespace

nlohmann::json to_json(const HostsReport& report, const JobOnHosts& job) {
  const HostsTry& last = report.last;
  Json hosts = Json::array();
  for (const HostEnd& host : last.hosts) hosts.push_back(host_json(host));
  const bool simulated = std::ranges::any_of(last.hosts, [](const HostEnd& host) { return host.held.simulated; });
  Json attempts = Json::array();
  for (const HostsTry& one : report.failed) attempts.push_back(try_json(one, job));
  return facts::answer({{"run_id", job.run_id},
                        {"command", job.hosts.empty() ? std::vector<std::string>{} : job.hosts[0].order.command},
                        {"exit_code", last.exit_code},
                        {"interrupted_by", last.interrupted_by ? Json(*last.interrupted_by) : Json()},
                        {"first_failure", failure_json(last, job)},
                        {"wall_seconds", std::chrono::duration<double>(last.wall_time).count()},
                        {"hosts", std::move(hosts)},
                        {"attempts", std::move(attempts)}},
                       simulated);
}

std::optional<nlohmann::json> post_mortem_of(const HostsTry& last) {
  if (!last.failed_host || !last.hosts[*last.failed_host].done) return std::nullopt;
  Json report = Json::parse(last.hosts[*last.failed_host].done->report, nullptr, false);
  return report.is_object() ? std::optional(std::move(report)) : std::nullopt;
}

}  // namespace gpuwarden::hosts
