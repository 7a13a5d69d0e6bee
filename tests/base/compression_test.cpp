// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/compression.hpp"

namespace gpuwarden {
namespace {

TEST(Compression, IsKnownByHowBytesBegin) {
  EXPECT_EQ(compression_of("\x1f\x8b\x08rest"), "gzip");
  EXPECT_EQ(compression_of("\xfd"
                           "7zXZ"),
            "xz");
  EXPECT_EQ(compression_of("BZh9"), "bzip2");
  EXPECT_EQ(compression_of("\x28\xb5\x2f\xfd"), "zstd");
  EXPECT_EQ(compression_of("\x04\x22\x4d\x18"), "lz4");
  EXPECT_EQ(compression_of("\x1f\x9d\x90"), "compress");
  EXPECT_EQ(compression_of("op,id,size\n"), "");
  EXPECT_EQ(compression_of("\x1f"), "");
  EXPECT_EQ(compression_of(""), "");
}

}  // namespace
}  // namespace gpuwarden
