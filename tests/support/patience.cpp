// SPDX-License-Identifier: Apache-2.0
#include "support/patience.hpp"

#include <thread>

namespace gpuwarden::testing {

bool eventually(std::chrono::milliseconds time, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace gpuwarden::testing
