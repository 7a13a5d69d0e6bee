// SPDX-License-Identifier: Apache-2.0
// How peers are named: files of addresses, names in the DNS.
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/peers.hpp"

namespace gpuwarden::cluster {
namespace {

std::optional<std::uint16_t> port_from(std::string_view text) {
  const auto port = parse_integer(text);
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*port);
}

bool is_host(std::string_view host) {
  if (host.starts_with('[')) {
    return host.size() > 2 && host.ends_with(']') &&
           host.substr(1, host.size() - 2).find_first_not_of("0123456789abcdefABCDEF:.%") == std::string_view::npos;
  }
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

/// "http://HOST:PORT" of a line.
std::optional<std::string> url_of(std::string_view line) {
  std::string_view scheme = "http";
  for (const std::string_view known : {"http", "https"}) {
    if (line.starts_with(known) && line.substr(known.size()).starts_with("://")) scheme = known;
  }
  if (line.starts_with(scheme) && line.contains("://")) line.remove_prefix(scheme.size() + 3);
  if (line.ends_with('/')) line.remove_suffix(1);
  const std::size_t colon = line.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = port_from(line.substr(colon + 1));
  if (!port || !is_host(line.substr(0, colon))) return std::nullopt;
  return fmt::format("{}://{}:{}", scheme, to_lower(line.substr(0, colon)), *port);
}

}  // namespace

Result<PeerPlace> parse_peer_place(std::string_view text) {
  PeerPlace place;
  if (!text.starts_with("dns:")) {
    if (text.empty()) return fail(ErrorCode::invalid_argument, "no file with the peers is named");
    place.file = text;
    return place;
  }
  const auto parts = split(text.substr(4), ':');
  const auto port = parts.size() == 2 ? port_from(parts[1]) : std::nullopt;
  if (!port || !is_host(parts[0]))
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not dns:NAME:PORT", printable(text)),
                "for example dns:gpu-nodes.example.org:10478");
  place.dns_name = parts[0];
  place.port = *port;
  return place;
}

Result<std::vector<std::string>> parse_peers(std::string_view text, std::string_view name) {
  std::vector<std::string> peers;
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    auto url = url_of(line);
    if (!url)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}:{}: '{}' is not HOST:PORT", name, number, printable(line.substr(0, 300))),
                  "one peer a line, for example gpu-node-1:10478");
    if (std::ranges::find(peers, *url) == peers.end()) peers.push_back(std::move(*url));
    if (peers.size() > PeersSource::kMost)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}:{}: more than {} peers", name, number, PeersSource::kMost));
  }
  return peers;
}

}  // namespace gpuwarden::cluster
