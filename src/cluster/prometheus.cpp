// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/prometheus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cluster {
namespace {

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

/// Prometheus explains its refusals (400, 422, 503) in the body.
Result<std::vector<PrometheusSample>> samples_of(const Result<net::HttpAnswer>& answer) {
  if (!answer) return std::unexpected(answer.error());
  if (answer->status == 401 || answer->status == 403)
    return fail(ErrorCode::permission_denied, fmt::format("Prometheus refused the request (HTTP {})", answer->status),
                "--token-file FILE names a file with a bearer token");
  auto samples = parse_instant_vector(answer->body);
  if (!samples && samples.error().code == ErrorCode::corrupt && answer->status != 200)
    return fail(ErrorCode::unavailable, fmt::format("Prometheus answered with HTTP {}", answer->status),
                "is it the URL of a Prometheus, without /api/v1?");
  return samples;
}

}  // namespace

class PrometheusSource::Impl {
 public:
  explicit Impl(PrometheusOptions options) : options_(std::move(options)) {
    Node& unknown = nodes_.emplace_back();
    unknown.name = options_.url;
    unknown.url = options_.url;
    unknown.problem = Error{ErrorCode::unavailable, "Prometheus has not answered yet", ""};
  }

  void start() {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      do {
        round(stop);
      } while (options_.clock->sleep_for(options_.interval, stop));
    });
  }

  std::vector<Node> nodes() const {
    const std::scoped_lock lock(mutex_);
    return nodes_;
  }

  bool asked_all() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  std::vector<net::HttpRequest> requests() const {
    std::vector<net::HttpRequest> all;
    const auto token = options_.token_file.empty() ? std::nullopt : read_line(options_.token_file);
    for (const std::string& query : prometheus_queries()) {
      net::HttpRequest& request = all.emplace_back();
      request.url = fmt::format("{}/api/v1/query?query={}", options_.url, percent_encoded(query));
      request.headers = {{"Accept", "application/json"}};
      if (token) request.headers.emplace_back("Authorization", "Bearer " + *token);
      request.timeout = options_.timeout;
      request.most_bytes = options_.most_bytes;
    }
    return all;
  }

  void round(const std::stop_token& stop) {
    const auto wanted = requests();
    const auto answers = options_.ask(wanted, static_cast<unsigned>(wanted.size()), stop);
    if (stop.stop_requested()) return;
    std::vector<PrometheusSample> samples;
    for (const auto& answer : answers) {
      auto part = samples_of(answer);
      if (!part) return lose(part.error());
      std::ranges::move(*part, std::back_inserter(samples));
    }
    take(nodes_of(samples, options_.clock->now()));
  }

  void lose(const Error& why) {
    const std::scoped_lock lock(mutex_);
    asked_ = true;
    for (Node& node : nodes_) node.problem = why;
  }

  /// A node that is down keeps what was known of it.
  void take(std::vector<Node> nodes) {
    const std::scoped_lock lock(mutex_);
    asked_ = true;
    for (Node& node : nodes) {
      if (node.reading || !node.problem) continue;
      const auto before = std::ranges::find(nodes_, node.url, &Node::url);
      if (before == nodes_.end()) continue;
      node.name = before->name;
      node.reading = before->reading;
      node.health = before->health;
      node.seen = before->seen;
    }
    nodes_ = std::move(nodes);
  }

  const PrometheusOptions options_;
  mutable std::mutex mutex_;
  std::vector<Node> nodes_;
  bool asked_ = false;
  std::jthread thread_;  ///< last: it has ended before what it uses is gone
};

PrometheusSource::PrometheusSource(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PrometheusSource::~PrometheusSource() = default;

Result<std::unique_ptr<PrometheusSource>> PrometheusSource::open(PrometheusOptions options) {
  if (!options.url.contains("://")) options.url = "http://" + options.url;
  while (options.url.ends_with('/')) options.url.pop_back();
  const bool has_host = options.url.starts_with("http://") || options.url.starts_with("https://");
  if (!has_host)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not an http(s) URL", printable(options.url)),
                "for example http://prometheus:9090");
  if (!options.token_file.empty() && !read_line(options.token_file))
    return fail(ErrorCode::invalid_argument, fmt::format("cannot read {}", printable(options.token_file.string())));
  if (!options.ask)
    options.ask = [](std::span<const net::HttpRequest> requests, unsigned at_once, const std::stop_token& stop) {
      return net::ask_all(requests, at_once, stop);
    };
  auto impl = std::make_unique<Impl>(std::move(options));
  impl->start();
  return std::unique_ptr<PrometheusSource>(new PrometheusSource(std::move(impl)));
}

std::vector<Node> PrometheusSource::nodes() const { return impl_->nodes(); }
bool PrometheusSource::asked_all() const { return impl_->asked_all(); }

}  // namespace gpuwarden::cluster
