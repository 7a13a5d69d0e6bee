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

}  // namespace
}  // namespace gpuwarden::memtrace
