// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/access.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/sha256.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::serve {
namespace {

constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kLongestToken = 1024;

std::unexpected<Error> no_address(std::string_view text) {
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not an address to listen on", printable(text)),
              "write ADDRESS:PORT, for example 127.0.0.1:10478, [::1]:10478 or 0.0.0.0:10478");
}

/// The host and what is behind its colon, of "[::1]:80", "127.0.0.1:80", "name".
struct HostAndPort {
  std::string_view host;
  std::optional<std::string_view> port;
};
std::optional<HostAndPort> split_host(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return std::nullopt;
    return HostAndPort{text.substr(1, end - 1), rest.empty() ? std::nullopt : std::optional(rest.substr(1))};
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return HostAndPort{text, std::nullopt};
  if (text.find(':', colon + 1) != std::string_view::npos) return std::nullopt;
  return HostAndPort{text.substr(0, colon), text.substr(colon + 1)};
}

struct Numeric {
  bool loopback = false;
  bool any = false;
};
std::optional<Numeric> numeric(const std::string& host) {
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) {
    const std::uint32_t value = ntohl(four.s_addr);
    return Numeric{value >> 24U == 127, value == 0};
  }
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) == 1)
    return Numeric{IN6_IS_ADDR_LOOPBACK(&six) != 0, IN6_IS_ADDR_UNSPECIFIED(&six) != 0};
  return std::nullopt;
}

/// The cookie's value in "a=1; gpuwarden_session_10478=2".
std::string_view cookie_in(std::string_view header, const std::string& name) {
  for (const std::string_view piece : split(header, ';')) {
    const std::string_view cookie = trim(piece);
    if (cookie.starts_with(name) && cookie.substr(name.size()).starts_with('=')) return cookie.substr(name.size() + 1);
  }
  return {};
}

std::string_view bearer_in(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() <= kScheme.size() || to_lower(header.substr(0, kScheme.size())) != kScheme) return {};
  return trim(header.substr(kScheme.size()));
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const auto parts = split_host(text);
  if (!parts || parts->host.empty()) return no_address(text);
  Address address;
  address.host = parts->host == "localhost" ? "127.0.0.1" : std::string(parts->host);
  address.port = kDefaultPort;
  if (parts->port) {
    const auto port = parse_integer(*parts->port);
    if (!port || *port < 0 || *port > 65535) return no_address(text);
    address.port = static_cast<std::uint16_t>(*port);
  }
  const auto kind = numeric(address.host);
  if (!kind) return no_address(text);
  address.loopback = kind->loopback;
  address.any = kind->any;
  return address;
}

std::string to_string(const Address& address) {
  return address.host.find(':') == std::string::npos ? fmt::format("{}:{}", address.host, address.port)
                                                     : fmt::format("[{}]:{}", address.host, address.port);
}

bool same_secret(std::string_view one, std::string_view other) {
  // Digests are of one length, and where they differ tells nothing about the texts.
  const std::string a = sha256_hex(one);
  const std::string b = sha256_hex(other);
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

std::string session_cookie(std::uint16_t port) { return fmt::format("gpuwarden_session_{}", port); }

Result<std::string> read_credential(const std::filesystem::path& credentials, std::string_view name) {
  std::error_code ignored;
  const std::filesystem::path file = credentials / name;
  if (credentials.empty() || !std::filesystem::exists(file, ignored)) return std::string();
  return read_token(file, credentials);
}

Result<std::string> read_token(const std::filesystem::path& file, const std::filesystem::path& credentials) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  const std::string name = printable(file.string());
  if (!fd) return std::unexpected(error_from_errno(errno, fmt::format("cannot read the token in '{}'", name)));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail(ErrorCode::invalid_argument, fmt::format("the token file '{}' is not a regular file", name));
  const bool by_systemd = !credentials.empty() && file.parent_path() == credentials;
  if ((status.st_mode & (by_systemd ? 037U : 077U)) != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("the token file '{}' can be read by others", name),
                fmt::format("chmod 600 {}", name));
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("the token file '{}' belongs to another user", name));
  GPUWARDEN_TRY(const std::string text, read_descriptor(fd.get(), name, kLongestToken + 1));
  std::string token(trim(std::string_view(text).substr(0, text.find('\n'))));
  const bool plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; });
  if (token.size() < kShortestToken || token.size() > kLongestToken || !plain)
    return fail(ErrorCode::invalid_argument,
                fmt::format("the token in '{}' must have {} to {} printable ASCII characters without blanks", name,
                            kShortestToken, kLongestToken),
                fmt::format("make one: (umask 077; head -c 24 /dev/urandom | base64 > {})", name));
  return token;
}

