// SPDX-License-Identifier: Apache-2.0
// A frame's bytes: version, rows, columns, a directory (key, length, whether it is packed), then the columns' bytes.
#include "telemetry/columns.hpp"

#include <algorithm>

namespace gpuwarden::telemetry {
namespace {

constexpr std::uint64_t kFrameVersion = 1;
constexpr std::uint64_t kTimesKey = 0;

std::uint64_t number_of_key(ColumnKey key) { return key.metric * 4ULL + static_cast<std::uint64_t>(key.part); }

struct WrittenColumn {
  std::uint64_t key = 0;
  std::string bytes;
  bool packed = false;
};

WrittenColumn write_column(std::uint64_t key, std::span<const std::int64_t> values, bool packed) {
  WrittenColumn result{key, codec::encode_column(values), false};
  if (!packed || result.bytes.size() < 16) return result;
  std::string smaller = codec::deflate(result.bytes);
  if (smaller.empty() || smaller.size() >= result.bytes.size()) return result;
  return {key, std::move(smaller), true};
}

bool is_all_gaps(const std::vector<std::int64_t>& column) {
  return std::ranges::all_of(column, [](std::int64_t value) { return value == codec::kGap; });
}

}  // namespace

std::string encode_frame(const Frame& frame, bool packed) {
  std::vector<WrittenColumn> columns;
  columns.push_back(write_column(kTimesKey, frame.times, packed));
  for (const auto& [key, values] : frame.columns) {
    if (is_all_gaps(values)) continue;
    if (values.size() == frame.times.size()) {
      columns.push_back(write_column(number_of_key(key), values, packed));
      continue;
    }
    std::vector<std::int64_t> whole = values;
    whole.resize(frame.times.size(), codec::kGap);
    columns.push_back(write_column(number_of_key(key), whole, packed));
  }
  std::string out;
  codec::put_varint(out, kFrameVersion);
  codec::put_varint(out, frame.times.size());
  codec::put_varint(out, columns.size());
  for (const WrittenColumn& column : columns) {
    codec::put_varint(out, column.key);
    codec::put_varint(out, column.bytes.size() * 2 + (column.packed ? 1 : 0));
  }
  for (const WrittenColumn& column : columns) out += column.bytes;
  return out;
}

std::optional<FrameView> FrameView::open(std::string_view bytes) {
  codec::Input input(bytes);
  const auto version = input.varint();
  const auto rows = input.varint();
  const auto columns = input.varint();
  if (version != kFrameVersion || !rows || *rows > kMostRows || !columns || *columns > kMostColumns)
    return std::nullopt;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> directory;
  for (std::uint64_t i = 0; i < *columns; ++i) {
    const auto key = input.varint();
    const auto length = input.varint();
    if (!key || !length || *key > 0xffffffffULL) return std::nullopt;
    directory.emplace_back(*key, *length);
  }
  FrameView view;
  view.rows_ = static_cast<std::size_t>(*rows);
  bool has_times = false;
  for (const auto& [key, length] : directory) {
    const auto body = input.bytes(length / 2);
    if (!body) return std::nullopt;
    const Entry entry{*body, length % 2 == 1};
    has_times = has_times || key == kTimesKey;
    if (key == kTimesKey) {
      view.times_ = entry;
    } else {
      view.entries_.insert_or_assign({static_cast<std::uint32_t>(key / 4), static_cast<Part>(key % 4)}, entry);
    }
  }
  if (!has_times) return std::nullopt;
  return view;
}

std::vector<std::uint32_t> FrameView::metrics() const {
  std::vector<std::uint32_t> result;
  for (const auto& [key, entry] : entries_) {
    if (result.empty() || result.back() != key.metric) result.push_back(key.metric);
  }
  return result;
}

std::optional<std::vector<std::int64_t>> FrameView::column(const Entry& entry) const {
  if (!entry.packed) return codec::decode_column(entry.bytes, rows_);
  const auto unpacked = codec::inflate(entry.bytes, codec::largest_column(rows_));
  if (!unpacked) return std::nullopt;
  return codec::decode_column(*unpacked, rows_);
}

std::optional<Frame> FrameView::read(std::span<const std::uint32_t> metrics) const {
  Frame frame;
  auto times = column(times_);
  if (!times) return std::nullopt;
  frame.times = std::move(*times);
  for (const std::uint32_t metric : metrics) {
    for (auto entry = entries_.lower_bound({metric, Part::value});
         entry != entries_.end() && entry->first.metric == metric; ++entry) {
      auto values = column(entry->second);
      if (!values) return std::nullopt;
      frame.columns.emplace(entry->first, std::move(*values));
    }
  }
  return frame;
}

}  // namespace gpuwarden::telemetry
