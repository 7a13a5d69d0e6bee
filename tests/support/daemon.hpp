// SPDX-License-Identifier: Apache-2.0
// Servers of a test: other people's programs that run beside it and end with it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/patience.hpp"

namespace gpuwarden::testing {

/// The program's path: from PATH, else from where Debian keeps servers; empty where it is not installed.
std::filesystem::path find_program(const std::string& name);

/// TCP ports that nobody listens on just now, all different; not of those that the kernel hands out to connections.
std::vector<std::uint16_t> free_ports(std::size_t count);

/// A program that runs in the foreground. It is ended with this object, and killed if the test dies.
class Daemon {
 public:
  /// argv[0] is a path. What it prints goes to `log`. Throws std::runtime_error where no process can be made; a program
  /// that cannot be started ends with code 127.
  Daemon(const std::vector<std::string>& argv, const Environment& environment, const std::filesystem::path& log);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon() { stop(); }

  pid_t pid() const { return pid_; }
  bool runs();
  /// SIGTERM, and SIGKILL if that is not heeded.
  void stop();

 private:
  pid_t pid_ = -1;
};

/// From now on orphans among this process's descendants become its children, so that none is lost.
void adopt_orphans();
/// Kills every child of this process and waits for them; how many there were that still ran when `patience` was over.
/// For the end of a test.
std::size_t end_children(std::chrono::milliseconds patience = {});

}  // namespace gpuwarden::testing
