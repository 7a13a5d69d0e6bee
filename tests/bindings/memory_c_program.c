// SPDX-License-Identifier: Apache-2.0
// A program in C that uses the pool; it says what it expected and did not get, and ends with 1.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwarden/memory.h"

static int failures = 0;

static void expect(int good, const char* what) {
  if (good) return;
  ++failures;
  fprintf(stderr, "not so: %s (last error: %s)\n", what, gpuwarden_last_error());
}

static void refuses_what_makes_no_sense(void) {
  gpuwarden_pool_options options = GPUWARDEN_POOL_OPTIONS_INIT;
  gpuwarden_pool* pool = (gpuwarden_pool*)&options;
  expect(gpuwarden_pool_create(NULL, &pool) == GPUWARDEN_INVALID_ARGUMENT, "no options");
  expect(gpuwarden_pool_create(&options, NULL) == GPUWARDEN_INVALID_ARGUMENT, "nowhere to put the pool");
  options.size = 3;
  expect(gpuwarden_pool_create(&options, &pool) == GPUWARDEN_INVALID_ARGUMENT, "a size that cannot be");
  expect(pool == NULL, "no pool after a failure");
  options.size = sizeof options;
  options.device = 99;
  expect(gpuwarden_pool_create(&options, &pool) == GPUWARDEN_NOT_FOUND, "no such device");
  expect(strstr(gpuwarden_last_error(), "99") != NULL, "the device is named");
  options.device = 0;
  options.strategy = "reckless";
  expect(gpuwarden_pool_create(&options, &pool) == GPUWARDEN_INVALID_ARGUMENT, "no such strategy");
  expect(strstr(gpuwarden_last_error(), "balanced") != NULL, "those that there are, are named");
  options.strategy = NULL;
  options.limit = "lots";
  expect(gpuwarden_pool_create(&options, &pool) == GPUWARDEN_INVALID_ARGUMENT, "no such limit");
  options.limit = NULL;
  options.library = "/nowhere/libcuda.so.1";
  expect(gpuwarden_pool_create(&options, &pool) == GPUWARDEN_NOT_FOUND, "no such library");
}

/* A newer program's options: longer than the library's, with something in what it does not know. */
static void reads_options_of_other_versions(void) {
  struct {
    gpuwarden_pool_options known;
    uint64_t later;
  } options = {GPUWARDEN_POOL_OPTIONS_INIT, 0};
  gpuwarden_pool* pool = NULL;
  options.known.size = sizeof options;
  expect(gpuwarden_pool_create(&options.known, &pool) == GPUWARDEN_OK, "longer options with nothing in them");
  gpuwarden_pool_destroy(pool);
  options.later = 1;
  expect(gpuwarden_pool_create(&options.known, &pool) == GPUWARDEN_INVALID_ARGUMENT, "unknown options that are set");
  /* An older program's: only up to the strategy. */
  options.known.size = offsetof(gpuwarden_pool_options, limit);
  options.known.limit = "no limit at all";
  expect(gpuwarden_pool_create(&options.known, &pool) == GPUWARDEN_OK, "shorter options");
  gpuwarden_pool_destroy(pool);
}

static void gives_out_and_takes_back(gpuwarden_pool* pool) {
  void* first = NULL;
  void* second = NULL;
  void* none = &first;
  uint64_t bytes = 0;
  expect(gpuwarden_pool_allocate(pool, 5 << 20, NULL, &first) == GPUWARDEN_OK, "5 MiB");
  expect(gpuwarden_pool_allocate(pool, 100, NULL, &second) == GPUWARDEN_OK, "100 bytes");
  memset(first, 1, 5 << 20); /* the simulation's memory can be written by the host */
  expect(gpuwarden_pool_size_of(pool, second, &bytes) == GPUWARDEN_OK && bytes == 100, "size_of");
  expect(gpuwarden_pool_allocate(pool, 0, NULL, &none) == GPUWARDEN_INVALID_ARGUMENT && none == NULL, "0 bytes");
  expect(gpuwarden_pool_allocate(pool, UINT64_MAX, NULL, &none) != GPUWARDEN_OK && none == NULL, "all bytes");
  expect(gpuwarden_pool_allocate(pool, 1, (void*)2, &none) == GPUWARDEN_INVALID_ARGUMENT, "the per-thread stream");
  expect(gpuwarden_pool_free(pool, first, NULL) == GPUWARDEN_OK, "free");
  expect(gpuwarden_pool_free(pool, first, NULL) == GPUWARDEN_INVALID_ARGUMENT, "free twice");
  expect(gpuwarden_pool_free(pool, &first, NULL) == GPUWARDEN_INVALID_ARGUMENT, "free what is not the pool's");
  expect(gpuwarden_pool_free(pool, NULL, NULL) == GPUWARDEN_OK, "free nothing");
  expect(gpuwarden_pool_free(pool, second, NULL) == GPUWARDEN_OK, "free the second");
}

