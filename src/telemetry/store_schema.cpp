// SPDX-License-Identifier: Apache-2.0
#include "telemetry/store_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace gpuwarden::telemetry {
namespace {

struct SchemaPart {
  const char* name;
  const char* sql;
};

// Times are milliseconds since 1970, UTC; `t1` is not included. docs/recordings.md describes each column.
constexpr auto kSchema = std::to_array<SchemaPart>({
    {"meta", "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"},
    {"gpu",
     "CREATE TABLE gpu(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, idx INTEGER NOT NULL, name TEXT NOT NULL)"},
    {"metric",
     "CREATE TABLE metric(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL, scale REAL NOT NULL)"},
    {"hot", "CREATE TABLE hot(t INTEGER, gpu INTEGER, data BLOB NOT NULL, PRIMARY KEY(t, gpu)) WITHOUT ROWID"},
    {"chunk",
     "CREATE TABLE chunk(id INTEGER PRIMARY KEY, gpu INTEGER NOT NULL, step INTEGER NOT NULL, t0 INTEGER NOT NULL, t1 "
     "INTEGER NOT NULL, n INTEGER NOT NULL, data BLOB NOT NULL)"},
    {"chunk_by_time", "CREATE INDEX chunk_by_time ON chunk(gpu, step, t0, t1)"},
    {"usage",
     "CREATE TABLE usage(id INTEGER PRIMARY KEY, t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, gpu TEXT NOT NULL, idx "
     "INTEGER NOT NULL, user TEXT NOT NULL, job TEXT NOT NULL, pid INTEGER, command TEXT NOT NULL, gpu_seconds REAL "
     "NOT "
     "NULL, busy_seconds REAL NOT NULL, utilization REAL, memory INTEGER, merged INTEGER NOT NULL)"},
    {"usage_by_time", "CREATE INDEX usage_by_time ON usage(merged, t1)"},
    {"happening",
     "CREATE TABLE happening(id INTEGER PRIMARY KEY, t INTEGER NOT NULL, kind TEXT NOT NULL, gpu TEXT NOT NULL, text "
     "TEXT NOT NULL)"},
    {"happening_by_time", "CREATE INDEX happening_by_time ON happening(t)"},
});

}  // namespace

Result<void> make_schema(Database& database) {
  // These hold only when they come before the first table.
  GPUWARDEN_CHECK(database.execute("PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL"));
  return database.transact([&]() -> Result<void> {
    GPUWARDEN_CHECK(database.execute(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, kSchemaVersion).c_str()));
    for (const SchemaPart& part : kSchema) GPUWARDEN_CHECK(database.execute(part.sql));
    return {};
  });
}

Result<void> check_schema(Database& database) {
  GPUWARDEN_TRY(const std::int64_t application, database.number("PRAGMA application_id"));
  if (application != kApplicationId)
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is another program's database, not a gpuwarden history", database.file().string()),
                "`gpuwarden record -o FILE` makes a history");
  GPUWARDEN_TRY(const std::int64_t version, database.number("PRAGMA user_version"));
  if (version > kSchemaVersion)
    return fail(ErrorCode::unavailable,
                fmt::format("'{}' was written by a newer gpuwarden (format {}, this one knows {})",
                            database.file().string(), version, kSchemaVersion),
                "use that version, or a newer one");
  GPUWARDEN_TRY(Statement* const tables, database.statement("SELECT name, sql FROM sqlite_schema"));
  std::set<std::string> found;
  while (true) {
    GPUWARDEN_TRY(const bool more, tables->step());
    if (!more) break;
    const std::string name = tables->text(0);
    if (name.starts_with("sqlite_autoindex_") && tables->is_null(1)) continue;
    const bool is_ours = std::ranges::any_of(
        kSchema, [&](const SchemaPart& part) { return name == part.name && tables->text(1) == part.sql; });
    if (!is_ours) {
      tables->reset();
      return std::unexpected(damaged(database.file(), "it has a table that no gpuwarden made"));
    }
    found.insert(name);
  }
  if (found.size() != kSchema.size()) return std::unexpected(damaged(database.file(), "a table is missing"));
  return {};
}

}  // namespace gpuwarden::telemetry
