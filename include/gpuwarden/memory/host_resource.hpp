// SPDX-License-Identifier: Apache-2.0
// Host memory for the standard library's containers: pinned, so that the device copies it without a detour, and pooled,
// because pinning takes long.
//
//   const auto pinned = PinnedHostResource::open({}).value();
//   HostPoolResource pool(*pinned);
//   std::pmr::vector<float> values(1'000'000, &pool);
#pragma once

#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <vector>

#include "gpuwarden/memory/cuda_upstream.hpp"

namespace gpuwarden::memory {

/// cuMemHostAlloc at every call: page-locked memory that every context may use. Throws std::bad_alloc when there is
/// none and for alignments above a page (4 KiB). Safe to use from several threads.
class PinnedHostResource final : public std::pmr::memory_resource {
 public:
  /// Fails as CudaUpstream::open() does.
  static Result<std::unique_ptr<PinnedHostResource>> open(const CudaOptions& options);

 private:
  explicit PinnedHostResource(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::shared_ptr<const CudaDevice> device_;
};

/// Keeps what is given back for the next request of its size class: up to 1 MiB in the standard library's pools, above
/// in classes of an eighth of a power of two. When the upstream has no more, what is kept goes back first. Safe to use
/// from several threads if its upstream, which must outlive it, is.
class HostPoolResource final : public std::pmr::memory_resource {
 public:
  explicit HostPoolResource(std::pmr::memory_resource& upstream);
  HostPoolResource(const HostPoolResource&) = delete;
  HostPoolResource& operator=(const HostPoolResource&) = delete;
  /// Gives everything back, in use or not, but for large blocks in use.
  ~HostPoolResource() override;

  /// Gives all large blocks back that nobody uses; how much that was.
  Bytes trim();
  /// Large blocks that nobody uses.
  Bytes cached() const;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
  void* take_cached(std::size_t bytes);

  std::pmr::memory_resource& upstream_;
  std::pmr::synchronized_pool_resource small_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> large_;  ///< by size class
};

}  // namespace gpuwarden::memory
