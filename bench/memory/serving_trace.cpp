// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <random>

#include "memory/trace.hpp"

namespace gpuwarden::bench {
namespace {

constexpr unsigned kLayers = 16;
constexpr std::uint64_t kBytesPerToken = 2048;  ///< keys and values of one layer: 2 x 8 heads x 64 x 2 bytes
constexpr unsigned kMostRequests = 48;
constexpr std::uint64_t kHidden = 2048;
constexpr std::uint64_t kVocabulary = 128256;
constexpr unsigned kPage = 16;    ///< tokens in a block of the paged cache
constexpr unsigned kGrowth = 64;  ///< tokens by which a buffer grows

class Server {
 public:
  Server(unsigned seed, bool paged) : random_(seed), paged_(paged), builder_(paged ? "serving, paged" : "serving") {}

  void step() {
    if (requests_.size() < kMostRequests && random_() % 4 == 0) admit();
    temporaries(requests_.size());
    for (Request& request : requests_) {
      ++request.tokens;
      grow(request);
    }
    std::erase_if(requests_, [&](const Request& request) {
      if (request.tokens < request.last) return false;
      for (const std::uint64_t id : request.buffers) builder_.free(id);
      return true;
    });
  }

  Trace finish() { return builder_.finish(); }

 private:
  struct Request {
    std::uint64_t tokens = 0;
    std::uint64_t last = 0;      ///< it leaves with so many tokens
    std::uint64_t capacity = 0;  ///< tokens that its buffers hold
    std::vector<std::uint64_t> buffers;
  };

  /// mt19937 is the same everywhere; the library's distributions are not.
  std::uint64_t log_uniform(double least, double most) {
    const double unit = static_cast<double>(random_()) / 4294967296.0;
    return static_cast<std::uint64_t>(least * std::pow(most / least, unit));
  }

  std::uint64_t allocate(std::uint64_t size) {
    builder_.allocate(next_, size);
    return next_++;
  }

  void admit() {
    Request request;
    request.tokens = log_uniform(64, 4096);
    request.last = request.tokens + log_uniform(16, 1024);
    temporaries(request.tokens);
    grow(request);
    requests_.push_back(std::move(request));
  }

  /// Of a forward pass over so many tokens: hidden states, the inner product of a layer, logits of the last tokens.
  void temporaries(std::uint64_t tokens) {
    if (tokens == 0) return;
    const auto hidden = allocate(tokens * kHidden * 2);
    for (unsigned layer = 0; layer < kLayers; ++layer) {
      const auto inner = allocate(tokens * kHidden * 4 * 2);
      const auto next = allocate(tokens * kHidden * 2);
      builder_.free(inner);
      builder_.free(next);
    }
    const auto logits = allocate(std::min<std::uint64_t>(tokens, kMostRequests) * kVocabulary * 4);
    builder_.free(hidden);
    builder_.free(logits);
  }

  void grow(Request& request) {
    if (paged_) {
      for (; request.capacity < request.tokens; request.capacity += kPage)
        request.buffers.push_back(allocate(kPage * kBytesPerToken * kLayers));
      return;
    }
    if (request.capacity >= request.tokens) return;
    request.capacity = (request.tokens + kGrowth - 1) / kGrowth * kGrowth;
    request.buffers.resize(kLayers, 0);
    for (std::uint64_t& buffer : request.buffers) {
      const auto larger = allocate(request.capacity * kBytesPerToken);
      if (buffer != 0) builder_.free(buffer);
      buffer = larger;
    }
  }

  std::mt19937 random_;
  bool paged_;
  TraceBuilder builder_;
  std::vector<Request> requests_;
  std::uint64_t next_ = 1;
};

}  // namespace

Trace serving(unsigned steps, unsigned seed, bool paged) {
  Server server(seed, paged);
  for (unsigned step = 0; step < steps; ++step) server.step();
  return server.finish();
}

}  // namespace gpuwarden::bench
