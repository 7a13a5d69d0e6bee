// SPDX-License-Identifier: Apache-2.0
// What is said of files in which nothing was recognised.
#include "capture/unread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/capture/capture.hpp"

namespace gpuwarden::capture {
namespace {

TEST(Unread, SaysWhatTheTextIs) {
  EXPECT_EQ(describe_unread(""), "it is empty");
  EXPECT_EQ(describe_unread(" \n\n"), "it is empty");
  EXPECT_EQ(describe_unread(std::string_view("\x7f"
                                             "ELF\x02\x01\x01\0\0",
                                             9)),
            "it is a program");
  EXPECT_EQ(describe_unread(std::string_view("\x1f\x8b\x08\0", 4)), "it is compressed with gzip");
  EXPECT_EQ(describe_unread(std::string(300, '\1')), "it is binary");
  EXPECT_EQ(describe_unread("{\"a\": 1}"), "it is JSON, but not of gpuwarden snapshot, rocm-smi, amd-smi or xpu-smi");
  EXPECT_EQ(describe_unread("{\"a\": "), "it begins as JSON, but is cut or damaged");
  EXPECT_EQ(describe_unread("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_dev"),
            "it begins as nvidia-smi's XML, but is cut before the first value");
  EXPECT_EQ(describe_unread("<html></html>"), "it is XML or HTML, but not of nvidia-smi -q -x");
  EXPECT_TRUE(describe_unread("hello\nworld").starts_with("2 lines of text, nothing in it is output"));
}

TEST(Unread, ColouredTextIsNotBinary) {
  EXPECT_TRUE(describe_unread("\033[31mred\033[0m\tand\r\nblue").starts_with("2 lines of text"));
}

TEST(Unread, StandsInTheErrorOfTheReader) {
  const auto capture = read_capture("", "empty.txt");
  ASSERT_FALSE(capture.has_value());
  EXPECT_EQ(capture.error().message, "empty.txt: it is empty");
  EXPECT_TRUE(capture.error().hint.contains("nvidia-smi"));
}

TEST(Unread, ALogWhoseTimesAreBracketedIsNoJson) {
  EXPECT_THAT(describe_unread("[2025-10-20 07:33:15] server_args=ServerArgs(tp_size=2)\n"),
              ::testing::HasSubstr("a line"));
  EXPECT_THAT(describe_unread("[{\"gpu\": 0}, {\n"), ::testing::HasSubstr("JSON"));
}

}  // namespace
}  // namespace gpuwarden::capture
