// SPDX-License-Identifier: Apache-2.0
// Buffers with an owner, and buffers that may move. The device is a file in host memory, so that this runs without a
// GPU; with one, memory::CudaUpstream::open() takes its place and the rest stays as it is.
#include <cstdio>
#include <vector>

#include "gpuwarden/memory/buffer.hpp"
#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/movable.hpp"
#include "gpuwarden/memory/pool.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::memory;

constexpr StreamId kStream{1};

/// An allocation that goes back by itself, and grows with what is in it.
Result<void> own_a_buffer(MemfdUpstream& device, Pool& pool) {
  GPUWARDEN_TRY(auto buffer, DeviceBuffer<Pool>::make(pool, 1_MiB, kStream));
  const auto copy = [&](DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) {
    return device.copy(to, from, size, stream);
  };
  GPUWARDEN_CHECK(buffer.resize(4_MiB, copy));
  std::printf("a buffer of %llu bytes; the pool holds %llu\n", static_cast<unsigned long long>(buffer.size().value),
              static_cast<unsigned long long>(pool.status().reserved.value));
  return {};
}

/// Every other one of many buffers goes; those that stay move together, and pages become free.
Result<void> move_buffers(Pool& pool) {
  MovableMemory memory(pool);
  std::vector<MovableId> ids;
  for (int i = 0; i < 200; ++i) {
    GPUWARDEN_TRY(ids.emplace_back(), memory.allocate(300_KiB, kStream));
  }
  for (std::size_t i = 0; i < ids.size(); i += 2) GPUWARDEN_CHECK(memory.deallocate(ids[i]));
  GPUWARDEN_TRY(const Bytes before, pool.trim());
  while (true) {
    GPUWARDEN_TRY(const DefragmentStatistics pass, memory.defragment());
    if (pass.moves == 0) break;
  }
  GPUWARDEN_TRY(const Bytes after, pool.trim());
  std::printf("given back without moving anything: %llu bytes; after %llu moves: %llu more\n",
              static_cast<unsigned long long>(before.value), static_cast<unsigned long long>(memory.statistics().moves),
              static_cast<unsigned long long>(after.value));
  return {};
}

Result<void> run() {
  GPUWARDEN_TRY(const auto device, MemfdUpstream::open(256_MiB));
  GPUWARDEN_TRY(const auto pool, Pool::create(*device, {}));
  GPUWARDEN_CHECK(own_a_buffer(*device, *pool));
  return move_buffers(*pool);
}

}  // namespace

int main() {
  const auto done = run();
  if (!done) std::fprintf(stderr, "error: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
