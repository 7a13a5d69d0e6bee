// SPDX-License-Identifier: Apache-2.0
// Logs of RMM's logging_resource_adaptor: Thread,Time,Action,Pointer,Size,Stream. Source of the format: RMM,
// cpp/src/mr/detail/logging_resource_adaptor_impl.cpp and docs/user_guide/logging.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "memtrace/builder.hpp"
#include "memtrace/csv.hpp"
#include "memtrace/lines.hpp"
#include "memtrace/quote.hpp"

namespace gpuwarden::memtrace {
namespace {

constexpr std::string_view kHeading = "Thread,Time,Action,Pointer,Size,Stream";
constexpr std::int64_t kDay = std::int64_t{24} * 60 * 60 * 1'000'000;

bool is_action(std::string_view text) {
  return text == "allocate" || text == "allocate failure" || text == "free" || text == "deallocate";
}

/// Microseconds of what stands behind the point: "5" is half a second; digits after the sixth are cut off.
std::optional<std::int64_t> fraction_of(std::string_view digits) {
  constexpr std::size_t kDigits = 6;
  if (!whole_number(digits)) return std::nullopt;
  auto micros = static_cast<std::int64_t>(*whole_number(digits.substr(0, kDigits)));
  for (std::size_t i = digits.size(); i < kDigits; ++i) micros *= 10;
  return micros;
}

/// Microseconds since midnight of "15:47:02.841961" or "15:47:02:841961", or of "1634567890.123456" since 1970.
std::optional<std::int64_t> time_of(std::string_view text) {
  std::size_t end = text.find('.');
  if (end == std::string_view::npos && std::ranges::count(text, ':') == 3) end = text.rfind(':');
  const auto micros =
      end == std::string_view::npos ? std::optional<std::int64_t>(0) : fraction_of(text.substr(end + 1));
  const auto fields = split(text.substr(0, end), ':');
  if (!micros || (fields.size() != 1 && fields.size() != 3)) return std::nullopt;
  // The year 5138, and a day's end with its leap second.
  constexpr std::array<std::uint64_t, 1> kSinceEpoch{100'000'000'000};
  constexpr std::array<std::uint64_t, 3> kOfDay{23, 59, 60};
  std::uint64_t seconds = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto field = whole_number(fields[i]);
    if (!field || *field > (fields.size() == 1 ? kSinceEpoch[i] : kOfDay[i])) return std::nullopt;
    seconds = seconds * 60 + *field;
  }
  return static_cast<std::int64_t>(seconds) * 1'000'000 + *micros;
}

class RmmReader {
 public:
  RmmReader(std::string_view data, const std::string& name)
      : lines_(data), name_(name), builder_("RMM log", Unknown::was_live_before) {}

  Result<Trace> read() {
    while (const auto line = lines_.next()) {
      if (*line != kHeading) GPUWARDEN_CHECK(take(Cells(*line)));
    }
    if (builder_.trace().events.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("{}: holds no allocation", name_));
    return builder_.finish(true);
  }

 private:
  std::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorCode::corrupt, fmt::format("{}: line {}: {}", name_, lines_.number(), what),
                "each line is Thread,Time,Action,Pointer,Size,Stream; the log is whole once the program flushed it");
  }

  Result<void> take(const Cells& cells) {
    if (cells.count != 6) return wrong(fmt::format("has {} cells instead of 6", cells.count));
    const std::string_view time = cells.cells[1];
    const std::string_view action = cells.cells[2];
    const std::string_view pointer = cells.cells[3];
    const std::string_view size = cells.cells[4];
    const std::string_view stream = cells.cells[5];
    if (!is_action(action)) return wrong(fmt::format("'{}' is not an action", quoted(action)));
    if (action == "allocate failure") {
      ++builder_.trace().failed_allocations;
      return {};
    }
    const auto address = pointer == "(nil)" ? 0 : whole_number(pointer, 16);
    const auto bytes = whole_number(size);
    const auto on = stream == "(nil)" ? 0 : whole_number(stream, 16);
    const auto when = time_of(time);
    if (!address) return wrong(fmt::format("'{}' is not a pointer", quoted(pointer)));
    if (!bytes) return wrong(fmt::format("'{}' is not a size", quoted(size)));
    if (!on) return wrong(fmt::format("'{}' is not a stream", quoted(stream)));
    if (!when) return wrong(fmt::format("'{}' is not a time", quoted(time)));
    // Nothing at no address is neither given out nor taken back.
    if (*address == 0 && *bytes == 0) return {};
    if (*when < last_ - kDay / 2) midnights_ += kDay;
    last_ = *when;
    const auto problem = action == "allocate" ? builder_.allocate(*address, *bytes, *on, midnights_ + *when)
                                              : builder_.free(*address, *bytes, *on, midnights_ + *when);
    if (!problem.empty()) return wrong(fmt::format("{:#x} {}", *address, problem));
    return {};
  }

  Lines lines_;
  const std::string& name_;
  TraceBuilder builder_;
  std::int64_t last_ = 0;
  std::int64_t midnights_ = 0;
};

}  // namespace

bool is_rmm_log(std::string_view data) {
  Lines lines(data.substr(0, 4096));
  const std::string_view first = lines.next().value_or("");
  if (first == kHeading) return true;
  const Cells cells(first);
  return cells.count == 6 && is_action(cells.cells[2]);
}

Result<Trace> read_rmm_log(std::string_view data, const std::string& name, const ReadOptions& options) {
  if (options.device)
    return fail(ErrorCode::invalid_argument, fmt::format("{}: an RMM log does not name devices", name),
                "read it without naming a device");
  return RmmReader(data, name).read();
}

}  // namespace gpuwarden::memtrace
