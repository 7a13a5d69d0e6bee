// SPDX-License-Identifier: Apache-2.0
// gpuwarden host-agent: what `run --hosts` and `list --hosts` start on each host.
#include <unistd.h>

#include "exit_codes.hpp"
#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/host_name.hpp"
#include "hosts/host_work.hpp"

namespace gpuwarden::cli {
namespace {

Result<int> run_host_agent(Context& context) {
  if (::isatty(STDIN_FILENO) == 1)
    return fail(ErrorCode::invalid_argument, "host-agent speaks with a launcher, not with people",
                "gpuwarden run --hosts a,b -- COMMAND starts it on the hosts");
  const auto connection = context.environment.find("SSH_CONNECTION");
  const hosts::AgentOptions options{
      .machine = own_host_name(),
      .ssh_connection = connection == context.environment.end() ? "" : connection->second,
      .abandon = [] { ::_exit(kNo); },
  };
  GPUWARDEN_TRY(auto streams, hosts::AgentStreams::take_over());
  HostWork work(context.environment);
  return hosts::serve_launcher(std::move(streams), work, options, system_clock());
}

}  // namespace

constinit const Subcommand kHostAgentCommand{
    .name = "host-agent",
    .summary = "hold GPUs and run ranks for a launcher on another host",
    .usage = "gpuwarden host-agent",
    .groups = {},
    .rest = Rest::none,
    .details =
        "Started by gpuwarden run --hosts and gpuwarden list --hosts through ssh; it speaks messages on its "
        "standard streams and ends when its launcher does.",
    .hidden = true,
    .run = run_host_agent};

}  // namespace gpuwarden::cli
