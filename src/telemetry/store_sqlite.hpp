// SPDX-License-Identifier: Apache-2.0
// SQLite with this house's errors. Files may be anybody's: what a file could make SQLite do besides holding rows is
// off.
#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::telemetry {

/// A prepared statement. Parameters and columns count as SQLite counts them: from 1, and from 0.
class Statement {
 public:
  Statement(sqlite3* database, sqlite3_stmt* statement, const std::filesystem::path* file)
      : database_(database), statement_(statement, &sqlite3_finalize), file_(file) {}

  Statement& bind(int parameter, std::int64_t value);
  Statement& bind(int parameter, double value);
  Statement& bind(int parameter, const std::string& text);
  /// The bytes must stay until the statement has run.
  Statement& bind_blob(int parameter, std::string_view bytes);
  Statement& bind_null(int parameter);
  /// Whether there is a (next) row.
  Result<bool> step();
  /// For what answers no rows; the statement can be bound anew then.
  Result<void> run();
  /// Ready to be bound anew.
  void reset();

  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  /// Until the next step.
  std::string_view blob(int column) const;

 private:
  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement_;
  const std::filesystem::path* file_;
};

/// A connection. Not thread-safe.
class Database {
 public:
  enum class Mode { write, read, immutable };
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& file, Mode mode);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database() = default;

  /// Runs statements without parameters and rows.
  Result<void> execute(const char* sql);
  /// The statement of this text, reset; prepared when it is first asked for. One user at a time.
  Result<Statement*> statement(const char* sql);
  /// The integer that a statement answers; 0 where it answers none.
  Result<std::int64_t> number(const char* sql);
  /// Finishes `work` as a whole or not at all.
  template <class Work>
  Result<void> transact(Work work) {
    GPUWARDEN_CHECK(execute("BEGIN IMMEDIATE"));
    Result<void> done = work();
    if (done) done = execute("COMMIT");
    if (!done && sqlite3_get_autocommit(database_.get()) == 0) static_cast<void>(execute("ROLLBACK"));
    return done;
  }
  /// Rows that the last statement changed.
  int changes() const { return sqlite3_changes(database_.get()); }
  /// A reader may take so much work from here on; then it fails with corrupt, or with timed_out after its patience.
  void allow_work();
  /// How long an answer may take; 0: as long as it takes.
  void set_patience(std::chrono::milliseconds patience) { work_.patience = patience; }
  bool is_late() const { return work_.is_late(); }
  const std::filesystem::path& file() const { return file_; }

 private:
  explicit Database(std::filesystem::path file) : file_(std::move(file)) {}
  void harden();

  /// What one answer may cost yet.
  struct Work {
    int looks_left = 0;
    std::chrono::milliseconds patience{0};
    std::chrono::steady_clock::time_point begun;
    bool is_late() const { return patience.count() > 0 && std::chrono::steady_clock::now() - begun >= patience; }
  };
  static int look(void* work);

  std::filesystem::path file_;
  Work work_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_{nullptr, &sqlite3_close_v2};
  std::map<std::string, std::unique_ptr<Statement>, std::less<>> statements_;
};

/// What a failure of SQLite means to people.
Error sqlite_error(sqlite3* database, int code, const std::filesystem::path& file);
Error damaged(const std::filesystem::path& file, std::string_view what);
Error too_slow(const std::filesystem::path& file);

}  // namespace gpuwarden::telemetry
