// SPDX-License-Identifier: Apache-2.0
// A job on several hosts, from what people say about it to what hosts::run_on_hosts() takes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/hosts/run.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::jobs {

/// Whether hosts are named: "hosts", "hostfile".
bool names_hosts(const NamedValues& values);
/// Those hosts. Fails with invalid_argument for both at once, and where they mean nothing.
Result<std::vector<hosts::Host>> hosts_from(const NamedValues& values);
/// Of "ssh" and "remote-program". Fails with not_found where there is no such program here.
Result<hosts::SshOptions> ssh_from(const NamedValues& values, const Environment& environment);

/// What a job on hosts is of, beside the values that say how it is run.
struct HostsRequest {
  std::vector<std::string> argv;
  Environment environment;
  std::string version;               ///< this program's
  std::vector<std::string> options;  ///< that every host is told, as words of a command line
  /// What each GPU has to be, where "gpus" chooses the hosts; asked before any host is.
  std::function<Result<placement::Request>()> gpus;
  /// Hears what is told on the way: a host that is left out.
  std::function<void(const std::string&)> warning;
};

/// What the launcher heeds for all hosts, and what each is told by itself: names that are not among the options that
/// all of them are told.
std::vector<std::string_view> names_kept_from_hosts();
/// Of these what a host's own copy of a configuration may say all the same; it is not heeded there.
std::vector<std::string_view> launchers_names();

/// Reads what `gpuwarden run --hosts` has options for. With "gpus" the hosts are asked, and chosen among. Fails with
/// invalid_argument, naming the value, as job_from(); where hosts are asked, as hosts::look() and
/// hosts::choose_hosts().
Result<hosts::JobOnHosts> job_on_hosts_from(const NamedValues& values, const HostsRequest& request);

}  // namespace gpuwarden::jobs
