// SPDX-License-Identifier: Apache-2.0
// A table of one GPU over a stretch of time, by columns: what a block of History and a chunk of a store's file hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/codec.hpp"

namespace gpuwarden::telemetry {

/// What a column holds of its metric. Readings have `value` alone; steps of time have all four.
enum class Part : std::uint32_t {
  value = 0,   ///< the value, or the step's least one
  mean = 1,    ///< the mean above the least one, in sixteenths
  spread = 2,  ///< the greatest above the least one
  count = 3,   ///< readings in the step
};
inline constexpr std::int64_t kMeanSteps = 16;

/// A metric's number (from 1) and a part of it.
struct ColumnKey {
  std::uint32_t metric = 0;
  Part part = Part::value;
  auto operator<=>(const ColumnKey&) const = default;
};

/// Rows in the order of time. A column that is not there, or shorter than `times`, has gaps instead.
struct Frame {
  std::vector<std::int64_t> times;  ///< milliseconds
  std::map<ColumnKey, std::vector<std::int64_t>> columns;
};

/// The most rows that a frame may have, and the most columns.
inline constexpr std::size_t kMostRows = 4096;
inline constexpr std::size_t kMostColumns = 4096;

/// As bytes; columns of gaps alone are left out. `packed`: deflated where that is shorter.
std::string encode_frame(const Frame& frame, bool packed);

/// Looks into the bytes of a frame, which must outlive it; only the columns that are asked for are decoded.
class FrameView {
 public:
  /// Nothing where the bytes are no frame.
  static std::optional<FrameView> open(std::string_view bytes);
  std::size_t rows() const { return rows_; }
  std::vector<std::uint32_t> metrics() const;
  /// Times and these metrics' columns. Nothing where a column is damaged.
  std::optional<Frame> read(std::span<const std::uint32_t> metrics) const;

 private:
  struct Entry {
    std::string_view bytes;
    bool packed = false;
  };
  std::optional<std::vector<std::int64_t>> column(const Entry& entry) const;

  std::size_t rows_ = 0;
  Entry times_;
  std::map<ColumnKey, Entry> entries_;
};

}  // namespace gpuwarden::telemetry
