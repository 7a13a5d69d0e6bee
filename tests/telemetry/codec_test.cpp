// SPDX-License-Identifier: Apache-2.0
#include "telemetry/codec.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "telemetry/columns.hpp"

namespace {

using namespace gpuwarden::telemetry;
using codec::kGap;
using Values = std::vector<std::int64_t>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// Columns of many kinds: steady, rising, leaping over the whole range, with gaps here and there.
Values random_column(std::mt19937_64& random, std::size_t rows) {
  Values values;
  const auto kind = random() % 5;
  std::int64_t value = static_cast<std::int64_t>(random() % 1000);
  for (std::size_t i = 0; i < rows; ++i) {
    if (kind == 1) value += static_cast<std::int64_t>(random() % 700'000);
    if (kind == 2 && random() % 10 == 0) value = static_cast<std::int64_t>(random() % 100);
    if (kind == 3) value = static_cast<std::int64_t>(random());
    values.push_back(kind == 4 && random() % 3 == 0 ? kGap : value);
  }
  return values;
}

TEST(Codec, ZigzagKeepsSmallNumbersOfEitherSignSmall) {
  EXPECT_EQ(codec::zigzag(0), 0U);
  EXPECT_EQ(codec::zigzag(-1), 1U);
  EXPECT_EQ(codec::zigzag(1), 2U);
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, kMost, -kMost, kGap})
    EXPECT_EQ(codec::unzigzag(codec::zigzag(value)), value);
}

TEST(Codec, VarintsAreReadBackAndNoneIsLongerThanANumber) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, ~std::uint64_t{0}}) {
    std::string bytes;
    codec::put_varint(bytes, value);
    codec::Input input(bytes);
    EXPECT_EQ(input.varint(), value);
    EXPECT_TRUE(input.empty());
  }
  EXPECT_EQ(codec::Input("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02").varint(), std::nullopt) << "more than 64 bits";
  EXPECT_EQ(codec::Input("\xff\xff").varint(), std::nullopt) << "cut off";
}

TEST(Codec, AColumnIsReadBackAsItWas) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400; ++round) {
    const Values values = random_column(random, random() % 700);
    const std::string bytes = codec::encode_column(values);
    EXPECT_LE(bytes.size(), codec::largest_column(values.size()));
    ASSERT_EQ(codec::decode_column(bytes, values.size()), values) << "round " << round;
  }
}

TEST(Codec, AColumnHoldsTheWholeRangeOfNumbers) {
  const Values values{kMost, -kMost, 0, kMost, kMost, -kMost};
  EXPECT_EQ(codec::decode_column(codec::encode_column(values), values.size()), values);
}

TEST(Codec, AColumnThatNeverChangesTakesAConstant) {
  EXPECT_EQ(codec::encode_column(Values(10, 80)).size(), codec::encode_column(Values(100'000, 80)).size());
}

TEST(Codec, GapsAreNeitherZeroNorNumbers) {
  const Values values{5, kGap, 0, kGap, kGap};
  EXPECT_EQ(codec::decode_column(codec::encode_column(values), values.size()), values);
  EXPECT_EQ(codec::decode_row(codec::encode_row(values), 10), values);
}

TEST(Codec, AnotherNumberOfRowsIsNoColumn) {
  const std::string bytes = codec::encode_column(Values{1, 2, 3, 4, 4, 4});
  EXPECT_FALSE(codec::decode_column(bytes, 5));
  EXPECT_FALSE(codec::decode_column(bytes, 7));
  EXPECT_FALSE(codec::decode_column(bytes.substr(0, bytes.size() - 1), 6));
  EXPECT_FALSE(codec::decode_column(bytes + "x", 6));
  EXPECT_FALSE(codec::decode_row(codec::encode_row(Values{1, 2, 3}), 2)) << "more than may be";
}

TEST(Codec, ARunLongerThanTheColumnIsRefused) {
  std::string bytes("\x01\x00", 2);
  codec::put_varint(bytes, ~std::uint64_t{0});
  EXPECT_FALSE(codec::decode_column(bytes, 600));
}

TEST(Codec, DamagedBytesAreRefusedOrReadAsColumnsOfTheRightLength) {
  std::mt19937_64 random(2);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = codec::encode_column(random_column(random, 50));
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto values = codec::decode_column(bytes, 50);
    refused += values ? 0 : 1;
    EXPECT_EQ(values.value_or(Values(50)).size(), 50U);
  }
  EXPECT_GT(refused, 100);
}

TEST(Codec, WhatUnpacksToMoreThanAllowedIsRefused) {
  const std::string packed = codec::deflate(std::string(100'000, 'x'));
  EXPECT_LT(packed.size(), 1000U);
  EXPECT_FALSE(codec::inflate(packed, 99'999));
  EXPECT_EQ(codec::inflate(packed, 100'000), std::string(100'000, 'x'));
  EXPECT_FALSE(codec::inflate("no deflate", 1000));
  EXPECT_FALSE(codec::inflate(packed.substr(0, packed.size() / 2), 100'000));
}

Frame small_frame() {
  Frame frame;
  for (std::int64_t i = 0; i < 100; ++i) {
    frame.times.push_back(1'700'000'000'000 + i * 1000);
    frame.columns[{7, Part::value}].push_back(i % 5);
    frame.columns[{9, Part::value}].push_back(i * i);
    frame.columns[{9, Part::spread}].push_back(3);
    frame.columns[{12, Part::value}].push_back(kGap);
  }
  frame.columns[{13, Part::value}] = {1, 2, 3};  // told no more after three rows
  return frame;
}

TEST(Columns, AFrameIsReadBackWithoutItsEmptyColumnsPackedOrNot) {
  const Frame frame = small_frame();
  for (const bool packed : {false, true}) {
    const std::string bytes = encode_frame(frame, packed);
    const auto view = FrameView::open(bytes);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->rows(), 100U);
    EXPECT_EQ(view->metrics(), (std::vector<std::uint32_t>{7, 9, 13}));
    const auto read = view->read(std::vector<std::uint32_t>{9, 12, 13});
    ASSERT_TRUE(read);
    EXPECT_EQ(read->times, frame.times);
    EXPECT_EQ(read->columns.at({9, Part::value}), frame.columns.at({9, Part::value}));
    EXPECT_EQ(read->columns.at({9, Part::spread}), Values(100, 3));
    EXPECT_FALSE(read->columns.contains({12, Part::value}));
    EXPECT_EQ(read->columns.at({13, Part::value})[2], 3);
    EXPECT_EQ(read->columns.at({13, Part::value})[3], kGap);
  }
}

TEST(Columns, DamagedFramesNeverReadAsMoreThanTheyHold) {
  const std::string whole = encode_frame(small_frame(), true);
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole.substr(0, 1 + random() % whole.size());
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto view = FrameView::open(bytes);
    if (!view) continue;
    EXPECT_LE(view->rows(), kMostRows);
    const auto frame = view->read(view->metrics());
    if (!frame) continue;
    for (const auto& [key, column] : frame->columns) EXPECT_EQ(column.size(), view->rows());
  }
}

}  // namespace
