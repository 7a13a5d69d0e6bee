// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/thread_time.hpp"

#include <thread>

namespace gpuwarden {
namespace {

/// Works until this thread has worked for so long.
void work(std::chrono::nanoseconds time) {
  const auto start = thread_time();
  while (thread_time() - start < time) continue;
}

TEST(ThreadTime, CountsThisThreadsWorkAlone) {
  constexpr std::chrono::milliseconds kWork(50);
  const auto start = thread_time();
  std::jthread([&] { work(kWork); }).join();
  std::this_thread::sleep_for(kWork);
  EXPECT_LT(thread_time() - start, kWork) << "neither another's work nor sleep";
  work(kWork);
  EXPECT_GE(thread_time() - start, kWork);
}

}  // namespace
}  // namespace gpuwarden
