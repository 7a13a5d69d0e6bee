// SPDX-License-Identifier: Apache-2.0
#include "hosts/run_on_hosts.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/hosts/choose.hpp"
#include "gpuwarden/hosts/look.hpp"
#include "gpuwarden/hosts/run.hpp"
#include "gpuwarden/launch/job.hpp"
#include "hosts/hosts_text.hpp"
#include "options.hpp"
#include "run/lasting.hpp"
#include "run/report_text.hpp"
#include "run/request.hpp"

namespace gpuwarden::cli {
namespace {

/// What names the hosts and what each of them is told by itself; the rest is sent as it is.
constexpr auto kNotSent = std::to_array<std::string_view>(
    {"hosts", "hostfile", "ssh", "remote-program", "chdir", "env", "num-gpus", "gpus", "quiet", "color"});

std::vector<std::string> words_for_hosts(const Context& context) {
  std::vector<std::string_view> own(kNotSent.begin(), kNotSent.end());
  own.insert(own.end(), kLaunchersOptions.begin(), kLaunchersOptions.end());
  return option_words(context, own);
}

/// What means nothing together, and what to do instead.
Result<void> check_with_hosts(const Args& args) {
  static constexpr auto kOthers = std::to_array<std::pair<const char*, const char*>>({
      {"slurm", "--slurm lets Slurm choose the nodes"},
      {"standalone", "--standalone is one node"},
      {"node-rank", "the order of the hosts says which node each is"},
      {"rdzv-endpoint", "the first host is where they meet; --master-addr and --master-port name the place"},
      {"rdzv-id", "the run has an id of its own"},
      {"straggler", "a GPU that is far behind is warned of on the hosts"},
      {"rdzv-conf", "nothing is started before all hosts have answered: --wait waits for their GPUs"},
      {"local-ranks-filter", "--log-dir DIR --redirects 3 --tee 0:3 shows the first rank of each host alone"},
      {"record", "gpuwarden serve --peers shows what the GPUs of many machines do"},
      {"status", "gpuwarden list --hosts shows what their GPUs do, --report what the job came to"},
      {"checkpoint", "a job on several hosts keeps its number of ranks"},
      {"probation", "a GPU that was at fault is not used again by the job"},
      {"cpu-fallback", "--device cpu runs on the CPUs of all hosts"},
      {"end-leftovers", "run it on the host itself: ssh HOST gpuwarden run --end-leftovers RUN"},
  });
  static constexpr auto kRanges = std::to_array<std::pair<const char*, const char*>>({
      {"num-gpus", "-n 4, or a:4,b:2 for each host its own"},
      {"nproc-per-node", "--nproc-per-node N, or gpu for a rank of each GPU"},
      {"nnodes", "all of the hosts take part: leave --nnodes out"},
  });
  const char* const given = args.has("hosts") ? "hosts" : "hostfile";
  for (const auto& [option, hint] : kOthers) {
    if (args.has(option))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} and --{} cannot be used together", given, option),
                  hint);
  }
  for (const auto& [option, hint] : kRanges) {
    if (args.text(option).value_or("").contains(':'))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--{} and a range of --{} cannot be used together", given, option), hint);
  }
  return {};
}

/// A number for all hosts together leaves none to single ones.
Result<void> check_total(const Args& args, const std::vector<hosts::Host>& hosts) {
  static constexpr auto kClashes = std::to_array<Clash>({
      {"gpus", "num-gpus", "--gpus counts those of all hosts together, -n those of each"},
      {"gpus", "gpu-ids", "they are chosen: leave out one of the two"},
      {"gpus", "all", "leave out one of the two"},
      {"gpus", "nnodes", "as few of the hosts take part as have so many"},
      {"gpus", "model", "a model is for one machine's GPUs: -n for each host"},
      {"gpus", "model-size", "a model is for one machine's GPUs: -n for each host"},
  });
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  for (const hosts::Host& host : hosts) {
    if (host.gpus)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}:{} and --gpus cannot be used together", host.name, *host.gpus),
                  "leave out the numbers of single hosts");
  }
  if (args.text("device") == "cpu")
    return fail(ErrorCode::invalid_argument, "--gpus and --device cpu cannot be used together",
                "leave out one of the two");
  return {};
}