Result<Tokens> read_tokens(const std::optional<std::string>& own, const std::optional<std::string>& peers,
                           const Environment& environment) {
  const auto found = environment.find("CREDENTIALS_DIRECTORY");
  const std::filesystem::path credentials = found == environment.end() ? "" : found->second;
  Tokens tokens;
  GPUWARDEN_TRY(tokens.own, own ? read_token(*own, credentials) : read_credential(credentials, "token"));
  if (!peers) {
    GPUWARDEN_TRY(tokens.peers, read_credential(credentials, "peers-token"));
    return tokens;
  }
  const auto token = read_line(*peers);
  if (!token) return fail(ErrorCode::invalid_argument, fmt::format("cannot read {}", printable(*peers)));
  tokens.peers = *token;
  return tokens;
}

Result<void> check(const Access& access) {
  if (!access.address.loopback && access.token.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("listening on {} needs --token-file: others than this machine's users could read",
                            to_string(access.address)),
                "make a token: (umask 077; head -c 24 /dev/urandom | base64 > token), and give --token-file token; "
                "or listen on 127.0.0.1");
  if (access.allow_actions && access.token.empty())
    return fail(ErrorCode::invalid_argument, "--allow-actions needs --token-file",
                "whatever changes something is done for callers who have the token alone");
  return {};
}

std::string Sessions::open(Clock::SteadyTime now) {
  std::array<unsigned char, 24> bytes{};
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  const std::string name = fmt::format("{:02x}", fmt::join(bytes, ""));
  const std::scoped_lock lock(mutex_);
  std::erase_if(until_, [&](const auto& entry) { return entry.second <= now; });
  if (until_.size() >= kMost)
    until_.erase(std::ranges::min_element(until_, {}, [](const auto& e) { return e.second; }));
  until_[name] = now + kLife;
  return name;
}

bool Sessions::holds(std::string_view name, Clock::SteadyTime now) const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(until_,
                             [&](const auto& entry) { return entry.second > now && same_secret(entry.first, name); });
}

void Sessions::close(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = until_.find(name); found != until_.end()) until_.erase(found);
}

Caller caller_of(const Request& request, const Access& access, const Sessions& sessions, Clock::SteadyTime now) {
  Caller caller;
  const std::string_view bearer = bearer_in(request.header("authorization"));
  const std::string_view cookie = cookie_in(request.header("cookie"), session_cookie(access.address.port));
  if (!access.token.empty() && !bearer.empty() && same_secret(bearer, access.token)) {
    caller.has_token = true;
  } else if (!cookie.empty() && sessions.holds(cookie, now)) {
    caller.has_token = caller.by_cookie = true;
    caller.session = cookie;
  }
  const bool same_user = request.peer.loopback && request.peer.user && access.owner &&
                         (*request.peer.user == *access.owner || *request.peer.user == 0);
  caller.sees_commands = caller.has_token || same_user;
  return caller;
}

bool host_is_own(std::string_view host, const Access& access) {
  const auto parts = split_host(host);
  if (!parts || parts->host.empty() || (parts->port && !parse_integer(*parts->port))) return false;
  const std::string name = to_lower(parts->host);
  if (const auto kind = numeric(name)) {
    // A name that resolves to this machine is how other sites get in; a bare address cannot be theirs.
    return kind->loopback || !access.address.loopback;
  }
  if (name == "localhost") return true;
  return std::ranges::any_of(access.host_names, [&](const std::string& own) { return to_lower(own) == name; });
}

bool origin_is_own(const Request& request) {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return true;
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == request.header("host");
}

}  // namespace gpuwarden::serve
