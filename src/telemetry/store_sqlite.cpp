// SPDX-License-Identifier: Apache-2.0
#include "telemetry/store_sqlite.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <utility>

namespace gpuwarden::telemetry {
namespace {

/// A chunk is some hundred kilobytes at most; a row that claims more is nobody's of ours.
constexpr int kLongestValue = 8 << 20;
constexpr int kStepsBetweenLooks = 100'000;
constexpr int kMostLooks = 1000;
constexpr std::chrono::milliseconds kBusyPatience = std::chrono::seconds(5);

/// For SQLite's "file:" names, in which some characters mean something.
std::string uri_of(const std::filesystem::path& file) {
  std::string uri = "file:";
  for (const char c : file.string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02x}", byte);
  }
  return uri + "?immutable=1";
}

bool is_full(int code, int error_number) {
  return code == SQLITE_FULL ||
         (code == SQLITE_IOERR && (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG));
}

}  // namespace

Error damaged(const std::filesystem::path& file, std::string_view what) {
  return {ErrorCode::corrupt, fmt::format("'{}' is damaged: {}", file.string(), what),
          "`sqlite3 FILE .recover` may save what is left in it; a new file starts a new history"};
}

Error sqlite_error(sqlite3* database, int code, const std::filesystem::path& file) {
  const int plain = code & 0xff;
  const int error_number = sqlite3_system_errno(database);
  const std::string words = fmt::format("'{}': {}", file.string(), sqlite3_errmsg(database));
  if (is_full(plain, error_number))
    return {ErrorCode::failed, fmt::format("'{}': no space left to write to", file.string()),
            "make room; what was written before is safe, and writing goes on by itself"};
  // A quota and a limit on the size of files end here, too, and what the system said is mostly lost by now.
  if (code == SQLITE_IOERR_WRITE)
    return {
        ErrorCode::failed, fmt::format("'{}' cannot be written: {}", file.string(), sqlite3_errmsg(database)),
        "look for room on the disk, quotas and limits; what was written before is safe, and writing goes on by itself"};
  switch (plain) {
    case SQLITE_CORRUPT:
      return damaged(file, sqlite3_errmsg(database));
    case SQLITE_INTERRUPT:
      return damaged(file, "reading it takes longer than reading any history would");
    case SQLITE_TOOBIG:
      return damaged(file, "it has a row that is larger than any of a history");
    case SQLITE_NOTADB:
      return {ErrorCode::invalid_argument, fmt::format("'{}' is not a gpuwarden history", file.string()),
              "it is not an SQLite database; `gpuwarden record -o FILE` makes one"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::unavailable, fmt::format("'{}' is in use by another program", file.string()),
              "try again when that has ended"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ErrorCode::permission_denied, words, "the file and its folder must be writable"};
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
      if (error_number != 0) return error_from_errno(error_number, fmt::format("'{}'", file.string()));
      break;
    default:
      break;
  }
  return {ErrorCode::failed, words, {}};
}

Error too_slow(const std::filesystem::path& file) {
  return {ErrorCode::timed_out, fmt::format("'{}' did not answer in time", file.string()),
          "ask for a shorter time, or for longer steps"};
}

/// Zero goes on; called every kStepsBetweenLooks steps of SQLite's machine.
int Database::look(void* work) {
  auto& left = *static_cast<Work*>(work);
  return --left.looks_left < 0 || left.is_late() ? 1 : 0;
}

