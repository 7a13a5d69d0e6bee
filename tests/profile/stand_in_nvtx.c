/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX's library as far as the profiler calls it: it counts. */
#include <stdint.h>

static uint64_t begun;
static uint64_t ended;

__attribute__((visibility("default"))) uint64_t nvtxRangeStartA(const char* name) { return name[0] != 0 ? ++begun : 0; }
__attribute__((visibility("default"))) void nvtxRangeEnd(uint64_t range) { ended += range; }
__attribute__((visibility("default"))) uint64_t stand_in_nvtx_ended(void) { return ended; }