/// With --gpus those that have so many together, each with its share.
Result<std::vector<hosts::Host>> hosts_with_gpus(const Context& context, std::vector<hosts::Host> named,
                                                 const hosts::SshOptions& ssh) {
  static constexpr auto kAsked = std::to_array<const char*>({"simulate", "timeout", "probe"});
  GPUWARDEN_TRY(const auto count, count_option(context.args, "gpus", 1000000));
  if (!count) return named;
  GPUWARDEN_CHECK(check_total(context.args, named));
  Context one = context;
  one.args.forget("gpus");
  one.args.forget("nproc-per-node");  // --gpus says how many GPUs there are
  GPUWARDEN_TRY(const Selection selection, read_selection(one));
  hosts::LookRequest look{.hosts = named, .version = GPUWARDEN_VERSION, .ssh = ssh};
  for (const char* option : kAsked) {
    if (const auto value = context.args.text(option)) look.options.push_back(fmt::format("--{}={}", option, *value));
  }
  GPUWARDEN_TRY(const auto timeout, duration_option(context.args, "timeout"));
  if (timeout) look.patience += *timeout;
  const auto links = hosts::start_links();
  GPUWARDEN_TRY(const auto nodes, hosts::look(look, *links, system_clock()));
  GPUWARDEN_TRY(const auto chosen, hosts::choose_hosts(named, nodes, {.gpus = selection.request, .count = *count}));
  for (const std::string& host : chosen.left_out) warn(fmt::format("left out: {}", host));
  return chosen.hosts;
}

/// How many GPUs each host is asked for: its own number, else that of -n.
Result<void> check_counts(const Args& args, const std::vector<hosts::Host>& hosts) {
  const auto wrong = [](std::string what, std::string hint) {
    return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
  };
  GPUWARDEN_TRY(const auto nodes, count_option(args, "nnodes", 65536));
  if (nodes && *nodes != hosts.size())
    return wrong(fmt::format("--nnodes {}, but {} are given", *nodes,
                             hosts.size() == 1 ? "1 host" : fmt::format("{} hosts", hosts.size())),
                 "leave --nnodes out");
  GPUWARDEN_TRY(const auto count, count_option(args, "num-gpus", 4096));
  std::size_t counted = 0;
  for (const hosts::Host& host : hosts) {
    if (!host.gpus) continue;
    ++counted;
    for (const char* option : {"gpu-ids", "all"}) {
      if (args.has(option))
        return wrong(fmt::format("{}:{} and --{} cannot be used together", host.name, *host.gpus, option),
                     "leave out one of the two");
    }
    if (args.text("device") == "cpu")
      return wrong(fmt::format("{}:{} and --device cpu cannot be used together", host.name, *host.gpus),
                   "leave out one of the two");
  }
  if (count && counted == hosts.size())
    return wrong(fmt::format("-n {} is for hosts without a number of their own, and each has one", *count),
                 "leave out -n, or the numbers");
  return {};
}

Result<void> fill_orders(const Context& context, const std::vector<hosts::Host>& hosts, hosts::JobOnHosts& job) {
  hosts::Order order;
  order.nodes = static_cast<std::uint32_t>(hosts.size());
  order.options = words_for_hosts(context);
  order.command = context.args.rest;
  const auto variables = hosts::parse_variables(context.args.all("env"), context.environment);
  if (!variables) return std::unexpected(about("env", variables.error()));
  order.environment = *variables;
  std::error_code ignored;
  order.needs_folder = context.args.has("chdir");
  order.folder = context.args.text("chdir").value_or(std::filesystem::current_path(ignored).string());
  for (const hosts::Host& host : hosts) {
    hosts::Order own = order;
    own.run_id = fmt::format("{}-{}", job.run_id, job.hosts.size());
    const auto count = host.gpus ? std::optional(std::to_string(*host.gpus)) : context.args.text("num-gpus");
    if (count) own.options.push_back("--num-gpus=" + *count);
    job.hosts.push_back({host, std::move(own)});
  }
  return {};
}

