// SPDX-License-Identifier: Apache-2.0
#include "net/url.hpp"

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::net {
namespace {

constexpr std::size_t kLongestUrl = 8192;

std::size_t length_of_scheme(std::string_view url) {
  const std::string start = to_lower(url.substr(0, 8));
  if (start.starts_with("https://")) return 8;
  return start.starts_with("http://") ? 7 : 0;
}

}  // namespace

Result<void> check_url(std::string_view url) {
  const bool plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < '\x7f'; });
  const std::size_t scheme = length_of_scheme(url);
  if (scheme > 0 && url.size() > scheme && url.size() <= kLongestUrl && plain && !host_of(url).empty()) return {};
  return fail(ErrorCode::invalid_argument, "this is no http or https URL: '" + printable(url.substr(0, 16)) + "...'",
              "for example https://example.org/hook");
}

std::string host_of(std::string_view url) {
  const std::string_view rest = url.substr(length_of_scheme(url));
  const std::string_view authority = rest.substr(0, std::min(rest.find_first_of("/?#"), rest.size()));
  const std::size_t at = authority.rfind('@');
  return std::string(at == std::string_view::npos ? authority : authority.substr(at + 1));
}

bool is_loopback(std::string_view url) {
  const std::string host = to_lower(host_of(url));
  const std::string name = host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  return name == "localhost" || name == "[::1]" || name.starts_with("127.");
}

}  // namespace gpuwarden::net
