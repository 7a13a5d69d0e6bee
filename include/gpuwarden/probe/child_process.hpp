// SPDX-License-Identifier: Apache-2.0
// A forked process that does what may hang, and talks over a socket. It can be killed at any moment.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::probe {

/// The name that such a process has (in ps -o comm, /proc/PID/status).
inline constexpr const char* kChildName = "gpuwarden-probe";

/// Sends one message, a 4-byte length and a CBOR map; false when the other side is gone.
bool send_message(int fd, const nlohmann::json& message);
/// Receives one message, waiting at most `timeout` (negative: for ever); nothing at the deadline, at the end of the
/// stream or for a damaged message.
std::optional<nlohmann::json> receive_message(int fd, std::chrono::milliseconds timeout);

/// The child has nothing of its parent's open but its end of the socket, and dies with the thread that started it.
class ChildProcess {
 public:
  /// Forks; the child runs `work` with its end of the socket, and exits when that returns. nullptr where the system
  /// refuses.
  static std::unique_ptr<ChildProcess> start(const std::function<void(int fd)>& work);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() { end(); }

  pid_t pid() const { return pid_; }
  bool send(const nlohmann::json& message);
  std::optional<nlohmann::json> receive(std::chrono::milliseconds timeout);
  /// Wakes whoever waits in receive(), from any thread: nothing will be received any more.
  void hang_up();
  /// Kills the child. Reaps it if it dies at once; one in uninterruptible sleep is left behind. Gives the signal it had
  /// died of by itself, if it had.
  std::optional<int> end();

 private:
  ChildProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  pid_t pid_;
  UniqueFd socket_;
};

}  // namespace gpuwarden::probe
