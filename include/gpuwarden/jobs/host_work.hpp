// SPDX-License-Identifier: Apache-2.0
// A launcher's work on this host: GPUs held for it, ranks run on them, each failure judged.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/hosts/agent.hpp"
#include "gpuwarden/jobs/job.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::jobs {

/// What an order becomes on this host.
struct OrderedJob {
  Job job;
  knowledge::Knowledge knowledge;
  machine::Machine machine;
};

/// What the face of the program does for it.
struct HostFace {
  /// The job that an order's options and command mean, in this environment; run id and nodes are the order's anyway.
  std::function<Result<OrderedJob>(const hosts::Order&, const Environment&)> read;
  /// The machine that the options of `gpuwarden list` name.
  std::function<Result<machine::Machine>(const std::vector<std::string>&)> open;
  /// How a run went, for people, without a head; `failed`: the try, where it failed by itself.
  std::function<std::string(const launch::RunReport&, const healing::Attempt* failed)> text;
  /// What is said where an order's GPUs cannot be had; empty: the error as it is.
  std::function<Error(const Error&)> refusal;
};

/// Of a program with this environment, which is an agent and nothing else.
std::unique_ptr<hosts::AgentWork> make_host_work(Environment environment, HostFace face);

}  // namespace gpuwarden::jobs
