// SPDX-License-Identifier: Apache-2.0
// What a launcher starts on each host: it speaks messages on its standard streams, holds GPUs and runs ranks for as
// long as the launcher lives.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/hosts/values.hpp"

namespace gpuwarden::hosts {

/// What a run of ranks tells while it lasts; from its own thread.
struct RunEars {
  std::function<void(std::uint32_t rank, int exit_code)> first_failed;
  std::function<void(const std::string&)> warning;
};

/// What an agent does for its launcher. Each is called from a thread of the agent's, one at a time.
class AgentWork {
 public:
  AgentWork() = default;
  AgentWork(const AgentWork&) = delete;
  AgentWork& operator=(const AgentWork&) = delete;
  virtual ~AgentWork() = default;
  /// Holds GPUs until the next order, or its own end.
  virtual Result<Held> hold(const Order& order, const std::stop_token& stop, const RunEars& ears) = 0;
  /// Runs ranks on what is held; a failure is an exit code, too. Signals of the process go to the ranks.
  virtual Done run(const Start& start, const std::stop_token& stop, const RunEars& ears) = 0;
  /// The GPUs of this machine, a cluster::Node as JSON.
  virtual Result<nlohmann::json> look(const std::vector<std::string>& options) = 0;
};

struct AgentOptions {
  std::string machine;         ///< this machine's name
  std::string ssh_connection;  ///< SSH_CONNECTION: the third word is the address at which the launcher reached it
  /// Called where what was begun does not end though the launcher is gone: must end the process, and never come back.
  std::function<void()> abandon;
};

/// The descriptors of a program that becomes an agent: 0 becomes /dev/null, 1 and 2 pipes of the agent's own, so that
/// whatever the ranks write is taken for their output and nothing is taken for a message.
struct AgentStreams {
  UniqueFd in;      ///< messages of the launcher
  UniqueFd out;     ///< messages to it
  UniqueFd output;  ///< what is written to descriptor 1
  UniqueFd errors;  ///< what is written to descriptor 2
  static Result<AgentStreams> take_over();
};

/// Serves until the launcher goes, or falls silent; the GPUs are free then and no rank runs any more. The exit code.
int serve_launcher(AgentStreams streams, AgentWork& work, const AgentOptions& options, Clock& clock);

}  // namespace gpuwarden::hosts
