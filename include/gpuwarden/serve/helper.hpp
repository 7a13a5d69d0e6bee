// SPDX-License-Identifier: Apache-2.0
// What is left of root where a server gives root up: a process of its own that does a few named things for the server,
// judges each request anew, and can do nothing else.
//
//     auto helper = serve::Helper::start({.set_power_limit = ...});   // still root, still one thread
//     serve::drop_root("gpuwarden");
//     helper->set_power_limit(gpu, 300_W);
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/health.hpp"

namespace gpuwarden::serve {

/// What the helper does. An empty function (for signals: false) is a right that was not asked for: it is refused.
struct HelperRights {
  /// Within the range that the GPU itself names; gives the limit that holds then.
  std::function<Result<Milliwatts>(const Uuid&, Milliwatts)> set_power_limit;
  /// For everybody.
  std::function<Result<void>(const facts::Disabling&)> disable;
  std::function<Result<void>(const Uuid&)> enable;
  /// To processes of the user whose connection of loopback is handed along, as if that user sent them. Never root's.
  bool signals = false;
};

struct PowerLimitRequest {
  Uuid gpu;
  Milliwatts limit;
  bool operator==(const PowerLimitRequest&) const = default;
};
struct SignalRequest {
  Pid pid;
  int signal = 0;
  bool operator==(const SignalRequest&) const = default;
};
struct DisableRequest {
  Uuid gpu;
  std::string reason;
  std::string by;
  bool operator==(const DisableRequest&) const = default;
};
struct EnableRequest {
  Uuid gpu;
  bool operator==(const EnableRequest&) const = default;
};
/// All that can be asked of a helper.
using HelperRequest = std::variant<PowerLimitRequest, SignalRequest, DisableRequest, EnableRequest>;

/// One packet: words with line feeds between them.
std::string to_packet(const HelperRequest& request);
/// What a packet asks for. Fails with invalid_argument for all that to_packet() does not write: a name that is none, a
/// number out of range, a signal that no caller may send. Pure.
Result<HelperRequest> parse_helper_request(std::string_view packet);

/// The helper's process. Thread-safe, one request at a time.
class Helper {
 public:
  /// Forks it. To be called before any thread is started and before root is given up. The process keeps of its rights
  /// what `rights` needs, says on standard error what it did, and ends with the last of its callers.
  static Result<std::unique_ptr<Helper>> start(const HelperRights& rights);
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper();

  Result<Milliwatts> set_power_limit(const Uuid& gpu, Milliwatts limit);
  /// `connection` is the socket of the user who asks. Fails with permission_denied where the kernel does not tell whose
  /// it is, and where the process is not that user's.
  Result<void> signal(Pid pid, int signal, int connection);
  Result<void> disable(const Uuid& gpu, const std::string& reason, const std::string& by);
  Result<void> enable(const Uuid& gpu);
  pid_t pid() const { return pid_; }

 private:
  Helper(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  Result<std::string> ask(const HelperRequest& request, int connection = -1);

  std::mutex mutex_;
  pid_t pid_;
  UniqueFd socket_;
  std::uint64_t asked_ = 0;
};

}  // namespace gpuwarden::serve
