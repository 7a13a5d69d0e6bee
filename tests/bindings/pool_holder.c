// SPDX-License-Identifier: Apache-2.0
// Holds memory of a pool while it runs the shell command in its first argument; ends as that does. With "leave" behind
// it ends without destroying its pool.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "gpuwarden/memory.h"

int main(int count, char** words) {
  gpuwarden_pool_options options = GPUWARDEN_POOL_OPTIONS_INIT;
  gpuwarden_pool* pool = NULL;
  void* kept = NULL;
  void* freed = NULL;
  int status;
  if (count < 2) return 2;
  options.limit = "1GiB";
  if (gpuwarden_pool_create(&options, &pool) != GPUWARDEN_OK ||
      gpuwarden_pool_allocate(pool, 40 << 20, NULL, &kept) != GPUWARDEN_OK ||
      gpuwarden_pool_allocate(pool, 100 << 20, NULL, &freed) != GPUWARDEN_OK ||
      gpuwarden_pool_free(pool, freed, NULL) != GPUWARDEN_OK) {
    fprintf(stderr, "%s\n", gpuwarden_last_error());
    return 3;
  }
  fflush(NULL);
  status = system(words[1]);
  if (count > 2 && strcmp(words[2], "oom") == 0)
    if (gpuwarden_pool_allocate(pool, (uint64_t)2 << 30, NULL, &freed) != GPUWARDEN_OUT_OF_MEMORY) return 4;
  if (count > 2 && strcmp(words[2], "leave") == 0) return WEXITSTATUS(status);
  gpuwarden_pool_destroy(pool);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}
