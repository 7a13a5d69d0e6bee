// SPDX-License-Identifier: Apache-2.0
// Durations as numbers.
#pragma once

#include <chrono>

namespace gpuwarden::profile {

template <class Rep, class Period>
double seconds(std::chrono::duration<Rep, Period> duration) {
  return std::chrono::duration<double>(duration).count();
}

template <class Rep, class Period>
double microseconds(std::chrono::duration<Rep, Period> duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace gpuwarden::profile
