// SPDX-License-Identifier: Apache-2.0
// gpuwarden host-agent: what `run --hosts` and `list --hosts` start on each host; it does what these do on one machine.
#include <unistd.h>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/host_name.hpp"
#include "gpuwarden/jobs/host_work.hpp"
#include "gpuwarden/jobs/on_hosts.hpp"
#include "run/other_launchers.hpp"
#include "run/report_text.hpp"

namespace gpuwarden::cli {
namespace {

/// An order, as `run` reads a command line.
class OrderReader {
 public:
  Result<jobs::OrderedJob> read(const hosts::Order& order, const Environment& environment) {
    GPUWARDEN_TRY(Args args, parse_arguments(kRunCommand, order.options));
    args.rest = order.command;
    context_ = Context{std::move(args), environment, &kRunCommand, order.options};
    GPUWARDEN_TRY(selection_, read_selection(context_));
    if (selection_.least)
      return fail(ErrorCode::invalid_argument, "a range of GPUs is for one machine", "name one number for each host");
    // The host's copy of a --config may say what the launcher heeds for all hosts.
    for (const std::string_view key : jobs::launchers_names()) context_.args.forget(std::string(key));
    GPUWARDEN_TRY(jobs::Job job, read_job(context_, selection_));
    GPUWARDEN_CHECK(launch::check_program(job.plan.job.argv[0], environment));
    job.plan.job.record_directory = lease_directory(context_);
    GPUWARDEN_TRY(auto knowledge, open_knowledge(context_));
    GPUWARDEN_TRY(Machine machine, open_machine(context_));
    return jobs::OrderedJob{std::move(job), std::move(knowledge), std::move(machine)};
  }
  Error refusal(const Error& error) const { return refusal_of(context_.args, selection_, error); }
  /// Without its head, which the launcher says for all hosts.
  std::string text(const launch::RunReport& report, const healing::Attempt* failed) const {
    const std::string whole = run_report_text(report);
    const std::size_t first = whole.find("\n  ");
    const std::string lines = first == std::string::npos ? "" : whole.substr(first + 1);
    const auto style = style_of(context_);
    return failed != nullptr && style ? lines + attempt_text(*failed, true, *style) : lines;
  }

 private:
  Context context_;
  Selection selection_;
};

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
  OrderReader orders;
  const auto open = [&](const std::vector<std::string>& words) -> Result<Machine> {
    GPUWARDEN_TRY(Args args, parse_arguments(kListCommand, words));
    return open_machine(Context{std::move(args), context.environment, &kListCommand, words});
  };
  const auto work = jobs::make_host_work(
      context.environment,
      {.read = [&](const auto& order, const auto& environment) { return orders.read(order, environment); },
       .open = open,
       .text = [&](const auto& report, const auto* failed) { return orders.text(report, failed); },
       .refusal = [&](const Error& error) { return orders.refusal(error); }});
  return hosts::serve_launcher(std::move(streams), *work, options, system_clock());
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
