// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "cluster/peer_book.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/first_answers.hpp"

namespace gpuwarden::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lane = PeerBook::Lane;

constexpr unsigned kAtOnce = 32;
constexpr seconds kBetweenLookUps(30);
constexpr seconds kLookUpTimeout(10);
/// Peers that are due within this time are asked together.
constexpr milliseconds kShortestPause(20);
constexpr milliseconds kLongestPause(200);

PeersOptions completed(PeersOptions options) {
  options.interval = std::max(options.interval, milliseconds(100));
  if (options.timeout <= milliseconds(0))
    options.timeout = std::min<milliseconds>(options.interval * 4 / 5, seconds(5));
  if (!options.ask)
    options.ask = [](std::span<const net::HttpRequest> requests, unsigned at_once, const std::stop_token& stop) {
      return net::ask_all(requests, at_once, stop);
    };
  if (!options.resolve)
    options.resolve = [](const std::string& name, const std::stop_token& stop) {
      return resolve_addresses(name, kLookUpTimeout, stop);
    };
  return options;
}

}  // namespace

Result<std::vector<std::string>> read_peers(const std::filesystem::path& file) {
  GPUWARDEN_TRY(const std::string text, read_file(file, std::size_t{1} << 20U));
  return parse_peers(text, file.string());
}

class PeersSource::Impl {
 public:
  explicit Impl(PeersOptions options)
      : options_(completed(std::move(options))), book_(options_.interval, options_.seed) {}

  void set_peers(const std::vector<std::string>& urls) {
    const std::scoped_lock lock(mutex_);
    book_.set_peers(urls, options_.clock->now());
  }

  void start() {
    looker_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
    for (const Lane lane : {Lane::answering, Lane::silent})
      (lane == Lane::answering ? answering_ : silent_) =
          std::jthread([this, lane](const std::stop_token& stop) { ask(lane, stop); });
  }

  std::vector<Node> nodes() const {
    const std::scoped_lock lock(mutex_);
    return book_.nodes();
  }

  bool asked_all() const {
    const std::scoped_lock lock(mutex_);
    return looked_ && std::ranges::all_of(book_.nodes(), was_asked);
  }

 private:
  /// Follows the list.
  void look(const std::stop_token& stop) {
    const bool is_file = options_.place.dns_name.empty();
    std::string told;
    do {
      const auto list = is_file ? read_peers(options_.place.file) : look_up(stop);
      if (stop.stop_requested()) return;
      if (list) set_peers(*list);
      const std::string trouble = list ? "" : list.error().message;
      if (!trouble.empty() && trouble != told && options_.log) options_.log("peers: " + trouble);
      told = trouble;
      const std::scoped_lock lock(mutex_);
      looked_ = true;
    } while (options_.clock->sleep_for(is_file ? options_.interval : milliseconds(kBetweenLookUps), stop));
  }

  Result<std::vector<std::string>> look_up(const std::stop_token& stop) const {
    GPUWARDEN_TRY(const auto addresses, options_.resolve(options_.place.dns_name, stop));
    std::vector<std::string> urls;
    for (const std::string& address : addresses) {
      if (urls.size() == kMost) break;
      const bool in_brackets = address.contains(':');
      urls.push_back(in_brackets ? fmt::format("http://[{}]:{}", address, options_.place.port)
                                 : fmt::format("http://{}:{}", address, options_.place.port));
    }
    return urls;
  }

  void ask(Lane lane, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<std::string> due;
      std::optional<Clock::SteadyTime> next;
      {
        const std::scoped_lock lock(mutex_);
        due = book_.take_due(lane, options_.clock->now());
        next = book_.next_due(lane);
      }
      if (due.empty()) {
        const auto left = next ? *next - options_.clock->now() : Clock::SteadyTime::duration(kLongestPause);
        options_.clock->sleep_for(std::clamp<std::chrono::nanoseconds>(left, kShortestPause, kLongestPause), stop);
        continue;
      }
      ask_these(due, stop);
    }
  }

  void ask_these(const std::vector<std::string>& urls, const std::stop_token& stop) {
    std::vector<net::HttpRequest> requests;
    const std::string token = bearer();
    for (const std::string& url : urls) {
      net::HttpRequest& request = requests.emplace_back();
      request.url = url + "/api/v1/nodes?own=true";
      request.headers = {{"Accept", "application/json"}};
      if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
      request.timeout = options_.timeout;
      request.most_bytes = options_.most_bytes;
    }
    const auto answers = options_.ask(requests, kAtOnce, stop);
    if (stop.stop_requested()) return;
    for (std::size_t i = 0; i < urls.size(); ++i) {
      auto node = i < answers.size() ? read_peer_answer(answers[i]) : fail(ErrorCode::failed, "it was not asked");
      const std::scoped_lock lock(mutex_);
      book_.absorb(urls[i], std::move(node), options_.clock->now(), options_.clock->wall_now());
    }
  }

  std::string bearer() const {
    if (options_.token_file.empty()) return options_.token;
    return read_line(options_.token_file).value_or(options_.token);
  }

  const PeersOptions options_;
  mutable std::mutex mutex_;
  PeerBook book_;
  bool looked_ = false;  ///< at the list
  // Last, so that they have ended before what they use is gone.
  std::jthread looker_;
  std::jthread answering_;
  std::jthread silent_;
};

PeersSource::PeersSource(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeersSource::~PeersSource() = default;

Result<std::unique_ptr<PeersSource>> PeersSource::open(PeersOptions options) {
  const std::filesystem::path file = options.place.file;
  std::vector<std::string> peers;
  if (options.place.dns_name.empty()) {
    GPUWARDEN_TRY(peers, read_peers(file));
    if (peers.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("{} lists no peers", printable(file.string())),
                  "one peer a line, for example gpu-node-1:10478");
  }
  if (!options.token_file.empty() && options.token.empty() && !read_line(options.token_file))
    return fail(ErrorCode::invalid_argument, fmt::format("cannot read {}", printable(options.token_file.string())));
  auto impl = std::make_unique<Impl>(std::move(options));
  impl->set_peers(peers);
  impl->start();
  return std::unique_ptr<PeersSource>(new PeersSource(std::move(impl)));
}

std::vector<Node> PeersSource::nodes() const { return impl_->nodes(); }
bool PeersSource::asked_all() const { return impl_->asked_all(); }

}  // namespace gpuwarden::cluster
