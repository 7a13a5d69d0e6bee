// SPDX-License-Identifier: Apache-2.0
// Compiled, never run: whether the resource is what this CCCL takes for one, and can be called in its spelling.
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE

#include "gpuwarden/memory/cccl.hpp"

#ifndef GPUWARDEN_HAS_CCCL
#error "CCCL's headers were found, but the resource was not compiled"
#endif

namespace gpuwarden::memory {

#if CCCL_VERSION < 3002000
static_assert(cuda::mr::async_resource<CcclResource>);
static_assert(cuda::mr::async_resource_with<CcclResource, cuda::mr::device_accessible>);
static_assert(!cuda::mr::async_resource_with<CcclResource, cuda::mr::host_accessible>);

/// As a library of that time takes one.
void* take(cuda::mr::async_resource_ref<cuda::mr::device_accessible> resource, cuda::stream_ref stream) {
  void* const pointer = resource.allocate_async(1000, 256, stream);
  resource.deallocate_async(pointer, 1000, 256, stream);
  return resource.allocate(1000, 256);
}
#else
static_assert(cuda::mr::resource<CcclResource>);
static_assert(cuda::mr::resource_with<CcclResource, cuda::mr::device_accessible>);

void* take(cuda::mr::resource_ref<cuda::mr::device_accessible> resource, cuda::stream_ref stream) {
  void* const pointer = resource.allocate(stream, 1000, 256);
  resource.deallocate(stream, pointer, 1000, 256);
  return resource.allocate_sync(1000, 256);
}
#endif

void* use(Pool& pool, Upstream& device, cuda::stream_ref stream) {
  CcclResource resource(pool, device);
  return take(resource, stream);
}

}  // namespace gpuwarden::memory
