// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/open.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "recording/keys.hpp"

namespace gpuwarden::recording {
namespace {

namespace fs = std::filesystem;
using telemetry::WallTime;
using telemetry::Window;

constexpr std::string_view kSqlite{"SQLite format 3\0", 16};
constexpr const char* kWhatIsRead =
    "report reads what `gpuwarden record` and `gpuwarden run --record` write, and the "
    "JSON of `gpuwarden run --report`";

/// The file's first bytes. Fails for what is no file, and an empty one.
Result<std::string> beginning_of(const fs::path& file) {
  std::error_code error;
  const std::string name = printable(file.string());
  if (fs::is_directory(file, error))
    return fail(ErrorCode::invalid_argument, fmt::format("{} is a directory", name), kWhatIsRead);
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::unexpected(error_from_errno(errno == 0 ? EIO : errno, "cannot read " + name));
  std::string start(kSqlite.size(), '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(stream.gcount()));
  if (start.empty()) return fail(ErrorCode::invalid_argument, fmt::format("{} is empty", name), kWhatIsRead);
  return start;
}

Error about_file(const fs::path& file, Error error) {
  const std::string name = printable(file.string());
  if (!error.message.contains(name)) error.message = name + ": " + error.message;
  return error;
}

/// An end of a stretch: a duration after the beginning, or a moment.
Result<WallTime> end_from(const char* option, const std::string& text, WallTime begin) {
  if (const auto after = parse_duration(text)) return begin + *after;
  auto moment = moment_from(text, begin);
  if (moment) return *moment;
  Error error = std::move(moment).error();
  error.message = fmt::format("{}: {}", option, error.message);
  return std::unexpected(std::move(error));
}

/// One end of a stretch that lies outside of what was recorded.
std::unexpected<Error> outside(const char* option, const std::string& text, const char* where, const Window& covers) {
  return fail(ErrorCode::invalid_argument, fmt::format("{} {} is {} the recording", option, printable(text), where),
              fmt::format("it goes from {} to {}", format_utc(covers.from), format_utc(covers.to)));
}

Result<std::optional<Window>> window_from(const telemetry::Store& store, const Within& within) {
  if (within.from.empty() && within.to.empty()) return std::nullopt;
  GPUWARDEN_TRY(const auto covers, store.covers());
  if (!covers) return std::nullopt;
  Window window = *covers;
  if (!within.from.empty()) {
    GPUWARDEN_TRY(window.from, end_from("--from", within.from, covers->from));
    if (window.from >= covers->to) return outside("--from", within.from, "after the end of", *covers);
  }
  if (!within.to.empty()) {
    GPUWARDEN_TRY(window.to, end_from("--to", within.to, covers->from));
    if (window.to <= covers->from) return outside("--to", within.to, "before the beginning of", *covers);
  }
  if (window.from >= window.to)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--from {} is not before --to {}", printable(within.from), printable(within.to)));
  return window;
}

Result<Told> open_recording(const fs::path& file, const Within& within) {
  GPUWARDEN_TRY(const auto store, telemetry::Store::read(file));
  GPUWARDEN_TRY(const auto window, window_from(store, within));
  GPUWARDEN_TRY(auto readings, read_recording(store, window));
  Told told{.summary = summarize(readings), .readings = {}};
  told.readings = std::move(readings);
  return told;
}

Result<Told> open_json(const fs::path& file, const Within& within) {
  GPUWARDEN_TRY(const std::string text, read_file(file));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded())
    return fail(ErrorCode::corrupt,
                fmt::format("{} is not JSON, or only the beginning of it", printable(file.string())), kWhatIsRead);
  const bool known = json.is_object() && json.contains("gpus") && (json.contains("run_id") || json.contains("kind"));
  if (!known)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is JSON, but no report of a run", printable(file.string())), kWhatIsRead);
  if (!within.from.empty() || !within.to.empty())
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{} is a report without readings: --from and --to need a recording", printable(file.string())));
  GPUWARDEN_TRY(auto summary, summary_from_json(json));
  return Told{.summary = std::move(summary), .readings = {}};
}

Result<Told> open_by_content(const fs::path& file, const Within& within) {
  GPUWARDEN_TRY(const std::string start, beginning_of(file));
  if (start.starts_with(kSqlite)) return open_recording(file, within);
  if (trim(start).starts_with('{')) return open_json(file, within);
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is neither a recording nor a report of a run", printable(file.string())), kWhatIsRead);
}

}  // namespace

Result<WallTime> moment_from(std::string_view text, WallTime begin) {
  std::string whole(text);
  const auto day = format_utc(begin).substr(0, 11);
  if (whole.size() == 5) whole += ":00";
  if (whole.size() == 8) whole = day + whole + "Z";
  if (whole.size() == 19) whole += 'Z';
  if (whole.size() > 10 && whole[10] == ' ') whole[10] = 'T';
  const auto time = time_from_utc(whole);
  if (time) return *time;
  return fail(
      ErrorCode::invalid_argument, fmt::format("'{}' is not a time", printable(text)),
      "times look like 14:03, 14:03:07 or 2026-11-20T14:03:07Z, in UTC; 10m is ten minutes after the beginning");
}

Result<Told> open_report(const fs::path& file, const Within& within) {
  auto told = open_by_content(file, within);
  if (!told) return std::unexpected(about_file(file, std::move(told).error()));
  return told;
}

}  // namespace gpuwarden::recording
