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
#include <random>
#include <stdexcept>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kFirstPort = 15000;  ///< below it are services

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

/// The first of the ports that the kernel gives to outgoing connections: below it nobody takes one by chance.
std::uint16_t ephemeral_start() {
  const std::string range = read_line("/proc/sys/net/ipv4/ip_local_port_range").value_or("");
  const auto words = split_words(range);
  const auto first = words.empty() ? std::nullopt : parse_integer(words.front());
  return static_cast<std::uint16_t>(first && *first > 20000 && *first < 65000 ? *first : 32768);
}

/// A socket that has the port, at every address as servers do; none where somebody else has it.
UniqueFd bound_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  const bool bound = fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return bound ? std::move(fd) : UniqueFd();
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
  const std::uint16_t end = ephemeral_start();
  std::uniform_int_distribution<int> any(kFirstPort, end - 1);
  std::random_device random;
  std::vector<UniqueFd> taken;
  std::vector<std::uint16_t> ports;
  for (int tries = 0; ports.size() < count; ++tries) {
    if (tries > end) throw std::runtime_error("no free port was found");
    const auto port = static_cast<std::uint16_t>(any(random));
    UniqueFd socket = bound_to(port);
    if (!socket) continue;
    taken.push_back(std::move(socket));
    ports.push_back(port);
  }
  return ports;
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
  if (eventually(kSoon, [&] { return !runs(); })) return;
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
