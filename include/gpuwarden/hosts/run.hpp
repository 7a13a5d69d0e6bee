// SPDX-License-Identifier: Apache-2.0
// One job on several hosts over OpenSSH: GPUs on every host or on none, one start, one end, one report.
//
//     const auto links = start_links();
//     const auto end = run_on_hosts({.hosts = {{{"a"}, order_a}, {{"b", 4}, order_b}}, .version = "0.1.0",
//                                    .run_id = launch::make_run_id()}, *links, {}, system_clock());
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/hosts/host.hpp"
#include "gpuwarden/hosts/links.hpp"
#include "gpuwarden/hosts/ssh.hpp"
#include "gpuwarden/hosts/values.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/launch/restarts.hpp"

namespace gpuwarden::hosts {

struct HostOrder {
  Host host;
  Order order;
};

struct JobOnHosts {
  std::vector<HostOrder> hosts;  ///< by node rank
  std::string version;           ///< this program's; agents of another are not worked with
  SshOptions ssh;
  std::string run_id;  ///< the job's; each order's own begins with it
  /// Hosts are asked for GPUs one after another, in the order of the machines' names: two jobs that wait for the same
  /// hosts then never wait for each other.
  bool one_by_one = false;
  std::optional<std::string> master_address;  ///< empty: one at which the other hosts reach the first was found
  std::optional<std::uint16_t> master_port;   ///< empty: a free one of the first host's
  std::optional<std::filesystem::path> log_directory;
  launch::StreamChoice redirects;
  launch::StreamChoice tee;
  std::chrono::milliseconds grace = std::chrono::seconds(10);  ///< that the ranks have to end
  launch::RestartPolicy restarts;                              ///< remedies are those that agents tell of
  /// The time of all tries together; asked once, when the first one starts. Empty: as long as they like.
  std::function<launch::TimeLimit()> time_limit;
};

/// What became of one host's part of a try.
struct HostEnd {
  Host host;
  Held held;
  std::optional<Done> done;
  std::string lost;  ///< why nothing is known of its end; empty: it is
};

struct HostsTry {
  std::uint32_t number = 0;  ///< 0: the first
  int exit_code = 0;         ///< of the rank that failed first, by time; 255 where a host was lost before; 128 + signal
  std::optional<std::size_t> failed_host;
  std::optional<std::uint32_t> failed_rank;  ///< RANK
  std::optional<int> interrupted_by;
  std::chrono::milliseconds wall_time{0};
  std::vector<HostEnd> hosts;
  bool restarts = false;
  std::string decision;  ///< why it is started again, or why not; empty where nothing was to be decided
  std::chrono::milliseconds pause{0};
  Environment changes;
};

/// 255, as ssh's.
inline constexpr int kHostLost = 255;

struct HostsHooks {
  /// Every host holds its GPUs; the ranks start.
  std::function<void(const std::vector<HostEnd>& hosts, const Start& first)> starting;
  std::function<void(const std::string&)> warning;  ///< "b: ...": of a host, or of our own
  /// Each try that failed, before the pause.
  std::function<void(const HostsTry&)> failed;
  /// What the others have to say since it was last asked, after each of them: it goes to standard error among the
  /// ranks' lines, and nobody waits for its reader, for whom the hosts would wait, too. Empty: nothing.
  std::function<std::string()> to_tell;
};

struct HostsReport {
  std::vector<HostsTry> failed;  ///< oldest first
  HostsTry last;
  bool lost_output = false;
};

/// Runs the job to its end. Fails, with nothing started anywhere, where a host cannot be reached, has no gpuwarden of
/// this version, does not get its GPUs (unsatisfied: each host with what it lacks), cannot reach the first host, or a
/// signal came before (interrupted).
Result<HostsReport> run_on_hosts(const JobOnHosts& job, Links& links, const HostsHooks& hooks, Clock& clock);

/// {"schema", "run_id", "command", "exit_code", "first_failure": {"host", "rank"}, "hosts": [{"host", "gpus", "ranks",
/// "exit_code", "lost", "report"}], "attempts": [...]}; a host's "report" is what `gpuwarden run --report` writes
/// there.
nlohmann::json to_json(const HostsReport& report, const JobOnHosts& job);

/// The own report of the host that failed first, as `gpuwarden report` reads it; nothing where that host is lost, or
/// has none.
std::optional<nlohmann::json> post_mortem_of(const HostsTry& last);

}  // namespace gpuwarden::hosts
