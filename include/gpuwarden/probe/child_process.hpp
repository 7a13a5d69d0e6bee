// SPDX-License-Identifier: Apache-2.0
// A forked process that does what may hang, and talks over a socket. It can be killed at any moment.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::probe {

/// The name that such a process has (in ps -o comm, /proc/PID/status).
inline constexpr const char* kChildName = "gpuwarden-probe";

/// Sends one message, a 4-byte length and a CBOR map; false when the other side is gone.
bool send_message(int fd, const nlohmann::json& message);
/// Receives one message, waiting at most `timeout` (negative: for ever); nothing at the deadline, at the end of the
/// stream or for a damaged message. `closed` becomes true where it was not the deadline.
std::optional<nlohmann::json> receive_message(int fd, std::chrono::milliseconds timeout, bool* closed = nullptr);

/// How a child came to its end before anybody killed it; both empty: it had not.
struct ChildEnd {
  std::optional<int> signal;
  std::optional<int> exit_code;
};

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
  /// Once `stop` is requested nothing is received any more, and whoever waits here is woken.
  std::optional<nlohmann::json> receive(std::chrono::milliseconds timeout, const std::stop_token& stop = {});
  /// Whether receive() would have something to tell at once.
  bool has_news() const;
  /// Whether the last receive() got nothing because the child has closed its end, not because the time was up.
  bool closed() const { return closed_; }
  /// Wakes whoever waits in receive(), from any thread: nothing will be received any more.
  void hang_up();
  /// Kills the child, unless it has closed its end and ends by itself within a second. Reaps it if it dies at once; one
  /// in uninterruptible sleep is left behind, and reaped when another child is started after its end.
  ChildEnd end();

 private:
  ChildProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  /// Waits for the child's end without reaping it; whether it came.
  bool await_end(std::chrono::milliseconds time) const;

  pid_t pid_;
  UniqueFd socket_;
  bool closed_ = false;
  std::atomic<bool> hung_up_ = false;  ///< by us: the child does not know, and has not closed anything
};

}  // namespace gpuwarden::probe