Statement& Statement::bind(int parameter, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}
Statement& Statement::bind(int parameter, double value) {
  sqlite3_bind_double(statement_.get(), parameter, value);
  return *this;
}
Statement& Statement::bind(int parameter, const std::string& text) {
  sqlite3_bind_text64(statement_.get(), parameter, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind_blob(int parameter, std::string_view bytes) {
  sqlite3_bind_blob64(statement_.get(), parameter, bytes.data(), bytes.size(), SQLITE_STATIC);
  return *this;
}
Statement& Statement::bind_null(int parameter) {
  sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  Error error = sqlite_error(database_, code, *file_);
  reset();
  return std::unexpected(std::move(error));
}

Result<void> Statement::run() {
  GPUWARDEN_CHECK(step());
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

bool Statement::is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }
std::string Statement::text(int column) const {
  const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}
std::string_view Statement::blob(int column) const {
  const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Result<std::unique_ptr<Database>> Database::open(const std::filesystem::path& file, Mode mode) {
  std::error_code ignored;
  // Absolute: a name that begins with "file:" would mean something else to SQLite.
  const std::filesystem::path path = std::filesystem::absolute(file, ignored);
  std::unique_ptr<Database> result(new Database(file));
  const bool immutable = mode == Mode::immutable;
  const int access = mode == Mode::write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(
      (immutable ? uri_of(path) : path.string()).c_str(), &database,
      access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (immutable ? SQLITE_OPEN_URI : 0), nullptr);
  result->database_.reset(database);
  if (database == nullptr) return fail(ErrorCode::failed, "out of memory");
  if (code != SQLITE_OK) return std::unexpected(sqlite_error(database, code, file));
  result->harden();
  if (mode != Mode::write) {
    result->allow_work();
    sqlite3_progress_handler(database, kStepsBetweenLooks, &look, &result->work_);
  }
  GPUWARDEN_CHECK(result->execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY"));
  return result;
}

/// As SQLite's authors advise for files of strangers (sqlite.org/security.html).
void Database::harden() {
  sqlite3* const database = database_.get();
  sqlite3_busy_timeout(database, static_cast<int>(kBusyPatience.count()));
  constexpr auto kSwitches = std::to_array<std::pair<int, int>>({{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                                                 {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                                                 {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                                                 {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                                                 {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                                                                 {SQLITE_DBCONFIG_DQS_DDL, 0},
                                                                 {SQLITE_DBCONFIG_DQS_DML, 0}});
  for (const auto& [name, value] : kSwitches) sqlite3_db_config(database, name, value, nullptr);
  constexpr auto kLimits = std::to_array<std::pair<int, int>>({{SQLITE_LIMIT_LENGTH, kLongestValue},
                                                               {SQLITE_LIMIT_SQL_LENGTH, 100'000},
                                                               {SQLITE_LIMIT_COLUMN, 100},
                                                               {SQLITE_LIMIT_EXPR_DEPTH, 30},
                                                               {SQLITE_LIMIT_COMPOUND_SELECT, 5},
                                                               {SQLITE_LIMIT_VDBE_OP, 25'000},
                                                               {SQLITE_LIMIT_ATTACHED, 0},
                                                               {SQLITE_LIMIT_TRIGGER_DEPTH, 1}});
  for (const auto& [name, value] : kLimits) sqlite3_limit(database, name, value);
}

void Database::allow_work() {
  work_.looks_left = kMostLooks;
  work_.begun = std::chrono::steady_clock::now();
}

Result<void> Database::execute(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return std::unexpected(sqlite_error(database_.get(), code, file_));
  return {};
}

Result<Statement*> Database::statement(const char* sql) {
  if (const auto found = statements_.find(sql); found != statements_.end()) {
    found->second->reset();
    return found->second.get();
  }
  sqlite3_stmt* prepared = nullptr;
  const int code = sqlite3_prepare_v3(database_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
  if (code != SQLITE_OK) return std::unexpected(sqlite_error(database_.get(), code, file_));
  const auto entry = statements_.emplace(sql, std::make_unique<Statement>(database_.get(), prepared, &file_)).first;
  return entry->second.get();
}

Result<std::int64_t> Database::number(const char* sql) {
  GPUWARDEN_TRY(Statement* const query, statement(sql));
  GPUWARDEN_TRY(const bool found, query->step());
  const std::int64_t value = found ? query->integer(0) : 0;
  query->reset();
  return value;
}

}  // namespace gpuwarden::telemetry
