/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA driver of two devices that remembers which one is current, for the test of DeviceGuard. */
static int stack[8];
static int depth;
static int retained[2];
static char contexts[2];
int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal >= 0 && ordinal < 2 ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void** context, int device) { return *context = &contexts[device], ++retained[device], 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return --retained[device], 0; }
int cuCtxPushCurrent_v2(void* context) { return stack[depth++] = (int)((char*)context - contexts), 0; }
int cuCtxPopCurrent_v2(void** context) { return *context = &contexts[stack[--depth]], 0; }
int fake_current(void) { return depth > 0 ? stack[depth - 1] : -1; }
int fake_retained(void) { return retained[0] + retained[1]; }
