// SPDX-License-Identifier: Apache-2.0
#include "cluster/peer_book.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/json.hpp"

namespace gpuwarden::cluster {
namespace {

using Json = nlohmann::json;

/// NVML tells of at most 64 devices, MIG instances and other vendors' apart.
constexpr std::size_t kMostGpus = 1024;
constexpr std::size_t kLongestName = 253;  // RFC 1035

Error no_gpuwarden(std::string what) {
  return {ErrorCode::corrupt, std::move(what), "is a gpuwarden serve of about this version listening there?"};
}

std::optional<Error> refusal(const net::HttpAnswer& answer) {
  if (answer.status == 200) return std::nullopt;
  if (answer.status == 401 || answer.status == 403)
    return Error{
        ErrorCode::permission_denied, fmt::format("it refused the request (HTTP {})", answer.status),
        "name a file with the token that it was started with: serve --peers-token-file FILE, top --token-file FILE"};
  return Error{answer.status == 503 ? ErrorCode::unavailable : ErrorCode::failed,
               fmt::format("it answered with HTTP {}", answer.status), ""};
}

/// The peer's own node: what it shows of its peers comes from them.
const Json* own_node(const Json& document) {
  const auto nodes = document.is_object() ? document.find("nodes") : document.end();
  if (!document.is_object() || nodes == document.end() || !nodes->is_array()) return nullptr;
  const auto own = std::ranges::find_if(*nodes, [](const Json& node) {
    const auto url = node.is_object() ? node.find("url") : node.end();
    return node.is_object() && url != node.end() && url->is_string() && url->get_ref<const std::string&>().empty();
  });
  return own == nodes->end() ? nullptr : &*own;
}

/// "gpu-node-1:9434" of "http://gpu-node-1:9434".
std::string address_of(const std::string& url) {
  const std::size_t scheme = url.find("://");
  return scheme == std::string::npos ? url : url.substr(scheme + 3);
}

}  // namespace

Result<Node> read_peer_answer(const Result<net::HttpAnswer>& answer) {
  if (!answer) return std::unexpected(answer.error());
  if (auto refused = refusal(*answer)) return std::unexpected(std::move(*refused));
  const Json document = Json::parse(answer->body, nullptr, false);
  if (document.is_discarded()) return std::unexpected(no_gpuwarden("its answer is not JSON"));
  const Json* own = own_node(document);
  if (own == nullptr) return std::unexpected(no_gpuwarden("its answer tells nothing of the machine itself"));
  auto node = node_from_json(*own);
  if (!node) return std::unexpected(no_gpuwarden("its answer cannot be understood: " + node.error().message));
  if (node->reading && node->reading->snapshot.gpus.size() > kMostGpus)
    return std::unexpected(no_gpuwarden(
        fmt::format("its answer lists {} GPUs, which no machine has", node->reading->snapshot.gpus.size())));
  node->name = printable(node->name).substr(0, kLongestName);
  return node;
}

void PeerBook::set_peers(const std::vector<std::string>& urls, Clock::SteadyTime now) {
  if (urls == order_) return;
  std::map<std::string, Peer> peers;
  std::uniform_int_distribution<std::int64_t> moment(0, std::max<std::int64_t>(interval_.count() - 1, 0));
  for (const std::string& url : urls) {
    if (const auto known = peers_.find(url); known != peers_.end()) {
      peers.emplace(url, std::move(known->second));
      continue;
    }
    Peer peer;
    peer.node.url = url;
    peer.due = now + std::chrono::milliseconds(moment(random_));
    peers.emplace(url, std::move(peer));
  }
  order_ = urls;
  peers_ = std::move(peers);
}

std::vector<std::string> PeerBook::take_due(Lane lane, Clock::SteadyTime now) {
  std::vector<std::string> due;
  for (const std::string& url : order_) {
    Peer& peer = peers_.at(url);
    if (peer.lane != lane || peer.asked || peer.due > now) continue;
    peer.asked = true;
    due.push_back(url);
  }
  return due;
}

std::optional<Clock::SteadyTime> PeerBook::next_due(Lane lane) const {
  std::optional<Clock::SteadyTime> next;
  for (const auto& [url, peer] : peers_) {
    if (peer.lane == lane && !peer.asked && (!next || peer.due < *next)) next = peer.due;
  }
  return next;
}

void PeerBook::absorb(const std::string& url, Result<Node> answer, Clock::SteadyTime now, Clock::WallTime wall) {
  const auto found = peers_.find(url);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  peer.asked = false;
  // Its own moment in every interval stays, however long it took.
  while (peer.due <= now) peer.due += interval_;
  peer.lane = answer ? Lane::answering : Lane::silent;
  if (!answer) {
    peer.node.problem = std::move(answer).error();
    return;
  }
  if (!answer->reading) answer->reading = peer.node.reading;
  peer.node = std::move(*answer);
  peer.node.url = url;
  peer.node.seen = wall;
}

std::vector<Node> PeerBook::nodes() const {
  std::vector<Node> nodes;
  std::map<std::string, int> names;
  nodes.reserve(order_.size());
  for (const std::string& url : order_) {
    Node& node = nodes.emplace_back(peers_.at(url).node);
    if (node.name.empty()) node.name = address_of(url);
    ++names[node.name];
  }
  for (Node& node : nodes) {
    if (names[node.name] > 1) node.name += fmt::format(" ({})", address_of(node.url));
  }
  return nodes;
}

}  // namespace gpuwarden::cluster
