// SPDX-License-Identifier: Apache-2.0
// gpuwarden's pool of GPU memory for C and for whatever calls C. The library is libgpuwarden-memory; it opens
// libcuda.so.1 by itself and links nothing of NVIDIA's.
//
//   gpuwarden_pool_options options = GPUWARDEN_POOL_OPTIONS_INIT;
//   gpuwarden_pool* pool = NULL;
//   if (gpuwarden_pool_create(&options, &pool) != GPUWARDEN_OK) fprintf(stderr, "%s\n", gpuwarden_last_error());
//
// The environment may ask for more: GPUWARDEN_MEMORY_STATUS (whether `gpuwarden memory` sees the pool; on unless off),
// GPUWARDEN_MEMORY_SNAPSHOT (a file for snapshots); docs/memory.md has them.
//
// Structures begin with their size, so that a program and a library of different versions understand each other: what a
// shorter one does not have is taken as 0; what a longer one has beyond must be 0 going in, and is left alone coming
// out.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What a call came to. The sentence to anything but GPUWARDEN_OK is gpuwarden_last_error()'s.
typedef enum gpuwarden_result {
  GPUWARDEN_OK = 0,
  GPUWARDEN_INVALID_ARGUMENT = 1,   ///< the caller's mistake: size 0, freed twice, a foreign pointer, a NULL
  GPUWARDEN_OUT_OF_MEMORY = 2,      ///< the device or the limit leaves no more; the sentence is a report
  GPUWARDEN_UNAVAILABLE = 3,        ///< no driver, too old a one, the context is gone, a forked child
  GPUWARDEN_NOT_FOUND = 4,          ///< no CUDA library, no such device
  GPUWARDEN_PERMISSION_DENIED = 5,  ///< the device's compute mode allows no context
  GPUWARDEN_FAILED = 6              ///< anything else
} gpuwarden_result;

/// A pool on one device. Safe to use from several threads.
typedef struct gpuwarden_pool gpuwarden_pool;

typedef struct gpuwarden_pool_options {
  size_t size;               ///< sizeof(gpuwarden_pool_options)
  const char* uuid;          ///< "GPU-..."; NULL: the device of `device`
  const char* strategy;      ///< "balanced", "greedy", ...; NULL: the default
  const char* limit;         ///< "80%", "0.8" or "60GiB" of the device at most; NULL: all of it
  const char* library;       ///< CUDA's driver library; NULL: libcuda.so.1
  uint64_t keep_free;        ///< bytes that stay free on the device for others
  uint32_t device;           ///< CUDA's ordinal, among the visible devices
  uint32_t wait_for_others;  ///< milliseconds to wait for other processes' memory before giving up
  uint64_t trim_after;  ///< what was not needed for so many milliseconds goes back to the device in the background;
                        ///< 0: nothing does
} gpuwarden_pool_options;

#define GPUWARDEN_POOL_OPTIONS_INIT {sizeof(gpuwarden_pool_options), NULL, NULL, NULL, NULL, 0, 0, 0, 0}

/// All sizes in bytes.
typedef struct gpuwarden_pool_status {
  size_t size;        ///< sizeof(gpuwarden_pool_status)
  uint64_t reserved;  ///< physical memory that the pool holds
  uint64_t peak_reserved;
  uint64_t live;  ///< given out, in grains of 512 bytes
  uint64_t peak_live;
  uint64_t cached;        ///< kept for quick reuse
  uint64_t largest_free;  ///< the largest free block that is not kept for a captured graph
  uint64_t limit;
  uint64_t live_blocks;
  uint64_t allocations;
  uint64_t frees;
  uint64_t driver_calls;
  uint64_t out_of_memory;  ///< requests that were refused for want of memory
  uint64_t device_total;
  uint64_t device_free;
} gpuwarden_pool_status;

#define GPUWARDEN_POOL_STATUS_INIT {sizeof(gpuwarden_pool_status), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/// Makes a pool in the device's primary context, which the CUDA runtime uses as well. `*pool` is NULL after a failure.
gpuwarden_result gpuwarden_pool_create(const gpuwarden_pool_options* options, gpuwarden_pool** pool);
/// Gives all memory back, live or not, after the streams' work on it. NULL is allowed.
void gpuwarden_pool_destroy(gpuwarden_pool* pool);

/// `bytes` of device memory for work on `stream` (a CUstream or cudaStream_t; NULL: the legacy default stream), aligned
/// to 512 bytes. `*address` is NULL after a failure.
gpuwarden_result gpuwarden_pool_allocate(gpuwarden_pool* pool, uint64_t bytes, void* stream, void** address);
/// Gives memory back as of the work submitted to `stream` so far. NULL is allowed.
gpuwarden_result gpuwarden_pool_free(gpuwarden_pool* pool, void* address, void* stream);
/// What was asked for when `address` was given out.
gpuwarden_result gpuwarden_pool_size_of(gpuwarden_pool* pool, const void* address, uint64_t* bytes);

/// Gives idle memory back to the device until at most `keep` bytes are held. `released` may be NULL.
gpuwarden_result gpuwarden_pool_trim(gpuwarden_pool* pool, uint64_t keep, uint64_t* released);
/// Puts other limits in place of those that hold: "80%", "0.8" or "60GiB" of the device at most, and (`soft_limit`)
/// from where on idle memory is asked before more is taken; NULL: none. Where more is held, idle memory goes back
/// first; for that it waits for the streams' work if it has to. GPUWARDEN_OUT_OF_MEMORY: what is live exceeds the
/// limit, and the old ones stay.
gpuwarden_result gpuwarden_pool_set_limit(gpuwarden_pool* pool, const char* limit, const char* soft_limit);
gpuwarden_result gpuwarden_pool_get_status(gpuwarden_pool* pool, gpuwarden_pool_status* status);

/// Why this thread's last call that failed did so, and what to do; empty if none has. Valid until the thread's next
/// call that fails.
const char* gpuwarden_last_error(void);
/// "0.1.0".
const char* gpuwarden_memory_version(void);

#ifdef __cplusplus
}
#endif
