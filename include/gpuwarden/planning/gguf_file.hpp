// SPDX-License-Identifier: Apache-2.0
// What the head of a GGUF file says: the model's sizes, and each of its tensors. Streams in, values out: no file is
// opened here. Source of the layout: ggml's docs/gguf.md (versions 2 and 3).
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/model.hpp"

namespace gpuwarden::planning {

struct GgufTensor {
  std::string name;                  ///< "blk.0.attn_q.weight"
  std::vector<std::uint64_t> sizes;  ///< the row's length first; at most four
  std::uint32_t type = 0;            ///< its format's number (gguf.hpp)
  std::uint64_t bytes = 0;

  std::uint64_t elements() const;
};

struct GgufHeader {
  /// Keys with numbers (0 for what is not finite) and switches (0 and 1): one, or an array of at most kMostGgufNumbers.
  std::map<std::string, std::vector<double>, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;  ///< of at most kLongestGgufText bytes
  /// Keys whose array is not kept (texts; too many numbers), by its length.
  std::map<std::string, std::uint64_t, std::less<>> lengths;
  std::vector<GgufTensor> tensors;
  std::uint64_t file_bytes = 0;

  std::optional<double> number(std::string_view key) const;  ///< the first, of an array
  std::string_view text(std::string_view key) const;         ///< empty: none
  /// Files that hold the model together; 1 where it is whole.
  std::uint32_t parts() const;
};
inline constexpr std::size_t kMostGgufNumbers = 1024;
inline constexpr std::size_t kLongestGgufText = 4096;

/// What a GGUF file begins with.
inline constexpr std::string_view kGgufMagic = "GGUF";

/// The head of a file of `file_bytes` bytes, from its first byte on. `name` stands in errors. Fails with corrupt on
/// what is no such file, and on one that ends before its last tensor does; with invalid_argument on version 1 and on
/// big-endian files.
Result<GgufHeader> read_gguf(std::istream& stream, std::uint64_t file_bytes, std::string_view name);

/// Whether a file's name without its ending says that it is one of several: "X-00001-of-00003".
bool is_part_of_file(std::string_view stem);
/// Adds the tensors of a file's further part.
void add_part(GgufHeader& header, GgufHeader part);

/// The model of a whole file. Sizes are the head's; bytes are those of its tensors, in whatever formats. A model of an
/// architecture that is none of known_families() is planned as if it were built like Llama, which a note says: its
/// bytes and its KV cache are right all the same. Fails with invalid_argument where the head lacks a size or the file
/// holds no language model (adapters, a tower for images).
Result<ModelShape> model_of(const GgufHeader& header, std::string_view name);

}  // namespace gpuwarden::planning
