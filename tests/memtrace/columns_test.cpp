// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/columns.hpp"

namespace gpuwarden::memtrace {
namespace {

TEST(Columns, HoldTheMostOfTheirSamplesAndCarryOnWhereThereIsNone) {
  Replay replay;
  replay.operations = 100;
  replay.samples = {{.operation = 1, .live = Bytes(5), .reserved = Bytes(10)},
                    {.operation = 20, .live = Bytes(8), .reserved = Bytes(9)},
                    {.operation = 100, .live = Bytes(1), .reserved = Bytes(7)}};
  const auto columns = columns_of(replay, 4);
  ASSERT_EQ(columns.size(), 4U);
  EXPECT_EQ(columns[0].live, Bytes(8));
  EXPECT_EQ(columns[0].reserved, Bytes(10));
  EXPECT_EQ(columns[1].live, Bytes(8));
  EXPECT_EQ(columns[2].reserved, Bytes(10));
  EXPECT_EQ(columns[3].live, Bytes(1));
  EXPECT_EQ(columns[3].reserved, Bytes(7));
}

TEST(Columns, OfAPoolThatWasTrimmedToNothingAreEmpty) {
  Replay replay;
  replay.operations = 2;
  replay.samples = {{.operation = 1, .live = Bytes(5), .reserved = Bytes(10)}, {.operation = 2}};
  const auto columns = columns_of(replay, 2);
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns[0].reserved, Bytes(10));
  EXPECT_EQ(columns[1].reserved, Bytes(0));
  EXPECT_EQ(columns[1].live, Bytes(0));
}

TEST(Columns, TakeASampleBeforeTheFirstOperationIntoTheFirst) {
  Replay replay;
  replay.operations = 4;
  replay.samples = {{.operation = 0, .live = Bytes(1), .reserved = Bytes(2)}};
  EXPECT_EQ(columns_of(replay, 2).front().reserved, Bytes(2));
}

TEST(Columns, OfNoRoomOrNoOperationsHoldNothing) {
  Replay replay;
  replay.operations = 4;
  replay.samples = {{.operation = 1, .live = Bytes(1), .reserved = Bytes(2)}};
  EXPECT_TRUE(columns_of(replay, 0).empty());
  replay.operations = 0;
  const auto columns = columns_of(replay, 3);
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_EQ(columns[2].reserved, Bytes(0));
}

}  // namespace
}  // namespace gpuwarden::memtrace
