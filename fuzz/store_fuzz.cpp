// SPDX-License-Identifier: Apache-2.0
// The SQLite file that `report` is given. An input that begins with "SQLite" is the whole file; of any other the bytes
// are put into the rows of a sound one, where random bytes get past SQLite: a chunk, a reading, a text.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "gpuwarden/recording/html.hpp"
#include "gpuwarden/recording/markdown.hpp"
#include "gpuwarden/recording/open.hpp"
#include "gpuwarden/telemetry/statistics.hpp"
#include "gpuwarden/telemetry/store.hpp"
#include "telemetry/columns.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::telemetry;

constexpr Window kAll{WallTime{}, WallTime::max()};

void check(bool holds) {
  if (!holds) std::abort();
}

const std::filesystem::path& fuzzed_file() {
  static const std::filesystem::path kFile = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") +
                                             std::string("/gpuwarden-fuzz-") + std::to_string(::getpid()) + ".db";
  return kFile;
}

void remove_file() {
  for (const char* const ending : {"", "-wal", "-shm", "-journal"}) {
    std::error_code absent;
    std::filesystem::remove(fuzzed_file().string() + ending, absent);
  }
}

void write_file(std::string_view bytes) {
  std::ofstream(fuzzed_file(), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A sound file without readings.
std::string sound_file() {
  {
    check(Store::open(fuzzed_file(), StoreConfig::of_recording(), {}, system_clock())->finish().has_value());
  }
  std::ifstream file(fuzzed_file(), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A sound file whose rows hold the input.
void write_rows(std::string_view bytes) {
  static const std::string kSound = sound_file();
  write_file(kSound);
  sqlite3* database = nullptr;
  check(sqlite3_open(fuzzed_file().c_str(), &database) == SQLITE_OK);
  sqlite3_exec(
      database,
      "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; BEGIN; INSERT INTO gpu VALUES(1, 'GPU-1', 0, 'x')",
      nullptr, nullptr, nullptr);
  for (const char* const sql :
       {"INSERT INTO chunk VALUES(NULL, 1, 0, 0, 2000, 1, ?1)",
        "INSERT INTO chunk VALUES(NULL, 1, 10000, 0, 1000, 1, ?1)", "INSERT INTO hot VALUES(5000, 1, ?1)",
        "INSERT INTO usage VALUES(NULL, 0, 9, ?1, 0, ?1, ?1, 1, ?1, 1, 1, 1, 1, 0)",
        "INSERT INTO happening VALUES(NULL, 1, ?1, ?1, ?1)", "INSERT OR REPLACE INTO meta VALUES('command', ?1)"}) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) == SQLITE_OK);
    sqlite3_bind_blob(statement, 1, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
    sqlite3_step(statement);
    sqlite3_finalize(statement);
  }
  sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr);
  sqlite3_close(database);
}

void check(const Series& series) {
  WallTime last = WallTime::min();
  for (const Point& point : series.points) {
    check(point.time >= last && point.min <= point.mean && point.mean <= point.max && point.readings > 0);
    last = point.time;
  }
  static_cast<void>(statistics_of(series));
  static_cast<void>(energy_of(series, series));
}

void read_all() {
  const auto store = Store::read(fuzzed_file());
  if (!store) {
    check(!store.error().message.empty());
    return;
  }
  static_cast<void>(store->info());
  static_cast<void>(store->covers());
  if (const auto uses = store->uses(kAll)) static_cast<void>(sum_up(*uses, UseBy::user));
  static_cast<void>(store->happenings(kAll));
  const auto gpus = store->gpus();
  for (std::size_t i = 0; gpus && i < std::min<std::size_t>(gpus->size(), 2); ++i) {
    for (const char* const metric : {"power", "energy", "memory_used_percent"}) {
      for (const int step : {0, 7}) {
        const auto series = store->series((*gpus)[i].uuid, metric, kAll, std::chrono::seconds(step));
        if (series) check(*series);
      }
    }
  }
}

/// What `report` does with it.
void report_all() {
  const auto told = gpuwarden::recording::open_report(fuzzed_file());
  check(told || !told.error().message.empty());
  if (!told) return;
  check(gpuwarden::recording::to_html(*told).ends_with("</html>\n"));
  static_cast<void>(gpuwarden::recording::to_markdown(told->summary));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  remove_file();
  if (bytes.starts_with("SQLite")) {
    write_file(bytes);
  } else {
    write_rows(bytes);
    const auto view = FrameView::open(bytes);
    if (view) static_cast<void>(view->read(view->metrics()));
  }
  read_all();
  report_all();
  remove_file();
  return 0;
}
