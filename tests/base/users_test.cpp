// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/users.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gpuwarden {
namespace {

TEST(Users, RootHasANameAndAHomeAndWhoIsNobodyHasHisNumber) {
  const auto root = find_user(0);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->name, "root");
  EXPECT_EQ(root->home, "/root");
  EXPECT_EQ(name_of_user(0), "root");
  EXPECT_FALSE(find_user(4'123'456'789).has_value());
  EXPECT_EQ(name_of_user(4'123'456'789), "4123456789");
}

TEST(Users, ThreadsThatAskAtOnceGetTheirOwnAnswers) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int again = 0; again < 200; ++again)
        EXPECT_EQ(name_of_user(i % 2 == 0 ? 0 : 4'123'456'789).at(0), i % 2 == 0 ? 'r' : '4');
    });
  }
}

TEST(Users, KeepSettingsWhereXdgSaysElseInTheirHome) {
  EXPECT_EQ(settings_folder({{"XDG_CONFIG_HOME", "/a"}, {"HOME", "/b"}}), "/a/gpuwarden");
  EXPECT_EQ(settings_folder({{"XDG_CONFIG_HOME", ""}, {"HOME", "/b"}}), "/b/.config/gpuwarden");
  EXPECT_EQ(settings_folder({{"HOME", ""}}), "");
  EXPECT_EQ(settings_folder({}), "");
}

}  // namespace
}  // namespace gpuwarden
