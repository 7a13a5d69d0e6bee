// SPDX-License-Identifier: Apache-2.0
// A pool of GPU memory from C:
//   cc pool.c $(pkg-config --cflags --libs gpuwarden-memory) -o pool && ./pool
#include <gpuwarden/memory.h>
#include <stdio.h>

int main(void) {
  gpuwarden_pool_options options = GPUWARDEN_POOL_OPTIONS_INIT;
  gpuwarden_pool_status status = GPUWARDEN_POOL_STATUS_INIT;
  gpuwarden_pool* pool = NULL;
  void* address = NULL;
  options.limit = "50%";
  if (gpuwarden_pool_create(&options, &pool) != GPUWARDEN_OK ||
      gpuwarden_pool_allocate(pool, 100u << 20, NULL, &address) != GPUWARDEN_OK ||
      gpuwarden_pool_get_status(pool, &status) != GPUWARDEN_OK) {
    fprintf(stderr, "error: %s\n", gpuwarden_last_error());
    gpuwarden_pool_destroy(pool);
    return 3;
  }
  printf("%llu bytes live, %llu held, of %llu at most\n", (unsigned long long)status.live,
         (unsigned long long)status.reserved, (unsigned long long)status.limit);
  gpuwarden_pool_free(pool, address, NULL);
  gpuwarden_pool_destroy(pool);
  return 0;
}