static void tells_how_it_is(gpuwarden_pool* pool) {
  gpuwarden_pool_status status = GPUWARDEN_POOL_STATUS_INIT;
  void* none = NULL;
  uint64_t released = 0;
  expect(gpuwarden_pool_get_status(pool, &status) == GPUWARDEN_OK, "status");
  expect(status.size == sizeof status, "its size is as given");
  expect(status.live == 0 && status.live_blocks == 0 && status.allocations == 2 && status.frees == 2, "books");
  expect(status.reserved >= 5 << 20 && status.limit == (uint64_t)1 << 30, "what is held, and the limit");
  expect(status.device_total - status.device_free >= status.reserved, "the device's figures");
  expect(gpuwarden_pool_allocate(pool, (uint64_t)2 << 30, NULL, &none) == GPUWARDEN_OUT_OF_MEMORY, "above the limit");
  expect(strstr(gpuwarden_last_error(), "limit") != NULL, "the report names the limit");
  expect(gpuwarden_pool_trim(pool, 0, &released) == GPUWARDEN_OK && released == status.reserved, "trim");
  status.size = offsetof(gpuwarden_pool_status, peak_reserved);
  status.live = 77;
  expect(gpuwarden_pool_get_status(pool, &status) == GPUWARDEN_OK && status.reserved == 0 && status.live == 77,
         "a shorter status is filled as far as it goes");
}

static void takes_other_limits(gpuwarden_pool* pool) {
  gpuwarden_pool_status status = GPUWARDEN_POOL_STATUS_INIT;
  void* first = NULL;
  void* second = NULL;
  expect(gpuwarden_pool_set_limit(NULL, "1GiB", NULL) == GPUWARDEN_INVALID_ARGUMENT, "no pool to limit");
  expect(gpuwarden_pool_set_limit(pool, "lots", NULL) == GPUWARDEN_INVALID_ARGUMENT, "no such limit");
  expect(gpuwarden_pool_set_limit(pool, NULL, "little") == GPUWARDEN_INVALID_ARGUMENT, "no such soft limit");
  expect(gpuwarden_pool_allocate(pool, 40 << 20, NULL, &first) == GPUWARDEN_OK, "40 MiB");
  expect(gpuwarden_pool_allocate(pool, 60 << 20, NULL, &second) == GPUWARDEN_OK, "60 MiB");
  expect(gpuwarden_pool_set_limit(pool, "90MiB", NULL) == GPUWARDEN_OUT_OF_MEMORY, "less than is live");
  expect(strstr(gpuwarden_last_error(), "104857600 are live") != NULL, "what is live is told");
  expect(gpuwarden_pool_free(pool, second, NULL) == GPUWARDEN_OK, "free 60 MiB");
  expect(gpuwarden_pool_set_limit(pool, "50MiB", "45MiB") == GPUWARDEN_OK, "less than is held");
  expect(gpuwarden_pool_get_status(pool, &status) == GPUWARDEN_OK, "status");
  expect(status.limit == 50 << 20 && status.reserved <= 50 << 20, "what was idle went back");
  expect(gpuwarden_pool_allocate(pool, 20 << 20, NULL, &second) == GPUWARDEN_OUT_OF_MEMORY, "above the new limit");
  expect(gpuwarden_pool_set_limit(pool, NULL, NULL) == GPUWARDEN_OK, "no limit");
  expect(gpuwarden_pool_allocate(pool, (uint64_t)2 << 30, NULL, &second) == GPUWARDEN_OK, "above the first limit");
  expect(gpuwarden_pool_free(pool, first, NULL) == GPUWARDEN_OK, "free 40 MiB");
  expect(gpuwarden_pool_free(pool, second, NULL) == GPUWARDEN_OK, "free 2 GiB");
}

int main(void) {
  gpuwarden_pool_options options = GPUWARDEN_POOL_OPTIONS_INIT;
  gpuwarden_pool* pool = NULL;
  expect(strchr(gpuwarden_memory_version(), '.') != NULL, "a version");
  refuses_what_makes_no_sense();
  reads_options_of_other_versions();
  options.limit = "1GiB";
  options.strategy = "greedy";
  if (gpuwarden_pool_create(&options, &pool) != GPUWARDEN_OK) {
    fprintf(stderr, "no pool: %s\n", gpuwarden_last_error());
    return 1;
  }
  gives_out_and_takes_back(pool);
  tells_how_it_is(pool);
  takes_other_limits(pool);
  gpuwarden_pool_destroy(pool);
  gpuwarden_pool_destroy(NULL);
  if (failures == 0) puts("all as expected");
  return failures != 0;
}
