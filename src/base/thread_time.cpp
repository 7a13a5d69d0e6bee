// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/thread_time.hpp"

#include <time.h>

namespace gpuwarden {

std::chrono::nanoseconds thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace gpuwarden
