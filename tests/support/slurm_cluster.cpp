// SPDX-License-Identifier: Apache-2.0
#include "support/slurm_cluster.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <ranges>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kServers[] = {"munged", "slurmctld", "slurmd"};
constexpr const char* kClients[] = {"sbatch", "srun", "scontrol", "sinfo", "squeue", "scancel"};
/// Source: squeue(1), JOB STATE CODES: those that nothing follows.
constexpr std::string_view kFinalStates[] = {"BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
                                             "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"};
constexpr int kTries = 3;  ///< a port may be taken between the look and the start

std::string user_name() {
  const passwd* const entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : fmt::to_string(::geteuid());
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return std::string(split(name, '.').front());
}

std::string random_key() {
  std::random_device source;
  std::string key(128, '\0');
  for (char& byte : key) byte = static_cast<char>(source());
  return key;
}

/// The value of `name=` in scontrol's one-line output.
std::string field(std::string_view text, std::string_view name) {
  for (const auto word : split(text, ' ')) {
    if (word.starts_with(name) && word.substr(name.size()).starts_with('='))
      return std::string(trim(word.substr(name.size() + 1)));
  }
  return {};
}

}  // namespace

bool SlurmCluster::is_installed() {
  const auto missing = [](const char* name) { return find_program(name).empty(); };
  return std::ranges::none_of(kServers, missing) && std::ranges::none_of(kClients, missing);
}

SlurmCluster::SlurmCluster(const SlurmNodes& nodes)
    : nodes_(nodes), work_(dir_ / "work"), environment_(current_environment()) {
  // A job around this test is not its own.
  std::erase_if(environment_, [](const auto& variable) {
    return variable.first.starts_with("SLURM") || variable.first.starts_with("SBATCH") ||
           variable.first.starts_with("CUDA_VISIBLE");
  });
  environment_["SLURM_CONF"] = (dir_ / "slurm.conf").string();
  fs::create_directories(work_);
}

Result<std::unique_ptr<SlurmCluster>> SlurmCluster::start(const SlurmNodes& nodes) {
  adopt_orphans();
  Result<void> started;
  for (int i = 0; i < kTries; ++i) {
    std::unique_ptr<SlurmCluster> cluster(new SlurmCluster(nodes));
    started = cluster->start_servers();
    if (started) return cluster;
  }
  return std::unexpected(started.error());
}

void SlurmCluster::configure(const std::vector<std::uint16_t>& ports) const {
  const std::string folder = dir_.path().string();
  const std::string user = user_name();
  std::string text = fmt::format(
      "ClusterName=test\nSlurmctldHost={0}(127.0.0.1)\nSlurmctldPort={1}\nSlurmUser={2}\nSlurmdUser={2}\n"
      "AuthType=auth/munge\nAuthInfo=socket={3}/munge.socket\nCredType=cred/munge\nMpiDefault=none\n"
      "StateSaveLocation={3}/state\nSlurmdSpoolDir={3}/%n\nSlurmctldPidFile={3}/slurmctld.pid\n"
      "SlurmdPidFile={3}/%n.pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nReturnToService=2\nMailProg=/"
      "bin/true\n"
      "SchedulerType=sched/builtin\nSelectType=select/"
      "cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
      "SlurmdParameters=config_overrides\nKillWait=2\nDefMemPerCPU=1000\nGresTypes=gpu\n",
      host_name(), ports.back(), user, folder);
  std::string gres;
  for (unsigned i = 0; i < nodes_.count; ++i) {
    text += fmt::format(
        "NodeName=node{} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs={} RealMemory={} Gres=gpu:{}:{} "
        "State=UNKNOWN\n",
        i, host_name(), ports[i], nodes_.cpus, nodes_.memory_mib, nodes_.gpu, nodes_.gpus);
    gres +=
        fmt::format("NodeName=node{} Name=gpu Type={} File={}/nvidia[0-{}]\n", i, nodes_.gpu, folder, nodes_.gpus - 1);
    fs::create_directories(dir_ / fmt::format("node{}", i));
  }
  text += fmt::format("PartitionName=gpu Nodes=ALL Default=YES {} State=UP\n", nodes_.partition);
  if (!nodes_.task_prolog.empty()) {
    text += fmt::format("TaskProlog={}/task_prolog\n", folder);
    put(dir_ / "task_prolog", nodes_.task_prolog);
    fs::permissions(dir_ / "task_prolog", fs::perms::owner_all);
  }
  put(dir_ / "slurm.conf", text);
  put(dir_ / "gres.conf", gres);
  fs::create_directories(dir_ / "state");
  // A device's number is the end of its name; slurmd asks that it be a device.
  for (unsigned i = 0; i < nodes_.gpus; ++i) fs::create_symlink("/dev/null", dir_ / fmt::format("nvidia{}", i));
}

