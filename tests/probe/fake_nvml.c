/* SPDX-License-Identifier: Apache-2.0 */
/* An NVML without GPUs whose driver a test replaces by making files in $FAKE_NVML: "replaced" breaks the sessions that
   are open, "mismatch" keeps new ones from opening. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { success = 0, driver_mismatch = 18 };
static int opened_after;

static int has(const char* name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", getenv("FAKE_NVML"), name);
  return access(path, F_OK) == 0;
}

int nvmlInit_v2(void) {
  opened_after = has("replaced");
  return has("mismatch") ? driver_mismatch : success;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  snprintf(text, length, "%s", opened_after ? "580.65.06" : "550.54.15");
  return success;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 0;
  return has("replaced") && !opened_after ? driver_mismatch : success;
}
