// SPDX-License-Identifier: Apache-2.0
#include "support/ssh_hosts.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {
namespace {

/// Everything or the first failure's words.
Result<void> do_all(const std::vector<std::string>& commands) {
  for (const std::string& command : commands) {
    const auto done = run_patiently({.argv = {"sh", "-c", command}});
    if (!done) return std::unexpected(done.error());
    if (done->exit_code != 0)
      return fail(ErrorCode::unavailable, fmt::format("{}: {}", command, trim(done->standard_error)));
  }
  return {};
}

}  // namespace

std::string SshHosts::problem() {
  if (::geteuid() != 0) return "network namespaces need root";
  for (const char* program : {"ip", "sshd", "ssh", "ssh-keygen", "unshare", "mount"}) {
    if (find_program(program).empty()) return fmt::format("{} is not installed", program);
  }
  const std::string name = fmt::format("gwt{}", ::getpid());
  const auto made = do_all({"ip netns add " + name, "ip -n " + name + " link add br0 type bridge"});
  [[maybe_unused]] const auto removed = do_all({"ip netns del " + name});
  return made ? "" : made.error().message;
}

std::string SshHosts::address(char host) { return fmt::format("10.77.0.{}", host - 'a' + 1); }

Result<std::unique_ptr<SshHosts>> SshHosts::start(unsigned count) {
  std::unique_ptr<SshHosts> hosts(new SshHosts);
  hosts->prefix_ = fmt::format("gw{}-", ::getpid());
  hosts->hub_ = hosts->prefix_ + "hub";
  GPUWARDEN_CHECK(hosts->make_network(count));
  GPUWARDEN_CHECK(hosts->make_keys(count));
  for (unsigned i = 0; i < count; ++i) GPUWARDEN_CHECK(hosts->start_server(static_cast<char>('a' + i)));
  return hosts;
}

Result<void> SshHosts::make_network(unsigned count) {
  spaces_.push_back(hub_);
  const std::string hub = "ip -n " + hub_ + " ";
  GPUWARDEN_CHECK(do_all({"ip netns add " + hub_, hub + "link add br0 type bridge",
                          hub + "addr add 10.77.0.254/24 dev br0", hub + "link set br0 up", hub + "link set lo up"}));
  for (unsigned i = 0; i < count; ++i) {
    const char name = static_cast<char>('a' + i);
    spaces_.push_back(space(name));
    const std::string own = "ip -n " + space(name) + " ";
    GPUWARDEN_CHECK(do_all({"ip netns add " + space(name),
                            fmt::format("{}link add port-{} type veth peer name eth0 netns {}", hub, name, space(name)),
                            fmt::format("{}link set port-{} master br0 up", hub, name),
                            fmt::format("{}addr add {}/24 dev eth0", own, address(name)), own + "link set eth0 up",
                            own + "link set lo up"}));
  }
  return {};
}

Result<void> SshHosts::make_keys(unsigned count) {
  const auto at = [&](const char* name) { return shell_word((dir_ / name).string()); };
  GPUWARDEN_CHECK(do_all(
      {"ssh-keygen -q -t ed25519 -N '' -f " + at("host_key"), "ssh-keygen -q -t ed25519 -N '' -f " + at("user_key")}));
  const auto key = read_file(dir_ / "host_key.pub");
  if (!key) return std::unexpected(key.error());
  std::string known;
  std::string config;
  for (unsigned i = 0; i < count; ++i) {
    const char name = static_cast<char>('a' + i);
    known += fmt::format("{} {}", address(name), *key);
    config += fmt::format("Host {}\n  HostName {}\n", name, address(name));
  }
  put(dir_ / "known_hosts", known);
  put(dir_ / "ssh_config",
      config + fmt::format("Host *\n  User root\n  IdentityFile {0}/user_key\n  IdentitiesOnly yes\n"
                           "  UserKnownHostsFile {0}/known_hosts\n  GlobalKnownHostsFile none\n"
                           "  StrictHostKeyChecking yes\n",
                           dir_.path().string()));
  ssh_ = "ssh -F " + at("ssh_config");
  return {};
}

Result<void> SshHosts::start_server(char host) {
  const std::string folder = (dir_ / std::string(1, host)).string();
  put(folder + "/sshd_config",
      fmt::format(
          "ListenAddress {0}\nPort 22\nHostKey {1}/host_key\nAuthorizedKeysFile {1}/user_key.pub\nStrictModes no\n"
          "UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\nPidFile none\nMaxStartups 100\n"
          "SetEnv GPUWARDEN_SIM_DIR={2}/sim GPUWARDEN_STATE_DIR={2}/state GPUWARDEN_MEMORY_DIR={2}/pools "
          "GPUWARDEN_KNOWLEDGE_PATH={2}/knowledge\n",
          address(host), dir_.path().string(), folder));
  // A name and a /run of its own: leases lie there.
  const std::string script = fmt::format(
      "mount -t tmpfs tmpfs /run && mkdir -p /run/sshd /run/lock && hostname host-{} && exec {} -D -e -f "
      "{}/sshd_config",
      host, find_program("sshd").string(), shell_word(folder));
  servers_.push_back(std::make_unique<Daemon>(
      std::vector<std::string>{find_program("ip").string(), "netns", "exec", space(host), "unshare", "-mu",
                               "--propagation", "private", "sh", "-c", script},
      current_environment(), folder + "/sshd.log"));
  const auto answers = [&] {
    const auto done = run_command({.argv = there({"sh", "-c", ssh_ + " -o BatchMode=yes " + host + " true"})});
    return done && done->exit_code == 0;
  };
  if (eventually(kSoon, answers)) return {};
  return fail(ErrorCode::unavailable, "sshd does not answer: " + read_file(folder + "/sshd.log").value_or(""));
}

std::vector<std::string> SshHosts::there(std::vector<std::string> argv) const {
  argv.insert(argv.begin(), {"ip", "netns", "exec", hub_});
  return argv;
}

Completed SshHosts::run(std::vector<std::string> argv) const {
  auto done = run_patiently({.argv = there(std::move(argv))});
  return done.value_or(Completed{});
}

std::vector<std::string> SshHosts::programs(char host) const {
  std::vector<std::string> all;
  const auto pids = run_command({.argv = {"ip", "netns", "pids", space(host)}});
  for (const auto pid : split_words(pids ? pids->standard_output : "")) {
    std::string line = read_file(fmt::format("/proc/{}/cmdline", pid)).value_or("");
    std::ranges::replace(line, '\0', ' ');
    if (!line.empty()) all.push_back(std::move(line));
  }
  return all;
}

void SshHosts::set_link(char host, bool up) const {
  [[maybe_unused]] const auto done =
      do_all({fmt::format("ip -n {} link set port-{} {}", hub_, host, up ? "up" : "down")});
}

SshHosts::~SshHosts() {
  servers_.clear();
  for (const std::string& space : spaces_) {
    const auto pids = run_command({.argv = {"ip", "netns", "pids", space}});
    for (const auto word : split_words(pids ? pids->standard_output : "")) {
      if (const auto pid = parse_integer(word); pid && *pid > 1) ::kill(static_cast<pid_t>(*pid), SIGKILL);
    }
    [[maybe_unused]] const auto removed = do_all({"ip netns del " + space});
  }
}

}  // namespace gpuwarden::testing
