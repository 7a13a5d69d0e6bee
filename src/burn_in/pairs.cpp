// SPDX-License-Identifier: Apache-2.0
#include "burn_in/pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "burn_in/bench.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::burn_in {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{256} << 20U;
constexpr std::size_t kFewestBytes = std::size_t{1} << 20U;
/// Long enough for a link to leave its idle state, short enough for the 56 pairs of a node.
constexpr std::chrono::milliseconds kPairTime{200};

/// A GPU with a context, a stream and a block of memory.
struct Peer {
  int ordinal;
  cuda::Device device;
  cuda::Context context;
  Bench bench;
  Buffer block;
};

Result<Peer> open_peer(const cuda::Functions& cuda, int ordinal, Clock::SteadyTime deadline, const Options& options) {
  cuda::Device device = 0;
  GPUWARDEN_CUDA(cuda, device, &device, ordinal);
  GPUWARDEN_TRY(Bench bench, Bench::open(cuda, device, deadline, *options.clock));
  bench.pace = options.pace;
  cuda::Context context = nullptr;
  GPUWARDEN_CUDA(cuda, retain_context, &context, device);
  GPUWARDEN_TRY(const Bench::Memory memory, bench.memory());
  const std::size_t bytes = std::max(std::min(kMostBytes, memory.free / 4), kFewestBytes);
  GPUWARDEN_TRY(Buffer block, Buffer::allocate(cuda, bytes));
  GPUWARDEN_CUDA(cuda, set_bytes, block.address(), 0xA5, block.bytes(), bench.stream());
  GPUWARDEN_CHECK(bench.finish());
  return Peer{ordinal, device, context, std::move(bench), std::move(block)};
}

/// Whether `from` writes into the memory of `to` itself.
Result<bool> reach(const cuda::Functions& cuda, const Peer& from, const Peer& to) {
  int can = 0;
  GPUWARDEN_CUDA(cuda, can_access_peer, &can, from.device, to.device);
  if (can == 0) return false;
  const cuda::Result code = cuda.enable_peer(to.context, 0);
  if (code == cuda::kSuccess || code == cuda::kPeerAccessAlreadyEnabled) return true;
  return std::unexpected(cuda_error(cuda, "enable_peer", code));
}

Result<Json> copy(const cuda::Functions& cuda, const Peer& from, const Peer& to) {
  GPUWARDEN_CUDA(cuda, set_context, from.context);
  GPUWARDEN_TRY(const bool direct, reach(cuda, from, to));
  const std::size_t bytes = std::min(from.block.bytes(), to.block.bytes());
  GPUWARDEN_TRY(const Timing timing, from.bench.time(
                                         [&]() -> Result<void> {
                                           GPUWARDEN_CUDA(cuda, peer_copy, to.block.address(), to.context,
                                                          from.block.address(), from.context, bytes,
                                                          from.bench.stream());
                                           return {};
                                         },
                                         kPairTime));
  return Json{{"direct", direct},
              {"value", static_cast<double>(bytes) / timing.best / 1e9},
              {"method", fmt::format("copies of {}, {}", format_size(Bytes(bytes)),
                                     direct ? "peer access" : "through the host's memory")}};
}

}  // namespace

Result<void> copy_between(const cuda::Functions& cuda, const std::vector<int>& ordinals, const Options& options,
                          const std::function<void(const Json&)>& tell) {
  constexpr double kOwnShare = 0.9;  // it ends by itself a little before it is ended
  const auto end = options.clock->now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                              options.deadline * (kOwnShare * static_cast<double>(ordinals.size())));
  std::vector<Peer> peers;
  peers.reserve(ordinals.size());
  for (const int ordinal : ordinals) {
    GPUWARDEN_TRY(Peer peer, open_peer(cuda, ordinal, end, options));
    peers.push_back(std::move(peer));
  }
  for (const Peer& from : peers) {
    for (const Peer& to : peers) {
      if (from.ordinal == to.ordinal) continue;
      tell({{"begin", {{"from", from.ordinal}, {"to", to.ordinal}}}});
      const auto found = copy(cuda, from, to);
      tell({{"pair", found ? *found : Json{{"problem", found.error().message}}}});
    }
  }
  return {};
}

}  // namespace gpuwarden::burn_in
