// SPDX-License-Identifier: Apache-2.0
// What a file's first bytes say about it: a text and its encoding, something packed, or no text at all.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuwarden::logs {

enum class Content {
  text,
  packed,  ///< gzip, xz, bzip2, zstd, lz4, compress, or a tar archive
  zip,     ///< a zip archive; files of models are some, too
  binary,
};

struct Beginning {
  Content content = Content::text;
  /// NULs before the text: a log that was cut off under its writer begins with a hole.
  std::size_t skip = 0;
  /// What a reader needs in front of the text to recognise its encoding: a mark, where UTF-16 came without one.
  std::string_view mark;
};

/// `bytes`: the first thousands of a file, or all of a short one.
Beginning look_at(std::string_view bytes);

}  // namespace gpuwarden::logs
