// SPDX-License-Identifier: Apache-2.0
// Requests and answers of HTTP as values, without sockets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden::serve {

/// What is answered at all: HEAD is answered as GET, without its body.
enum class Method { get, post, other };
std::string_view to_string(Method method);

/// Names and values, in the order in which they came.
using Fields = std::vector<std::pair<std::string, std::string>>;

/// The longest target of a request ("/api/v1/history?gpu=0"), in bytes.
inline constexpr std::size_t kLongestTarget = 4096;

/// A request's target, decoded.
struct Target {
  std::string path;
  Fields query;
};
/// Takes a target apart. Fails with invalid_argument: too long, no path, control characters, a broken %-escape, a path
/// that goes up.
Result<Target> parse_target(std::string_view text);
/// The fields of "a=1&b=2", decoded: of a target, or of a form. Fails likewise.
Result<Fields> parse_query(std::string_view text);

/// Who is at the other end.
struct Peer {
  bool loopback = false;
  std::string address = {};  ///< without its port; empty where it is not known
  /// The user whose socket it is, where the kernel tells: on loopback alone.
  std::optional<std::uint32_t> user;
  /// The connection's socket, open for as long as the request is answered; -1 where there is none.
  int descriptor = -1;
};

struct Request {
  Method method = Method::get;
  std::string path = "/";
  Fields query;
  Fields headers;  ///< their names in lower case
  std::string body;
  Peer peer;

  /// The header's value; empty where there is none. `name` in lower case.
  std::string_view header(std::string_view name) const;
  std::optional<std::string> parameter(std::string_view name) const;
};

/// An answer that goes on until its reader leaves.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;
  /// What is to be sent now; empty: nothing yet. Never waits.
  virtual std::string take(Clock::SteadyTime now) = 0;
};

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  Fields headers;
  /// Where there is one it follows the body.
  std::unique_ptr<Stream> stream;
};

/// "Not Found" of 404.
std::string_view reason_of(int status);
/// The status that an error of the library is answered with: 400, 403, 404, 409, 503, 504, 500.
int status_of(ErrorCode code);

Response text_answer(int status, std::string text);
/// Bytes that are no UTF-8 are replaced.
Response json_answer(const nlohmann::json& document, int status = 200);
/// {"schema":1,"error":{"code","message","hint"}}
Response error_answer(const Error& error, std::optional<int> status = {});

/// A moment as people and programs write it: seconds since 1970 ("1763903045.5"), "2026-11-23T13:04:05Z", or a time
/// before now ("-15m"). Fails with invalid_argument.
Result<std::chrono::system_clock::time_point> parse_moment(std::string_view text,
                                                           std::chrono::system_clock::time_point now);

}  // namespace gpuwarden::serve
