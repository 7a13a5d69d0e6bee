// SPDX-License-Identifier: Apache-2.0
// Hosts with a real OpenSSH server each, in network namespaces behind a bridge of their own: "a", "b", "c" ... They
// share this machine's processes and files; network, name, /run and with it leases are each host's own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "support/daemon.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {

class SshHosts {
 public:
  /// Why there can be none here (no root, no namespaces, a program that is not installed); empty: there can.
  static std::string problem();
  /// Starts so many and waits until each takes connections. Fails with unavailable.
  static Result<std::unique_ptr<SshHosts>> start(unsigned count);
  SshHosts(const SshHosts&) = delete;
  SshHosts& operator=(const SshHosts&) = delete;
  /// Ends every process in the namespaces and removes these.
  ~SshHosts();

  /// Runs a program in the namespace of the bridge, from where all hosts are reached.
  Completed run(std::vector<std::string> argv) const;
  /// The words that start a program there, for those who start it themselves.
  std::vector<std::string> there(std::vector<std::string> argv) const;
  /// The ssh that reaches "a", "b" ...: for --ssh.
  const std::string& ssh() const { return ssh_; }
  /// "10.77.0.1" of "a".
  static std::string address(char host);
  /// The command lines of what runs there, a blank between words.
  std::vector<std::string> programs(char host) const;
  /// Takes its cable out, or puts it back.
  void set_link(char host, bool up) const;

 private:
  SshHosts() = default;
  Result<void> make_network(unsigned count);
  Result<void> make_keys(unsigned count);
  Result<void> start_server(char host);
  std::string space(char host) const { return prefix_ + host; }

  TempDir dir_;
  std::string prefix_;
  std::string hub_;
  std::string ssh_;
  std::vector<std::string> spaces_;
  std::vector<std::unique_ptr<Daemon>> servers_;
};

}  // namespace gpuwarden::testing
