// SPDX-License-Identifier: Apache-2.0
#include "bundle/archive.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::bundle {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;

constexpr std::chrono::system_clock::time_point kTime{std::chrono::seconds(1'700'000'000)};

/// One entry of a tar as POSIX.1-2001 lays it out ("ustar Interchange Format"): what a bundle never holds can be
/// written.
std::string tar_entry(const std::string& name, char type, const std::string& content, const std::string& link = "",
                      std::size_t said_size = std::string::npos) {
  std::string header(512, '\0');
  const auto set = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  const auto octal = [](std::size_t number, int digits) {
    std::string text(static_cast<std::size_t>(digits), '0');
    for (std::size_t i = text.size(); i-- > 0; number /= 8) text[i] = static_cast<char>('0' + number % 8);
    return text;
  };
  set(0, name);
  set(100, "0000600");
  set(108, "0000000");
  set(116, "0000000");
  set(124, octal(said_size == std::string::npos ? content.size() : said_size, 11));
  set(136, "14524110400");
  set(148, "        ");
  set(156, std::string(1, type));
  set(157, link);
  set(257, std::string("ustar\0", 6) + "00");
  std::size_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  set(148, octal(sum, 6) + std::string("\0 ", 2));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

std::string tar(const std::vector<std::string>& entries) {
  std::string all;
  for (const std::string& entry : entries) all += entry;
  return all + std::string(1024, '\0');
}

TEST(Archive, WhatWasPackedComesBack) {
  const std::vector<ArchiveEntry> entries{{"a/one.txt", "1"}, {"a/empty", ""}, {"a/b/big", std::string(300000, 'x')}};
  const auto bytes = pack(entries, kTime);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(is_archive(*bytes));
  EXPECT_LT(bytes->size(), 5000U) << "compressed";
  EXPECT_EQ(*pack(entries, kTime), *bytes) << "the same bytes each time";
  const auto back = unpack(*bytes, "x.tar.gz");
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), 3U);
  EXPECT_EQ((*back)[0].name, "a/one.txt");
  EXPECT_EQ((*back)[0].content, "1");
  EXPECT_EQ((*back)[1].content, "");
  EXPECT_EQ((*back)[2].content, entries[2].content);
}

TEST(Archive, APlainTarIsReadTooSinceMailProgramsUnzip) {
  const std::string bytes = tar({tar_entry("a/", '5', ""), tar_entry("a/x", '0', "text")});
  EXPECT_TRUE(is_archive(bytes));
  const auto back = unpack(bytes, "x.tar");
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), 1U);
  EXPECT_EQ((*back)[0].content, "text");
}

TEST(Archive, PathsThatLeadOutOfItAreRefused) {
  for (const char* name : {"../x", "a/../../x", "/etc/passwd", "a/..", "c:x", "a\\b", "a\x1b[2J"})
    EXPECT_THAT(unpack(tar({tar_entry(name, '0', "x")}), "evil.tar"),
                FailsWith(ErrorCode::corrupt, HasSubstr("evil.tar")))
        << name;
}

TEST(Archive, LinksDevicesAndPipesAreRefused) {
  for (const char type : {'1', '2', '3', '4', '6'})
    EXPECT_THAT(unpack(tar({tar_entry("a/x", type, "", "a/y")}), "evil.tar"),
                FailsWith(ErrorCode::corrupt, HasSubstr("neither a file nor a folder")))
        << type;
}

TEST(Archive, OneNameTwiceIsRefused) {
  EXPECT_THAT(unpack(tar({tar_entry("a", '0', "1"), tar_entry("a", '0', "2")}), "x"),
              FailsWith(ErrorCode::corrupt, HasSubstr("'a' twice")));
}

TEST(Archive, BombsAreRefusedBeforeTheyFillTheMemory) {
  const ArchiveLimits limits{.entries = 3, .entry_bytes = 1000, .all_bytes = 1500};
  const auto zeros = pack({{"a", std::string(100000, '\0')}}, kTime);
  EXPECT_THAT(unpack(*zeros, "x", limits), FailsWith(ErrorCode::corrupt, HasSubstr("'a' is larger than")));
  const auto two = pack({{"a", std::string(900, '\0')}, {"b", std::string(900, '\0')}}, kTime);
  EXPECT_THAT(unpack(*two, "x", limits), FailsWith(ErrorCode::corrupt, HasSubstr("unpacks to more than")));
  const auto many = pack({{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}}, kTime);
  EXPECT_THAT(unpack(*many, "x", limits), FailsWith(ErrorCode::corrupt, HasSubstr("more than 3 files")));
  EXPECT_THAT(unpack(tar({tar_entry("a", '0', "x", "", 077777777777)}), "x"),
              FailsWith(ErrorCode::corrupt, HasSubstr("larger than")));
  EXPECT_THAT(unzip(*zeros, "x", limits), FailsWith(ErrorCode::corrupt, HasSubstr("unpacks to more than")));
}

TEST(Archive, TruncatedOnesAreRefusedOrEndBetweenTwoFiles) {
  const auto whole = pack({{"a/x", std::string(50000, 'x') + "end"}, {"a/y", "text"}}, kTime);
  ASSERT_TRUE(whole);
  for (std::size_t length = 0; length + 1 < whole->size(); ++length) {
    const auto back = unpack(std::string_view(*whole).substr(0, length), "x");
    const bool complete = back && back->size() == 2 && (*back)[1].content == "text";
    EXPECT_TRUE(!back || complete || back->size() < 2) << length;
  }
  EXPECT_FALSE(unpack("", "x"));
  EXPECT_FALSE(unpack("\x1f\x8bnonsense", "x"));
}

TEST(Archive, AGzippedTextIsUnzipped) {
  const auto packed = pack({{"a", "text"}}, kTime);
  const auto inner = unzip(*packed, "x");
  ASSERT_TRUE(inner);
  EXPECT_TRUE(is_archive(*inner)) << "the tar in it";
  EXPECT_FALSE(is_archive("plain text"));
}

}  // namespace
}  // namespace gpuwarden::bundle
