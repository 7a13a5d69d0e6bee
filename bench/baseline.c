/* SPDX-License-Identifier: Apache-2.0 */
/* The least an NVML client can do: open the library, read one value. */
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void* lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  int (*init)(void) = lib ? (int (*)(void))dlsym(lib, "nvmlInit_v2") : NULL;
  int (*count)(unsigned*) = lib ? (int (*)(unsigned*))dlsym(lib, "nvmlDeviceGetCount_v2") : NULL;
  unsigned n = 0;
  if (!init || !count || init() != 0 || count(&n) != 0) return 1;
  printf("%u\n", n);
  return 0;
}
