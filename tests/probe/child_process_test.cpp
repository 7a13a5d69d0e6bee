// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/child_process.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "support/patience.hpp"

namespace gpuwarden::probe {
namespace {

constexpr std::chrono::milliseconds kForEver{-1};

/// Answers each message with the same, until nobody asks any more.
void echo(int fd) {
  while (const auto message = receive_message(fd, kForEver)) {
    if (!send_message(fd, *message)) return;
  }
}

// Slurm, systemd and terminals signal every process: it is for the parent to decide what that means.
TEST(ChildProcess, OutlivesTheSignalsThatAreForItsParent) {
  const auto child = ChildProcess::start(echo);
  ASSERT_NE(child, nullptr);
  const nlohmann::json word{{"word", 1}};
  ASSERT_TRUE(child->send(word));
  ASSERT_EQ(child->receive(testing::kSoon), word) << "it has begun";
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    ASSERT_EQ(::kill(child->pid(), signal), 0);
    ASSERT_TRUE(child->send(word));
    EXPECT_EQ(child->receive(testing::kSoon), word) << signal;
  }
  EXPECT_EQ(child->end().signal, std::nullopt);
}

TEST(ChildProcess, TellsWhichSignalItDiedOf) {
  const auto child = ChildProcess::start([](int) { ::raise(SIGKILL); });
  ASSERT_NE(child, nullptr);
  EXPECT_EQ(child->receive(testing::kSoon), std::nullopt);
  EXPECT_EQ(child->end().signal, SIGKILL);
}

}  // namespace
}  // namespace gpuwarden::probe