void SlurmCluster::add(const std::string& program, std::vector<std::string> options, const std::string& log) {
  options.insert(options.begin(), find_program(program).string());
  servers_.push_back(std::make_unique<Daemon>(options, environment_, dir_ / (log + ".log")));
}

Result<void> SlurmCluster::failed(const std::string& what) const {
  std::string logs;
  for (const fs::path& path : list_directory(dir_.path())) {
    if (path.extension() == ".log") logs += fmt::format("\n{}: {}", path.filename().string(), read_file(path).value());
  }
  return fail(ErrorCode::unavailable, what, logs);
}

Result<void> SlurmCluster::start_servers() {
  configure(free_ports(nodes_.count + 1));
  put(dir_ / "munge.key", random_key());
  fs::permissions(dir_ / "munge.key", fs::perms::owner_read | fs::perms::owner_write);
  const auto file = [&](const char* option, const char* name) {
    return fmt::format("{}={}", option, (dir_ / name).string());
  };
  // --force: it asks that everybody can enter the folder of its socket.
  add("munged",
      {"--foreground", "--force", "--num-threads=2", file("--socket", "munge.socket"), file("--key-file", "munge.key"),
       file("--pid-file", "munge.pid"), file("--seed-file", "munge.seed"), file("--log-file", "munged.log")},
      "munged");
  if (!eventually(std::chrono::seconds(20), [&] { return fs::exists(dir_ / "munge.socket"); }))
    return failed("munged does not start");
  add("slurmctld", {"-D", "-f", environment_.at("SLURM_CONF")}, "slurmctld");
  if (!eventually(
          std::chrono::seconds(20),
          [&] { return !servers_.back()->runs() || run({"scontrol", "ping"}).standard_output.contains("is UP"); }) ||
      !servers_.back()->runs())
    return failed("slurmctld does not start");
  for (unsigned i = 0; i < nodes_.count; ++i) {
    const std::string name = fmt::format("node{}", i);
    add("slurmd", {"-D", "-f", environment_.at("SLURM_CONF"), "-N", name}, name);
  }
  const auto idle = [&] {
    const std::string text = run({"sinfo", "-h", "-N", "-o", "%t"}).standard_output;
    const auto states = split(text, '\n');
    return std::ranges::count(states, std::string_view("idle")) == static_cast<std::ptrdiff_t>(nodes_.count);
  };
  if (!eventually(std::chrono::seconds(30), idle)) return failed("the nodes do not register");
  return {};
}

std::size_t SlurmCluster::stop(std::chrono::seconds patience) {
  // A job's processes end with it; those that do not are adopted and killed.
  const bool answers = servers_.size() > 2 && servers_[1]->runs();
  if (answers && run({"scancel", "--full", "--signal=KILL", "--user=" + user_name()}).exit_code == 0)
    eventually(patience, [&] {
      const Completed left = run({"squeue", "-h"});
      return left.exit_code == 0 && left.standard_output.empty();
    });
  while (!servers_.empty()) servers_.pop_back();  // The last first.
  return end_children(patience);
}

bool SlurmCluster::is_over(std::string_view state) {
  return std::ranges::find(kFinalStates, state) != std::end(kFinalStates);
}

std::vector<pid_t> SlurmCluster::servers() const {
  std::vector<pid_t> pids;
  for (const auto& server : servers_) pids.push_back(server->pid());
  return pids;
}

Completed SlurmCluster::run(std::vector<std::string> argv) const {
  std::vector<std::string> words{"env", "-C", work_.string()};
  std::ranges::move(argv, std::back_inserter(words));
  auto done = run_patiently({.argv = std::move(words), .environment = environment_});
  return done ? std::move(*done) : Completed{.standard_error = done.error().message};
}

Result<std::string> SlurmCluster::submit(const fs::path& script, std::vector<std::string> options) const {
  options.insert(options.begin(), {"sbatch", "--parsable"});
  options.push_back(script.string());
  const Completed done = run(std::move(options));
  if (done.exit_code != 0) return fail(ErrorCode::unsatisfied, done.standard_error);
  return std::string(trim(done.standard_output));
}

SlurmJob SlurmCluster::wait(const std::string& id, std::chrono::seconds time) const {
  SlurmJob job;
  eventually(time, [&] {
    const std::string text = run({"scontrol", "show", "job", "-o", id}).standard_output;
    job.state = field(text, "JobState");
    job.exit_code = static_cast<int>(parse_integer(split(field(text, "ExitCode"), ':').front()).value_or(-1));
    return is_over(job.state);
  });
  return is_over(job.state) ? job : SlurmJob{};
}

}  // namespace gpuwarden::testing
