// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/interface.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::launch {
namespace {

TEST(Interfaces, TheLoopbackLeadsToTheMachineItself) {
  EXPECT_EQ(interface_towards("127.0.0.1"), "lo");
  EXPECT_EQ(interface_towards("localhost"), "lo");
}

TEST(Interfaces, TheLoopbackIsNoneAtWhichOtherMachinesReachThisOne) {
  EXPECT_EQ(interface_towards("127.0.1.1", true), std::nullopt) << "where Debian has the machine's own name";
  EXPECT_EQ(interface_towards("localhost", true), std::nullopt);
}

TEST(Interfaces, NoneLeadsToAHostWithoutAnAddress) {
  EXPECT_EQ(interface_towards("no-such-host.invalid"), std::nullopt);
  EXPECT_EQ(interface_towards(""), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::launch
