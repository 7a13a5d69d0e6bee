// SPDX-License-Identifier: Apache-2.0
// Streams that come late while others look addresses up, and a host that has no memory left.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/two_streams.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::memory {
namespace {

// The 33rd stream has the pool reserve more address space: what is looked up meanwhile must not see half of that. The
// thread sanitizer sees more here than the expectations.
TEST(LateStreams, ComeWhileOthersLookAddressesUp) {
  for (unsigned round = 0; round < testing::repetitions(20); ++round) {
    ArithmeticUpstream upstream(1_GiB);
    const auto pool = Pool::create(upstream, {}).value();
    std::atomic<std::uint64_t> latest = pool->allocate(1_KiB, StreamId{1000}).value().value;
    std::jthread other([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        EXPECT_EQ(pool->size_of({latest.load()}).value_or(0_B), 1_KiB);
        EXPECT_EQ(pool->deallocate({latest.load() ^ (std::uint64_t{1} << 46U)}, kStream).error().code,
                  ErrorCode::invalid_argument);
      }
    });
    for (std::uint64_t stream = 1; stream <= 40; ++stream)
      latest = pool->allocate(1_KiB, StreamId{stream}).value().value;
    other.request_stop();
    other.join();
    EXPECT_EQ(pool->status().live_blocks, 41U);
    EXPECT_TRUE(pool->check());
  }
}

std::uint64_t address_space_in_use() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Cuts small blocks from a large one until the host has no memory for another node; whether it came to that.
bool starve(Pool& pool, std::vector<DeviceAddress>& live) {
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  const rlimit little{.rlim_cur = address_space_in_use(), .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_AS, &little);
  bool starved = false;
  try {
    while (live.size() < live.capacity()) live.push_back(pool.allocate(512_B, kStream).value());
  } catch (const std::bad_alloc&) {
    starved = true;
  }
  ::setrlimit(RLIMIT_AS, &before);
  return starved;
}

/// Frees every other one of many small blocks: free blocks of one size, two of which never lie side by side.
bool make_gaps(Pool& pool, unsigned count, std::vector<DeviceAddress>& live) {
  std::vector<DeviceAddress> gaps;
  gaps.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    gaps.push_back(pool.allocate(1_KiB, kStream).value());
    live.push_back(pool.allocate(512_B, kStream).value());
  }
  for (const DeviceAddress gap : gaps) {
    if (!pool.deallocate(gap, kStream)) return false;
  }
  return true;
}

/// 0, or at which point it went wrong. What starves cuts one of so many `gaps` of one size, or one large block.
int go_on_after_starving(unsigned gaps) {
  ArithmeticUpstream upstream(4_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  const auto large = pool->allocate(1_GiB, kStream);
  if (!large || !pool->deallocate(*large, kStream)) return 1;
  std::vector<DeviceAddress> live;
  live.reserve(1'500'000);
  if (!make_gaps(*pool, gaps, live)) return 6;
  if (!starve(*pool, live)) return 2;
  ::alarm(60);  // ends what waits for a lock that nobody will let go of
  bool good = true;
  std::jthread([&] {
    good = pool->allocate(512_B, kStream).has_value() && pool->deallocate(live.back(), kStream).has_value();
  }).join();
  if (!good) return 3;
  live.pop_back();
  for (const DeviceAddress address : live) {
    if (!pool->deallocate(address, kStream)) return 4;
  }
  return pool->check() && pool->status().live_blocks == 1 ? 0 : 5;
}

TEST(StarvingHost, IsNoReasonToKeepALock) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer needs more address space than can be forbidden";
  // With the fewer gaps it is the index that cannot grow, with the more the nodes.
  for (const unsigned gaps : {0U, 300'000U, 400'000U}) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(go_on_after_starving(gaps));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << gaps << " gaps: " << (WIFSIGNALED(status) ? "signal " : "point ")
                         << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
}

}  // namespace
}  // namespace gpuwarden::memory