Result<hosts::JobOnHosts> read_job(const Context& context) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_with_hosts(args));
  if (args.rest.empty())
    return fail(ErrorCode::invalid_argument, "no command to run was given",
                "gpuwarden run --hosts a,b -- python train.py");
  hosts::JobOnHosts job;
  job.version = GPUWARDEN_VERSION;
  job.run_id = launch::make_run_id();
  GPUWARDEN_TRY(const auto named, read_hosts(args));
  GPUWARDEN_TRY(job.ssh, read_ssh(context));
  GPUWARDEN_CHECK(check_counts(args, named));
  GPUWARDEN_TRY(const auto port, count_option(args, "master-port", 65535));
  if (port && *port > 0) job.master_port = static_cast<std::uint16_t>(*port);
  job.master_address = args.text("master-addr");
  job.one_by_one = args.has("wait");
  job.log_directory = args.text("log-dir");
  GPUWARDEN_TRY(job.redirects, streams_option(args, "redirects"));
  GPUWARDEN_TRY(job.tee, streams_option(args, "tee"));
  if (!job.log_directory && !(job.redirects.none() && job.tee.none()))
    return fail(ErrorCode::invalid_argument, "--redirects and --tee need --log-dir with --hosts");
  GPUWARDEN_TRY(const auto grace, duration_option(args, "grace"));
  job.grace = grace.value_or(job.grace);
  GPUWARDEN_TRY(job.restarts, read_policy(args));
  GPUWARDEN_CHECK(read_time_limit(context));
  // It begins when the ranks do.
  job.time_limit = [context] { return read_time_limit(context).value_or(launch::TimeLimit{}); };
  GPUWARDEN_CHECK(read_run_options(args));  // wrong ones are told before any host is asked
  GPUWARDEN_TRY(const auto hosts, hosts_with_gpus(context, named, job.ssh));
  GPUWARDEN_CHECK(fill_orders(context, hosts, job));
  return job;
}

int write_report(const Context& context, const hosts::HostsReport& report, const hosts::JobOnHosts& job) {
  const int code = report.last.exit_code == 0 && report.lost_output ? kNo : report.last.exit_code;
  std::vector<ReportFile> files;
  if (const auto file = context.args.text("report"))
    files.push_back({*file, facts::json_text(hosts::to_json(report, job))});
  if (const auto file = context.args.text("post-mortem"); file && code != kFine) {
    const auto first_failed = hosts::post_mortem_of(report.last);
    if (first_failed)
      files.push_back({*file, facts::json_text(*first_failed)});
    else
      warn(fmt::format("no host has told why it failed: {} is not written", printable(*file)));
  }
  return write_reports(files, code);
}

}  // namespace

Result<int> run_on_hosts(Context& context) {
  GPUWARDEN_CHECK(fall_back_to_run_config(context));
  GPUWARDEN_TRY(const auto job, read_job(context));
  const bool quiet = context.args.has("quiet");
  hosts::HostsHooks hooks;
  std::string unsaid;
  hooks.warning = [&](const std::string& text) { unsaid += warning_line(text); };
  hooks.starting = [&](const std::vector<hosts::HostEnd>& hosts, const hosts::Start& first) {
    if (!quiet) unsaid += hosts_start_text(hosts, first);
  };
  hooks.failed = [&](const hosts::HostsTry& one) {
    if (!quiet && job.restarts.max_restarts > 0) unsaid += hosts_try_text(one);
  };
  hooks.to_tell = [&] { return std::exchange(unsaid, {}); };
  const auto links = hosts::start_links();
  GPUWARDEN_TRY(const auto report, hosts::run_on_hosts(job, *links, hooks, system_clock()));
  if (!quiet && !context.args.has("no-report")) say("{}", hosts_report_text(report));
  return write_report(context, report, job);
}

}  // namespace gpuwarden::cli
