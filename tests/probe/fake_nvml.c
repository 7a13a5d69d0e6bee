/* SPDX-License-Identifier: Apache-2.0 */
/* An NVML of $FAKE_NVML_GPUS GPUs (none) that a test steers by making files in $FAKE_NVML: "replaced" breaks the
   sessions that are open, "mismatch" keeps new ones from opening, "lost" loses GPU 0 while its events are waited for;
   the others then tell of changes of their MIG instances. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { success = 0, timeout = 10, lost = 15, driver_mismatch = 18, mig_change = 0x100 };
static char devices[8];
static int watched[8];
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
  const char* gpus = getenv("FAKE_NVML_GPUS");
  *count = gpus != NULL ? (unsigned)atoi(gpus) : 0;
  return has("replaced") && !opened_after ? driver_mismatch : success;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) { return *device = &devices[index], success; }
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  snprintf(text, length, "GPU-%d", (int)((char*)device - devices));
  return success;
}
int nvmlDeviceGetPciInfo_v3(void* device, void* pci) {
  (void)pci;
  return has("lost") && device == &devices[0] ? lost : success;
}

struct event {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
int nvmlEventSetCreate(void** set) {
  memset(watched, 0, sizeof watched);
  return *set = watched, success;
}
int nvmlEventSetFree(void* set) { return set == watched ? success : lost; }
int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
  (void)set;
  return watched[(char*)device - devices] = (types & mig_change) != 0, success;
}
int nvmlEventSetWait_v2(void* set, struct event* event, unsigned milliseconds) {
  (void)set;
  if (watched[0] && has("lost")) return lost;
  for (int i = 0; i < 8; ++i) {
    if (!watched[i]) continue;
    *event = (struct event){&devices[i], mig_change, 0, ~0U, ~0U};
    watched[i] = 0;
    return success;
  }
  usleep(milliseconds * 1000);
  return timeout;
}
