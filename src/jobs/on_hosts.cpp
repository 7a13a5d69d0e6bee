// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/on_hosts.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/hosts/choose.hpp"
#include "gpuwarden/hosts/look.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/launch/job.hpp"
#include "jobs/meaningless.hpp"

namespace gpuwarden::jobs {
namespace {

constexpr auto kLaunchers = std::to_array<std::string_view>(
    {"log-dir", "redirects", "tee", "report", "post-mortem", "no-report", "max-restarts", "heal", "restart-delay",
     "restart-arg", "master-addr", "master-port", "nnodes", "rdzv-backend", "time-limit", "signal"});
/// What names the hosts, and what each of them is told by itself.
constexpr auto kNotSent = std::to_array<std::string_view>(
    {"hosts", "hostfile", "ssh", "remote-program", "chdir", "env", "num-gpus", "gpus", "quiet", "color"});

constexpr Meaningless kOnHosts[] = {
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
};
constexpr Meaningless kRangesOnHosts[] = {
    {"num-gpus", "-n 4, or a:4,b:2 for each host its own"},
    {"nproc-per-node", "--nproc-per-node N, or gpu for a rank of each GPU"},
    {"nnodes", "all of the hosts take part: leave --nnodes out"},
};

Result<void> check_on_hosts(const NamedValues& values) {
  const char* const given = values.has("hosts") ? "hosts" : "hostfile";
  for (const auto& [name, hint] : kOnHosts) {
    if (values.has(name)) return values.refuse(fmt::format("--{} and --{} cannot be used together", given, name), hint);
  }
  for (const auto& [name, hint] : kRangesOnHosts) {
    if (values.text(name).value_or("").contains(':'))
      return values.refuse(fmt::format("--{} and a range of --{} cannot be used together", given, name), hint);
  }
  return {};
}

/// A number of a host's own, "b:4", and another word about its GPUs.
std::unexpected<Error> refuse_number(const NamedValues& values, const hosts::Host& host, const char* other,
                                     const char* hint = "leave out one of the two") {
  return values.refuse(fmt::format("{}:{} and --{} cannot be used together", host.name, *host.gpus, other), hint);
}

/// A number for all hosts together leaves none to single ones.
Result<void> check_total(const NamedValues& values, const std::vector<hosts::Host>& hosts) {
  static constexpr Clash kClashes[] = {
      {"gpus", "num-gpus", "--gpus counts those of all hosts together, -n those of each"},
      {"gpus", "gpu-ids", "they are chosen: leave out one of the two"},
      {"gpus", "all", "leave out one of the two"},
      {"gpus", "nnodes", "as few of the hosts take part as have so many"},
      {"gpus", "model", "a model is for one machine's GPUs: -n for each host"},
      {"gpus", "model-size", "a model is for one machine's GPUs: -n for each host"},
  };
  GPUWARDEN_CHECK(check_clashes(values, kClashes));
  for (const hosts::Host& host : hosts) {
    if (host.gpus) return refuse_number(values, host, "gpus", "leave out the numbers of single hosts");
  }
  if (values.text("device") == "cpu")
    return values.refuse("--gpus and --device cpu cannot be used together", "leave out one of the two");
  return {};
}

/// How many GPUs each host is asked for: its own number, else that of "num-gpus".
Result<void> check_counts(const NamedValues& values, const std::vector<hosts::Host>& hosts) {
  GPUWARDEN_TRY(const auto nodes, count_option(values, "nnodes", 65536));
  if (nodes && *nodes != hosts.size())
    return values.refuse(fmt::format("--nnodes {}, but {} are given", *nodes,
                                     hosts.size() == 1 ? "1 host" : fmt::format("{} hosts", hosts.size())),
                         "leave --nnodes out");
  GPUWARDEN_TRY(const auto count, count_option(values, "num-gpus", 4096));
  std::size_t counted = 0;
  for (const hosts::Host& host : hosts) {
    if (!host.gpus) continue;
    ++counted;
    for (const char* other : {"gpu-ids", "all"}) {
      if (values.has(other)) return refuse_number(values, host, other);
    }
    if (values.text("device") == "cpu") return refuse_number(values, host, "device cpu");
  }
  if (count && counted == hosts.size())
    return values.refuse(fmt::format("-n {} is for hosts without a number of their own, and each has one", *count),
                         "leave out -n, or the numbers");
  return {};
}

/// With "gpus" those that have so many together, each with its share.
Result<std::vector<hosts::Host>> chosen_hosts(const NamedValues& values, const HostsRequest& request,
                                              std::vector<hosts::Host> named, const hosts::SshOptions& ssh) {
  GPUWARDEN_TRY(const auto count, count_option(values, "gpus", 1000000));
  if (!count) return named;
  GPUWARDEN_CHECK(check_total(values, named));
  GPUWARDEN_TRY(const placement::Request gpus, request.gpus());
  hosts::LookRequest look{.hosts = named, .version = request.version, .ssh = ssh};
  for (const char* name : {"simulate", "timeout", "probe"}) {
    if (const auto value = values.text(name)) look.options.push_back(fmt::format("--{}={}", name, *value));
  }
  GPUWARDEN_TRY(const auto timeout, duration_option(values, "timeout"));
  if (timeout) look.patience += *timeout;
  const auto links = hosts::start_links();
  GPUWARDEN_TRY(const auto nodes, hosts::look(look, *links, system_clock()));
  GPUWARDEN_TRY(const auto chosen, hosts::choose_hosts(named, nodes, {.gpus = gpus, .count = *count}));
  for (const std::string& host : chosen.left_out) {
    if (request.warning) request.warning(fmt::format("left out: {}", host));
  }
  return chosen.hosts;
}

Result<void> fill_orders(const NamedValues& values, const HostsRequest& request, const std::vector<hosts::Host>& hosts,
                         hosts::JobOnHosts& job) {
  hosts::Order order;
  order.nodes = static_cast<std::uint32_t>(hosts.size());
  order.options = request.options;
  order.command = request.argv;
  const auto variables = hosts::parse_variables(values.all("env"), request.environment);
  if (!variables) return std::unexpected(values.about("env", variables.error()));
  order.environment = *variables;
  std::error_code ignored;
  order.needs_folder = values.has("chdir");
  order.folder = values.text("chdir").value_or(std::filesystem::current_path(ignored).string());
  for (const hosts::Host& host : hosts) {
    hosts::Order own = order;
    own.run_id = fmt::format("{}-{}", job.run_id, job.hosts.size());
    const auto count = host.gpus ? std::optional(std::to_string(*host.gpus)) : values.text("num-gpus");
    if (count) own.options.push_back("--num-gpus=" + *count);
    job.hosts.push_back({host, std::move(own)});
  }
  return {};
}

/// What the launcher does by itself: the output's logs, restarts, the job's time.
Result<void> read_launchers(const NamedValues& values, const HostsRequest& request, hosts::JobOnHosts& job) {
  GPUWARDEN_TRY(const auto port, count_option(values, "master-port", 65535));
  if (port && *port > 0) job.master_port = static_cast<std::uint16_t>(*port);
  job.master_address = values.text("master-addr");
  job.one_by_one = values.has("wait");
  job.log_directory = values.text("log-dir");
  GPUWARDEN_TRY(job.redirects, streams_from(values, "redirects"));
  GPUWARDEN_TRY(job.tee, streams_from(values, "tee"));
  if (!job.log_directory && !(job.redirects.none() && job.tee.none()))
    return values.refuse("--redirects and --tee need --log-dir with --hosts");
  GPUWARDEN_TRY(const auto grace, duration_option(values, "grace"));
  job.grace = grace.value_or(job.grace);
  GPUWARDEN_TRY(job.restarts, restart_policy_from(values));
  GPUWARDEN_CHECK(time_limit_from(values, request.environment, system_clock()));
  // It begins when the ranks do.
  job.time_limit = [values, environment = request.environment] {
    return time_limit_from(values, environment, system_clock()).value_or(launch::TimeLimit{});
  };
  GPUWARDEN_CHECK(run_options_from(values));  // wrong ones are told before any host is asked
  return {};
}

}  // namespace

bool names_hosts(const NamedValues& values) { return values.has("hosts") || values.has("hostfile"); }

Result<std::vector<hosts::Host>> hosts_from(const NamedValues& values) {
  static constexpr Clash kClashes[] = {{"hosts", "hostfile", "name the hosts in one place"}};
  GPUWARDEN_CHECK(check_clashes(values, kClashes));
  if (const auto file = values.text("hostfile")) {
    auto text = read_file(*file, std::size_t{1} << 20U);
    if (!text) return std::unexpected(values.about("hostfile", text.error()));
    return hosts::parse_hostfile(*text, *file);
  }
  auto found = hosts::parse_hosts(values.list("hosts"));
  if (!found) return std::unexpected(values.about("hosts", found.error()));
  return found;
}

Result<hosts::SshOptions> ssh_from(const NamedValues& values, const Environment& environment) {
  hosts::SshOptions options;
  options.ssh = values.text("ssh").value_or(options.ssh);
  options.program = values.text("remote-program").value_or(options.program);
  const auto words = split_words(options.ssh);
  if (words.empty()) return values.refuse("--ssh: no command is given", "--ssh \"ssh -p 2222\"");
  if (options.program.empty()) return values.refuse("--remote-program: no program is given");
  // What a shell would make something else of is left to it.
  const std::string program(words[0]);
  if (program.find_first_of("'\"\\$~`") != std::string::npos) return options;
  if (auto found = launch::check_program(program, environment); !found) {
    found.error().hint = program == "ssh" ? "sudo apt install openssh-client" : values.spelled("check --ssh");
    return std::unexpected(std::move(found).error());
  }
  return options;
}

std::vector<std::string_view> launchers_names() { return {kLaunchers.begin(), kLaunchers.end()}; }

std::vector<std::string_view> names_kept_from_hosts() {
  std::vector<std::string_view> names(kNotSent.begin(), kNotSent.end());
  names.insert(names.end(), kLaunchers.begin(), kLaunchers.end());
  return names;
}

Result<hosts::JobOnHosts> job_on_hosts_from(const NamedValues& values, const HostsRequest& request) {
  GPUWARDEN_CHECK(check_on_hosts(values));
  if (request.argv.empty())
    return fail(ErrorCode::invalid_argument, "no command to run was given",
                "gpuwarden run --hosts a,b -- python train.py");
  hosts::JobOnHosts job;
  job.version = request.version;
  job.run_id = launch::make_run_id();
  GPUWARDEN_TRY(auto named, hosts_from(values));
  GPUWARDEN_TRY(job.ssh, ssh_from(values, request.environment));
  GPUWARDEN_CHECK(check_counts(values, named));
  GPUWARDEN_CHECK(read_launchers(values, request, job));
  GPUWARDEN_TRY(const auto hosts, chosen_hosts(values, request, std::move(named), job.ssh));
  GPUWARDEN_CHECK(fill_orders(values, request, hosts, job));
  return job;
}

}  // namespace gpuwarden::jobs
