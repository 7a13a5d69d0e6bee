// SPDX-License-Identifier: Apache-2.0
// Host allocators as yardsticks for the cost of bookkeeping: blocks of at most 1 KiB, whatever was asked for. malloc is
// whichever library the program was linked with.
#include <dlfcn.h>

#include <cstdlib>
#include <memory_resource>

#include "memory/adapted.hpp"

namespace gpuwarden::bench {
namespace {

/// Folds a size into 1 to 1,024 bytes, equal ones into equal ones.
std::uint64_t folded(std::uint64_t size) { return 1 + (size / 512) % 1024; }

class HostMalloc {
 public:
  explicit HostMalloc(const DeviceSpec&) {}
  void allocate(Slot& slot, std::uint64_t size, std::uint32_t) {
    void* const address = std::malloc(folded(size));
    if (address == nullptr) throw OutOfMemory("malloc ran out of memory");
    slot.address = reinterpret_cast<std::uint64_t>(address);
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer
  void free(Slot& slot, std::uint32_t) { std::free(reinterpret_cast<void*>(slot.address)); }
  Footprint footprint() { return {}; }
  Driver* driver() { return nullptr; }
};

template <class Pool>
class PmrPool {
 public:
  explicit PmrPool(const DeviceSpec&) {}
  void allocate(Slot& slot, std::uint64_t size, std::uint32_t) {
    slot = {reinterpret_cast<std::uint64_t>(pool_.allocate(folded(size))), size, 0};
  }
  void free(Slot& slot, std::uint32_t) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer
    pool_.deallocate(reinterpret_cast<void*>(slot.address), folded(slot.size));
  }
  Footprint footprint() { return {}; }
  Driver* driver() { return nullptr; }

 private:
  Pool pool_;
};

std::string malloc_name() {
  if (::dlsym(RTLD_DEFAULT, "mi_version") != nullptr) return "mimalloc (host, <= 1 KiB)";
  if (::dlsym(RTLD_DEFAULT, "mallctl") != nullptr) return "jemalloc (host, <= 1 KiB)";
  return "glibc malloc (host, <= 1 KiB)";
}

template <class Allocator>
Contender contender(std::string name, bool threads) {
  return {std::move(name),
          Contender::Kind::yardstick,
          {.streams = false, .threads = threads, .device = false},
          [](const DeviceSpec& spec) { return std::make_unique<Adapted<Allocator>>(spec); }};
}

}  // namespace

std::vector<Contender> host_contenders() {
  return {contender<HostMalloc>(malloc_name(), true),
          contender<PmrPool<std::pmr::unsynchronized_pool_resource>>("std::pmr unsynchronized (host)", false),
          contender<PmrPool<std::pmr::synchronized_pool_resource>>("std::pmr synchronized (host)", true)};
}

}  // namespace gpuwarden::bench
