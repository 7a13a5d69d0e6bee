// SPDX-License-Identifier: Apache-2.0
// VulkanMemoryAllocator's virtual block: TLSF over one range of addresses, with no device, streams or statistics. What
// it reserves is the highest address in use, in pages of 2 MiB.
#include <algorithm>
#include <unordered_map>

#include "memory/adapted.hpp"

#define VMA_STATIC_VULKAN_FUNCTIONS 0
#define VMA_DYNAMIC_VULKAN_FUNCTIONS 0
#define VMA_IMPLEMENTATION
#include <vk_mem_alloc.h>

namespace gpuwarden::bench {
namespace {

/// Its own interface gives back by handle; by address it needs a map beside it.
template <bool kHandles>
class VmaBlock {
 public:
  explicit VmaBlock(const DeviceSpec& spec) : capacity_(spec.capacity) {
    VmaVirtualBlockCreateInfo info{};
    info.size = spec.capacity;
    if (vmaCreateVirtualBlock(&info, &block_) != VK_SUCCESS) throw OutOfMemory("VMA made no virtual block");
  }
  VmaBlock(const VmaBlock&) = delete;
  VmaBlock& operator=(const VmaBlock&) = delete;
  ~VmaBlock() {
    vmaClearVirtualBlock(block_);
    vmaDestroyVirtualBlock(block_);
  }

  void allocate(Slot& slot, std::uint64_t size, std::uint32_t) {
    VmaVirtualAllocationCreateInfo info{};
    info.size = round_up(size, 256);
    info.alignment = 256;
    VmaVirtualAllocation allocation{};
    VkDeviceSize offset = 0;
    if (vmaVirtualAllocate(block_, &info, &allocation, &offset) != VK_SUCCESS)
      throw OutOfMemory("VMA's virtual block is full");
    reserved_ = std::max(reserved_, std::min(capacity_, round_up(offset + info.size, 2 * kMiB)));
    slot.address = offset + 1;
    if constexpr (kHandles) {
      static_assert(sizeof(allocation) == sizeof(slot.handle));
      slot.handle = reinterpret_cast<std::uint64_t>(allocation);
    } else {
      allocations_[slot.address] = allocation;
    }
  }

  void free(Slot& slot, std::uint32_t) {
    if constexpr (kHandles) {
      vmaVirtualFree(block_, reinterpret_cast<VmaVirtualAllocation>(slot.handle));
    } else {
      const auto found = allocations_.find(slot.address);
      vmaVirtualFree(block_, found->second);
      allocations_.erase(found);
    }
  }

  Footprint footprint() { return {reserved_, reserved_, {}, std::nullopt}; }
  Driver* driver() { return nullptr; }

 private:
  VmaVirtualBlock block_ = nullptr;
  std::unordered_map<std::uint64_t, VmaVirtualAllocation> allocations_;
  std::uint64_t capacity_;
  std::uint64_t reserved_ = 0;
};

template <bool kHandles>
Contender contender(std::string name) {
  return {std::move(name),
          Contender::Kind::library,
          {.streams = false, .threads = false, .calls = false},
          [](const DeviceSpec& spec) { return std::make_unique<Adapted<VmaBlock<kHandles>>>(spec); }};
}

}  // namespace

std::vector<Contender> vma_contenders() {
  return {contender<false>("VMA virtual block"), contender<true>("VMA virtual block, handles")};
}

}  // namespace gpuwarden::bench
