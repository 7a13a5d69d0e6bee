// SPDX-License-Identifier: Apache-2.0
// Many machines, each with a `gpuwarden serve` of its own: PeersSource asks them all again and again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/net/http.hpp"

namespace gpuwarden::cluster {

/// net::ask_all(), or a test's.
using AskAll = std::function<std::vector<Result<net::HttpAnswer>>(std::span<const net::HttpRequest> requests,
                                                                  unsigned at_once, const std::stop_token& stop)>;
/// The addresses of a name, as text ("10.0.0.7", "fe80::1").
using Resolve = std::function<Result<std::vector<std::string>>(const std::string& name, const std::stop_token& stop)>;

/// The A and AAAA records of a name, sorted. Comes back at `stop` or after `timeout` though the system's resolver
/// hangs. Fails with not_found, timed_out, interrupted.
Result<std::vector<std::string>> resolve_addresses(const std::string& name, std::chrono::milliseconds timeout,
                                                   const std::stop_token& stop = {});

/// Where the peers' names come from: a file, or a name in the DNS.
struct PeerPlace {
  std::filesystem::path file;
  std::string dns_name;  ///< set: `file` is empty
  std::uint16_t port = 0;
};
/// "dns:NAME:PORT", anything else is a file. Fails with invalid_argument.
Result<PeerPlace> parse_peer_place(std::string_view text);

/// The peers of a file's text, as URLs without a path, each once: a line each, HOST:PORT, [ADDRESS]:PORT or a URL
/// (http://, https://); what follows a # is a comment. Fails with invalid_argument, "NAME:LINE: what".
Result<std::vector<std::string>> parse_peers(std::string_view text, std::string_view name);
/// Those of a file, of at most a MiB. Fails as read_file() and parse_peers() do.
Result<std::vector<std::string>> read_peers(const std::filesystem::path& file);

struct PeersOptions {
  PeerPlace place;
  std::chrono::milliseconds interval = std::chrono::seconds(5);
  /// A file whose first line is sent as a bearer token; empty: none. It is read anew at each round.
  std::filesystem::path token_file;
  /// What is sent where the file cannot be read (any more): as it was when this process had more rights.
  std::string token;
  /// How long a peer may take; 0: four fifths of the interval, at most 5 s.
  std::chrono::milliseconds timeout{0};
  std::size_t most_bytes = 4UZ << 20U;  ///< of one peer's answer
  unsigned seed = 0;                    ///< of the moments at which peers are asked
  /// Lines for the program's log (a list that cannot be read any more); may be empty.
  std::function<void(const std::string&)> log;
  Clock* clock = &system_clock();
  AskAll ask;       ///< empty: net::ask_all
  Resolve resolve;  ///< empty: resolve_addresses
};

/// Each peer is asked once an interval for its own node (`/api/v1/nodes?own=true`), at a moment of its own in it, so
/// that not all are asked in one burst. Those that did not answer last time are asked apart from the others, which they
/// cannot hold up. What a peer shows of other machines is left out. The list is looked at again every interval, a name
/// in the DNS every 30 s; where that fails the last list holds.
class PeersSource final : public NodeSource {
 public:
  /// Peers listed at most.
  static constexpr std::size_t kMost = 4096;

  /// Fails where the file cannot be read or is wrong; a name that is not known yet is no failure.
  static Result<std::unique_ptr<PeersSource>> open(PeersOptions options);
  ~PeersSource() override;  ///< ends at once

  /// In the order of the list. A peer that never answered is named by its address; two of one name carry it too.
  std::vector<Node> nodes() const override;
  /// Whether the list is known (or could not be had) and each peer on it has answered or is lost.
  bool asked_all() const;

 private:
  class Impl;
  explicit PeersSource(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::cluster
