// SPDX-License-Identifier: Apache-2.0
// A job that proves it is alone on its GPU: it claims DIR/UUID with O_EXCL, computes for a while, and gives it back.
//   stress_job DIR MILLISECONDS
// Exit 9: somebody else who is alive holds the same GPU.
//   stress_job listen DIR
// Listens at MASTER_PORT, as rank 0 does, until it is ended; DIR/PORT says that it does.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

/// Whether the process exists and is not a zombie.
bool is_alive(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("State:", 0) == 0) return line.find('Z') == std::string::npos && line.find('X') == std::string::npos;
  }
  return false;
}

std::string holder_of(const std::string& path) {
  std::string pid;
  std::ifstream(path) >> pid;
  return pid;
}

/// The claim is written before it appears under its name (link is as exclusive as O_EXCL), so that a reader never sees
/// one without its owner.
bool claim(const std::string& path) {
  const std::string mine = path + "." + std::to_string(::getpid());
  const int fd = ::open(mine.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
  const std::string pid = std::to_string(::getpid());
  const bool written = fd >= 0 && ::write(fd, pid.data(), pid.size()) == static_cast<ssize_t>(pid.size());
  ::close(fd);
  bool claimed = written && ::link(mine.c_str(), path.c_str()) == 0;
  if (!claimed && errno == EEXIST && !is_alive(holder_of(path))) {
    claimed = ::rename(mine.c_str(), path.c_str()) == 0;  // its owner was killed with its launcher
  }
  ::unlink(mine.c_str());
  return claimed;
}

/// As a store of torch.distributed is left behind: nobody but the launcher ends it.
int listen_for_ever(const std::string& folder) {
  const char* port = std::getenv("MASTER_PORT");
  if (port == nullptr) return 2;
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 1) != 0) return 3;
  std::ofstream(folder + "/" + port) << ::getpid();
  for (;;) ::pause();
}

double compute_for(std::chrono::milliseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  double sum = 0;
  for (unsigned i = 1; std::chrono::steady_clock::now() < end; ++i) sum += 1.0 / i / i;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "listen") return listen_for_ever(argv[2]);
  const char* uuid = std::getenv("CUDA_VISIBLE_DEVICES");
  if (argc != 3 || uuid == nullptr || *uuid == '\0') return 2;
  const std::string path = std::string(argv[1]) + "/" + uuid;
  if (!claim(path)) {
    std::fprintf(stderr, "%s is held by %s as well\n", uuid, holder_of(path).c_str());
    return 9;
  }
  const double sum = compute_for(std::chrono::milliseconds(std::atoi(argv[2])));
  if (holder_of(path) != std::to_string(::getpid())) return 9;
  ::unlink(path.c_str());
  return sum > 1 ? 0 : 3;
}
