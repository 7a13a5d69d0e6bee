// SPDX-License-Identifier: Apache-2.0
// Who may do what. Pure but for the token's file and the sessions' random names.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/serve/http.hpp"

namespace gpuwarden::serve {

/// "127.0.0.1:10478", "[::1]:0", "0.0.0.0:10478".
struct Address {
  std::string host;  ///< a numeric address, without brackets
  std::uint16_t port = 0;
  bool loopback = false;
  bool any = false;  ///< every address of the machine
};
/// "localhost" is 127.0.0.1; a missing port is kDefaultPort. Fails with invalid_argument.
Result<Address> parse_address(std::string_view text);
/// As it stands in a URL: "127.0.0.1:10478", "[::1]:10478".
std::string to_string(const Address& address);

/// No exporter of Prometheus's list of ports has it (github.com/prometheus/prometheus/wiki/Default-port-allocations).
inline constexpr std::uint16_t kDefaultPort = 10478;

/// Whether the two are the same, in a time that does not tell where they differ.
bool same_secret(std::string_view one, std::string_view other);

/// The token in a file's first line. Fails where others than its owner may read the file, where it belongs to neither
/// the caller nor root, is shorter than 16 characters, or has blanks in it. In `credentials`, the folder that systemd
/// made for the service alone (CREDENTIALS_DIRECTORY), access lists show as rights of the group: there they may read.
Result<std::string> read_token(const std::filesystem::path& file, const std::filesystem::path& credentials = {});
/// The credential of this name (LoadCredential=token:FILE); empty where systemd gave none. Fails as read_token does.
Result<std::string> read_credential(const std::filesystem::path& credentials, std::string_view name);

/// The secrets of a server. Empty: there is none.
struct Tokens {
  std::string own;    ///< of those who call it
  std::string peers;  ///< that other machines want of it
};
/// Those in the files; where no file is named the credentials "token" and "peers-token" of the folder that
/// CREDENTIALS_DIRECTORY names, where systemd gave them. Fails as read_token() does, and for peers' files that cannot
/// be read.
Result<Tokens> read_tokens(const std::optional<std::string>& own, const std::optional<std::string>& peers,
                           const Environment& environment);

/// The rules of one server.
struct Access {
  std::string token;           ///< empty: there is none
  bool token_to_read = false;  ///< reading needs it: where others than this machine's users are listened to
  bool allow_actions = false;
  bool tls = false;
  Address address;
  std::vector<std::string> host_names;  ///< under which the server may be asked for, beside its address
  std::optional<std::uint32_t> owner;   ///< the user who started it
};

/// Fails with invalid_argument where the address asks for more than is given (a token), with a hint.
Result<void> check(const Access& access);

/// Logins of browsers: a name in a cookie for each, at most kMost, for kLife. Thread-safe.
class Sessions {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::chrono::hours kLife{12};
  /// A new one; the oldest goes where there are too many.
  std::string open(Clock::SteadyTime now);
  bool holds(std::string_view name, Clock::SteadyTime now) const;
  void close(std::string_view name);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Clock::SteadyTime, std::less<>> until_;
};

/// The cookie of a server on this port: browsers send a machine's cookies to all of its ports.
std::string session_cookie(std::uint16_t port);

/// Who asks, as far as the server can tell.
struct Caller {
  bool has_token = false;  ///< by header or cookie
  bool by_cookie = false;
  /// Command lines are shown to him: he has the token, or he is, on loopback, the user who started the server, or root.
  bool sees_commands = false;
  std::string session;  ///< his cookie, where it is a session's
};
Caller caller_of(const Request& request, const Access& access, const Sessions& sessions, Clock::SteadyTime now);

/// Whether the Host header names this server: one of its addresses or names. A page of another site that has its name
/// resolve to this machine does not.
bool host_is_own(std::string_view host, const Access& access);
/// Whether a browser sends the request from this server's own pages, or no browser does.
bool origin_is_own(const Request& request);

}  // namespace gpuwarden::serve
