// SPDX-License-Identifier: Apache-2.0
// Opening a history's file: whose it is, who writes it, and what it says about itself.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "telemetry/store_impl.hpp"
#include "telemetry/store_schema.hpp"

namespace gpuwarden::telemetry {
namespace {

constexpr std::size_t kLongestText = 4096;

std::string json_of(const std::vector<std::string>& words) {
  return nlohmann::json(words).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> words_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<std::string> words;
  if (!json.is_array()) return words;
  for (const auto& word : json) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

/// The file's first tier keeps readings as they are made, whatever the configuration wants of it.
std::vector<Tier> clean_tiers(std::vector<Tier> tiers) {
  std::erase_if(tiers, [](const Tier& tier) { return tier.step.count() < 0 || tier.keep.count() < 0; });
  std::ranges::stable_sort(tiers, {}, &Tier::step);
  const auto repeated = std::ranges::unique(tiers, {}, &Tier::step);
  tiers.erase(repeated.begin(), repeated.end());
  // Where no readings are asked for they stay until they are downsampled.
  if (tiers.empty() || tiers.front().step.count() > 0)
    tiers.insert(tiers.begin(), Tier{.step = {}, .keep = std::chrono::milliseconds(tiers.empty() ? 0 : 1)});
  return tiers;
}

/// Makes the file where there is none, and locks it: two writers would not know of each other's readings.
Result<UniqueFd> lock_file_of(const std::filesystem::path& file, bool& is_new) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!fd) return std::unexpected(error_from_errno(errno, fmt::format("'{}'", file.string())));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a regular file", file.string()));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::unavailable, fmt::format("'{}' is being written by another gpuwarden", file.string()),
                "give each its own file, or end the other first");
  // Looked at under the lock: the other may have made it in between.
  is_new = ::fstat(fd.get(), &status) == 0 && status.st_size == 0;
  return fd;
}

Result<void> check_readable(const std::filesystem::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0)
    return std::unexpected(error_from_errno(errno, fmt::format("'{}'", file.string())));
  if (S_ISDIR(status.st_mode))
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is a directory", file.string()));
  if (!S_ISREG(status.st_mode))
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a regular file", file.string()));
  if (status.st_size == 0)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is empty", file.string()),
                "`gpuwarden record -o FILE` makes a history");
  if (::access(file.c_str(), R_OK) != 0)
    return std::unexpected(error_from_errno(errno, fmt::format("'{}'", file.string())));
  return {};
}

/// Whether readings may lie beside the file, not yet in it.
bool has_journal(const std::filesystem::path& file) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(file.string() + "-wal", failed);
  return !failed && size > 0;
}

Result<std::unique_ptr<Database>> open_checked(const std::filesystem::path& file, Database::Mode mode) {
  GPUWARDEN_TRY(auto database, Database::open(file, mode));
  GPUWARDEN_CHECK(check_schema(*database));
  return database;
}

}  // namespace

StoreConfig StoreConfig::of_recording() { return {.tiers = {{std::chrono::milliseconds(0), std::chrono::hours(0)}}}; }

Result<std::unique_ptr<Store::Impl>> Store::Impl::open(const std::filesystem::path& file, const StoreConfig& config,
                                                       const StoreInfo& info, Clock& clock) {
  auto impl = std::make_unique<Impl>();
  impl->writes_ = true;
  impl->clock_ = &clock;
  impl->tiers_ = clean_tiers(config.tiers);
  bool is_new = false;
  GPUWARDEN_TRY(impl->lock_, lock_file_of(file, is_new));
  const Result<void> prepared = [&]() -> Result<void> {
    GPUWARDEN_TRY(impl->database_, Database::open(file, Database::Mode::write));
    return impl->prepare(info, is_new);
  }();
  if (prepared) return impl;
  // Nothing half made stays behind.
  if (is_new) ::unlink(file.c_str());
  return std::unexpected(prepared.error());
}

Result<void> Store::Impl::prepare(const StoreInfo& info, bool is_new) {
  if (!is_new) {
    // Somebody was killed while making it: SQLite has taken back what was begun.
    GPUWARDEN_TRY(const std::int64_t parts, database_->number("SELECT count(*) FROM sqlite_schema"));
    GPUWARDEN_TRY(const std::int64_t application, database_->number("PRAGMA application_id"));
    is_new = parts == 0 && application == 0;
  }
  if (is_new) GPUWARDEN_CHECK(make_schema(*database_));
  GPUWARDEN_CHECK(check_schema(*database_));
  if (!is_new) {
    GPUWARDEN_TRY(auto meta, read_meta());
    if ((meta["simulated"] == "1") != info.simulated)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("'{}' holds readings of a {} machine, these are of a {} one", database_->file().string(),
                              info.simulated ? "real" : "simulated", info.simulated ? "simulated" : "real"),
                  "give each its own file");
  }
  // NORMAL: a power cut may take the last seconds, a crash of a program takes nothing, and neither harms the file.
  GPUWARDEN_CHECK(database_->execute(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 256; PRAGMA "
      "journal_size_limit = 4194304; PRAGMA cache_size = -4096"));
  GPUWARDEN_CHECK(database_->transact([&]() -> Result<void> {
    GPUWARDEN_CHECK(write_info(info));
    return add_missing_metrics();
  }));
  return load_state();
}

