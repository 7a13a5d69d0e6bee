// SPDX-License-Identifier: Apache-2.0
// How a job on many hosts went, for people.
#pragma once

#include <string>

#include "gpuwarden/hosts/run.hpp"

namespace gpuwarden::cli {

std::string hosts_start_text(const std::vector<hosts::HostEnd>& hosts, const hosts::Start& first);
/// A try that failed, and what follows.
std::string hosts_try_text(const hosts::HostsTry& one);
/// The last try, host by host.
std::string hosts_report_text(const hosts::HostsReport& report);

}  // namespace gpuwarden::cli
