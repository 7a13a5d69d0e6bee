// SPDX-License-Identifier: Apache-2.0
#include "support/daemon.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <thread>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {
namespace {

namespace fs = std::filesystem;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Everything a child needs is made before the fork.
[[noreturn]] void become(const std::vector<char*>& argv, const std::vector<char*>& environment, int log) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execve(argv.front(), argv.data(), environment.data());
  ::_exit(127);
}

bool is_child(const fs::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  std::getline(file, text);
  // pid (name) state parent ...; a name may hold anything.
  const auto end = text.rfind(')');
  if (end == std::string::npos || end + 4 > text.size()) return false;
  const auto parent = split(std::string_view(text).substr(end + 4), ' ').front();
  return parse_integer(parent) == ::getpid();
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto pid = parse_integer(entry.path().filename().string());
    if (pid && is_child(entry.path())) found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

}  // namespace

fs::path find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::string folders = std::string(path != nullptr ? path : "") + ":/usr/sbin:/sbin";
  for (const auto folder : split(folders, ':')) {
    const fs::path candidate = fs::path(folder) / name;
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

std::vector<std::uint16_t> free_ports(std::size_t count) {
  std::vector<int> sockets;
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i < count; ++i) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (socket < 0 || ::bind(socket, plain, size) != 0 || ::getsockname(socket, plain, &size) != 0)
      throw std::runtime_error("no free port on 127.0.0.1");
    sockets.push_back(socket);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : sockets) ::close(socket);
  return ports;
}

bool eventually(std::chrono::milliseconds time, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

Daemon::Daemon(const std::vector<std::string>& argv, const Environment& environment, const fs::path& log) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const auto words = pointers(argv);
  const auto settings = pointers(variables);
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  pid_ = ::fork();
  if (pid_ == 0) become(words, settings, output);
  if (output >= 0) ::close(output);
  if (pid_ < 0) throw std::runtime_error("cannot fork");
}

bool Daemon::runs() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
  return pid_ > 0;
}

void Daemon::stop() {
  if (!runs()) return;
  ::kill(pid_, SIGTERM);
  if (eventually(std::chrono::seconds(5), [&] { return !runs(); })) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::size_t end_children(std::chrono::milliseconds patience) {
  const auto gone = [] {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return children().empty();
  };
  if (patience.count() > 0 && eventually(patience, gone)) return 0;
  std::size_t running = 0;
  // Those of the killed become children themselves.
  for (auto left = children(); !left.empty(); left = children()) {
    for (const pid_t pid : left) {
      if (::waitpid(pid, nullptr, WNOHANG) == pid) continue;
      ++running;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  return running;
}

}  // namespace gpuwarden::testing