Result<std::unique_ptr<Store::Impl>> Store::Impl::read(const std::filesystem::path& file,
                                                       std::chrono::milliseconds patience) {
  GPUWARDEN_CHECK(check_readable(file));
  auto impl = std::make_unique<Impl>();
  auto opened = open_checked(file, Database::Mode::read);
  if (!opened && opened.error().code != ErrorCode::invalid_argument && opened.error().code != ErrorCode::corrupt &&
      opened.error().code != ErrorCode::unavailable) {
    // In a folder that cannot be written SQLite finds no place for what readers of a live file share. What is not live
    // can be read without.
    if (has_journal(file))
      return fail(ErrorCode::permission_denied,
                  fmt::format("'{}' was not closed in order, and its folder cannot be written", file.string()),
                  "copy the file and the -wal beside it to a folder that you may write to");
    opened = open_checked(file, Database::Mode::immutable);
  }
  if (!opened) return std::unexpected(opened.error());
  impl->database_ = std::move(*opened);
  impl->database_->set_patience(patience);
  return impl;
}

Result<void> Store::Impl::write_meta(const std::string& key, const std::string& value) {
  GPUWARDEN_TRY(
      Statement* const insert,
      database_->statement("INSERT INTO meta(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = "
                           "excluded.value"));
  return insert->bind(1, key).bind(2, value.substr(0, kLongestText)).run();
}

Result<void> Store::Impl::write_info(const StoreInfo& info) {
  GPUWARDEN_CHECK(write_meta("host", info.host));
  GPUWARDEN_CHECK(write_meta("simulated", info.simulated ? "1" : "0"));
  GPUWARDEN_CHECK(write_meta("fleet", info.fleet));
  GPUWARDEN_CHECK(write_meta("driver_version", info.driver_version));
  std::vector<std::string> command = info.command;
  // An argument list that is cut off in the middle would be no list.
  while (!command.empty() && json_of(command).size() > kLongestText) command.pop_back();
  GPUWARDEN_CHECK(write_meta("command", json_of(command)));
  GPUWARDEN_CHECK(write_meta("interval_ms", std::to_string(info.interval.count())));
  GPUWARDEN_CHECK(write_meta("exit_code", ""));
  return write_meta("finished", "0");
}

Result<std::map<std::string, std::string>> Store::Impl::read_meta() {
  GPUWARDEN_TRY(Statement* const select, database_->statement("SELECT key, value FROM meta WHERE key < '~' LIMIT 100"));
  std::map<std::string, std::string> meta;
  while (true) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) return meta;
    meta[select->text(0)] = select->text(1).substr(0, kLongestText);
  }
}

Result<StoreInfo> Store::Impl::info() {
  GPUWARDEN_CHECK(start_answer());
  GPUWARDEN_TRY(auto meta, read_meta());
  StoreInfo info;
  info.host = printable(meta["host"]);
  info.simulated = meta["simulated"] != "0";
  info.fleet = printable(meta["fleet"]);
  info.driver_version = printable(meta["driver_version"]);
  for (const std::string& word : words_of(meta["command"])) info.command.push_back(printable(word));
  if (const auto code = parse_integer(meta["exit_code"]); code && *code >= 0 && *code < 65536)
    info.exit_code = static_cast<int>(*code);
  info.interval = std::chrono::milliseconds(
      std::clamp<std::int64_t>(parse_integer(meta["interval_ms"]).value_or(0), 0, 86'400'000));
  info.finished = meta["finished"] == "1";
  return info;
}

Result<void> Store::Impl::add_missing_metrics() {
  GPUWARDEN_TRY(Statement* const insert,
                database_->statement("INSERT OR IGNORE INTO metric(name, unit, scale) VALUES(?1, ?2, ?3)"));
  for (const facts::Metric& metric : facts::metrics()) {
    GPUWARDEN_CHECK(insert->bind(1, std::string(metric.id))
                        .bind(2, std::string(metric.unit))
                        .bind(3, steps_per_unit(metric))
                        .run());
  }
  return {};
}

Result<std::vector<MetricColumn>> Store::Impl::load_columns() {
  GPUWARDEN_TRY(Statement* const select,
                database_->statement("SELECT id, name, scale FROM metric WHERE id BETWEEN 1 AND 1000 ORDER BY id"));
  std::vector<MetricColumn> columns;
  while (true) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) return columns;
    const double scale = select->real(2);
    const auto* const metric = facts::find_metric(select->text(1));
    // Of another gpuwarden's metrics nothing is known but the name: they are not shown.
    if (metric != nullptr && std::isfinite(scale) && scale >= 1e-9 && scale <= 1e12)
      columns.push_back({static_cast<std::uint32_t>(select->integer(0)), metric, scale});
  }
}

Result<void> Store::Impl::load_state() {
  GPUWARDEN_TRY(columns_, load_columns());
  known_.clear();
  numbers_.clear();
  facts_.clear();
  GPUWARDEN_TRY(Statement* const select, database_->statement("SELECT id, uuid, idx, name FROM gpu"));
  while (true) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) break;
    const Uuid uuid(select->text(1));
    numbers_[uuid] = select->integer(0);
    known_[uuid] = {uuid, GpuIndex{static_cast<std::uint32_t>(select->integer(2))}, select->text(3)};
  }
  GPUWARDEN_TRY(hot_readings_, database_->number("SELECT count(DISTINCT t) FROM hot"));
  GPUWARDEN_TRY(uses_, database_->number("SELECT count(*) FROM usage"));
  GPUWARDEN_TRY(const std::int64_t last_hot, database_->number("SELECT max(t) FROM hot"));
  GPUWARDEN_TRY(const std::int64_t last_chunk, database_->number("SELECT max(t1) - 1 FROM chunk WHERE step = 0"));
  const std::int64_t last = std::max(last_hot, last_chunk);
  last_time_ = last > 0 ? std::optional(last) : std::nullopt;
  return {};
}

}  // namespace gpuwarden::telemetry
