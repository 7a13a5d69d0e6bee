// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/store.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/telemetry/statistics.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/repetitions.hpp"
#include "support/temp_dir.hpp"
#include "telemetry/readings.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::testing;
using namespace gpuwarden::telemetry;
using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

namespace fs = std::filesystem;

constexpr Window kAll{WallTime{}, WallTime::max()};

class StoreTest : public ::testing::Test {
 protected:
  Store open(StoreConfig config = {}, const StoreInfo& info = {}) {
    auto store = Store::open(file_, std::move(config), info, clock_);
    EXPECT_THAT(store, IsOk());
    return std::move(*store);
  }
  Store reader() const {
    auto store = Store::read(file_);
    EXPECT_THAT(store, IsOk());
    return std::move(*store);
  }
  /// Runs SQL on the file, as somebody else's program would.
  void sql(const std::string& text) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

  TempDir folder_;
  FakeClock clock_;
  fs::path file_ = folder_ / "history.db";
};

Series series_of(const Store& store, std::string_view metric, std::chrono::milliseconds step = {},
                 Window window = kAll) {
  auto series = store.series(reading_uuid(0), metric, window, step);
  EXPECT_THAT(series, IsOk());
  return series.value_or(Series{});
}

/// Bytes of the file and what SQLite keeps beside it.
std::uintmax_t size_on_disk(const fs::path& file) {
  std::uintmax_t size = 0;
  for (const char* const ending : {"", "-wal", "-shm"}) {
    std::error_code absent;
    const auto part = fs::file_size(file.string() + ending, absent);
    if (!absent) size += part;
  }
  return size;
}

StoreInfo of_machine(bool simulated) {
  StoreInfo info;
  info.simulated = simulated;
  return info;
}

StoreConfig short_tiers() { return {.tiers = {{0s, 10min}, {10s, 40min}, {60s, 2h}}}; }

TEST_F(StoreTest, WhatWasAddedIsReadBackByAnother) {
  const StoreInfo info{.host = "n1",
                       .simulated = true,
                       .fleet = "h100x8",
                       .driver_version = "550.54.15",
                       .command = {"python", "train.py", "--name=\xff"},
                       .exit_code = {},
                       .interval = 1s,
                       .finished = false};
  Store store = open(StoreConfig::of_recording(), info);
  BusyFleet fleet(2);
  std::vector<Reading> readings;
  for (int i = 0; i < 1300; ++i) {
    readings.push_back(fleet.next(i * 1s));
    ASSERT_THAT(store.add(readings.back()), IsOk());
  }
  ASSERT_THAT(store.finish(3), IsOk());
  EXPECT_FALSE(fs::exists(file_.string() + "-wal"));
  EXPECT_FALSE(fs::exists(file_.string() + "-shm"));
  const Store read = reader();
  const auto told = read.info();
  ASSERT_THAT(told, IsOk());
  EXPECT_EQ(told->host, "n1");
  EXPECT_TRUE(told->simulated);
  EXPECT_EQ(told->fleet, "h100x8");
  EXPECT_THAT(told->command, ElementsAre("python", "train.py", HasSubstr("--name=")));
  EXPECT_EQ(told->exit_code, 3);
  EXPECT_EQ(told->interval, 1s);
  EXPECT_TRUE(told->finished);
  EXPECT_THAT(*read.gpus(), SizeIs(2));
  const auto covers = read.covers();
  ASSERT_TRUE(covers && *covers);
  EXPECT_EQ((*covers)->from, kReadingsBegin);
  EXPECT_EQ((*covers)->to, kReadingsBegin + 1299s + 1ms);
  for (const facts::Metric& metric : facts::metrics()) {
    const Series series = series_of(read, metric.id);
    ASSERT_THAT(series.points, SizeIs(1300)) << metric.id;
    for (std::size_t i = 0; i < 1300; ++i) {
      EXPECT_EQ(series.points[i].time, readings[i].snapshot.taken_at);
      EXPECT_EQ(series.points[i].mean, value_of(metric, readings[i].snapshot.gpus[0].sample)) << metric.id;
    }
  }
}

TEST_F(StoreTest, ARunningStoreAnswersFromWhatIsSealedAndWhatIsNot) {
  Store store = open(StoreConfig::of_recording());
  for (int i = 0; i < 1000; ++i) ASSERT_THAT(store.add(reading_with(i * 1s, "power", i % 700)), IsOk());
  const Store read = reader();
  for (const Store* const one : {static_cast<const Store*>(&store), &read}) {
    EXPECT_THAT(series_of(*one, "power").points, SizeIs(1000));
    const Series minutes = series_of(*one, "power", 60s);
    // The begin is 20 s after a full minute.
    EXPECT_EQ(minutes.points[0].readings, 40U);
    EXPECT_EQ(minutes.points[1], (Point{kReadingsBegin + 40s, 40, 69.5, 99, 60}));
  }
}

TEST_F(StoreTest, DownsampledStepsKeepMinMeanMaxOfTheReadings) {
  Store store = open(short_tiers());
  std::vector<Reading> readings;
  BusyFleet fleet(1);
  for (int i = 0; i < 7200; ++i) {
    readings.push_back(fleet.next(i * 1s));
    ASSERT_THAT(store.add(readings.back()), IsOk());
  }
  ASSERT_THAT(store.maintain(), IsOk());
  const Series minutes = series_of(store, "power", 60s);
  ASSERT_THAT(minutes.points, SizeIs(121));
  for (const Point& point : minutes.points) {
    double low = 1e9;
    double high = 0;
    double sum = 0;
    unsigned count = 0;
    for (const Reading& reading : readings) {
      if (reading.snapshot.taken_at < point.time || reading.snapshot.taken_at >= point.time + 60s) continue;
      const double power = *value_of(*facts::find_metric("power"), reading.snapshot.gpus[0].sample);
      low = std::min(low, power);
      high = std::max(high, power);
      sum += power;
      ++count;
    }
    EXPECT_EQ(point.min, low);
    EXPECT_EQ(point.max, high);
    EXPECT_EQ(point.readings, count);
    EXPECT_NEAR(point.mean, sum / count, 0.001);
  }
  // The last ten minutes are there as they were read, the first ones in steps.
  const Window last{kReadingsBegin + 7190s, kReadingsBegin + 7200s};
  EXPECT_THAT(series_of(store, "power", 0s, last).points, SizeIs(10));
  EXPECT_EQ(series_of(store, "power").step, 60s);
}

TEST_F(StoreTest, EnergyIsTheSameFromTheReadingsAndFromTheSteps) {
  Store store = open(short_tiers());
  for (int i = 0; i < 5000; ++i) ASSERT_THAT(store.add(reading_with(i * 1s, "energy", 1e6 + 300.5 * i)), IsOk());
  EXPECT_NEAR(energy_of({}, series_of(store, "energy"))->joules, 300.5 * 4999, 0.1);
}

TEST_F(StoreTest, TwoHoursOfTwoGpusStayWithinTheirBound) {
  if (kSanitized) GTEST_SKIP() << "sizes are the release build's to show, and this takes minutes here";
  Store store = open({.tiers = {{0s, 5min}, {10s, 15min}, {60s, 30min}}});
  BusyFleet fleet(2);
  std::uintmax_t at_half = 0;
  rusage half{};
  for (int i = 0; i < 7200; ++i) {
    const Reading reading = fleet.next(i * 1s);
    Use use;
    use.user = "ann";
    use.gpu = reading_uuid(0);
    use.from = reading.snapshot.taken_at;
    use.to = use.from + 1s;
    ASSERT_THAT(store.add(reading, {use}), IsOk());
    if (i != 3600) continue;
    at_half = size_on_disk(file_);
    ::getrusage(RUSAGE_SELF, &half);
  }
  rusage end{};
  ::getrusage(RUSAGE_SELF, &end);
  // Sanitizers keep what was freed.
  if (!kSanitized) {
    EXPECT_LT(end.ru_maxrss - half.ru_maxrss, 8 * 1024) << "KiB";
  }
  // Uses are merged only after a day: they are the rows that grow here.
  EXPECT_LT(size_on_disk(file_), at_half + 3'000'000);
  EXPECT_LT(size_on_disk(file_), 12'000'000U);
  const auto covers = store.covers();
  ASSERT_TRUE(covers && *covers);
  EXPECT_GT((*covers)->from, kReadingsBegin + 80min) << "what is older than the last tier is forgotten";
}

TEST_F(StoreTest, UsesOfADayAgoAreMergedToHoursAndNoTimeIsLost) {
  Store store = open();
  double seconds = 0;
  for (int minute = 0; minute < 27 * 60; ++minute) {
    Use use;
    use.user = "ann";
    use.pid = Pid{7};
    use.gpu = reading_uuid(0);
    use.from = kReadingsBegin + minute * 1min;
    use.to = use.from + 1min;
    use.gpu_seconds = 60;
    use.busy_seconds = 30;
    use.mean_utilization = 50;
    seconds += 60;
    ASSERT_THAT(store.add(reading_with(minute * 1min, "power", 100), {use}), IsOk());
  }
  ASSERT_THAT(store.maintain(), IsOk());
  const auto uses = store.uses(kAll);
  ASSERT_THAT(uses, IsOk());
  EXPECT_LT(uses->size(), 25U * 60);
  const auto users = sum_up(*uses, UseBy::user);
  ASSERT_THAT(users, SizeIs(1));
  EXPECT_DOUBLE_EQ(users[0].gpu_seconds, seconds);
  EXPECT_DOUBLE_EQ(users[0].busy_seconds, seconds / 2);
  EXPECT_DOUBLE_EQ(users[0].mean_utilization.value_or(-1), 50);
}

TEST_F(StoreTest, HappeningsComeBackInOrderTheNewestOfThem) {
  Store store = open();
  for (int i = 0; i < 5; ++i) {
    const Happening happening{
        .time = kReadingsBegin + i * 1s, .kind = "xid", .gpu = reading_uuid(0), .text = fmt::format("Xid {}", i)};
    ASSERT_THAT(store.add(reading_with(i * 1s, "power", 1), {}, {happening}), IsOk());
  }
  const auto last = store.happenings(kAll, 2);
  ASSERT_THAT(last, IsOk());
  ASSERT_THAT(*last, SizeIs(2));
  EXPECT_EQ((*last)[0].text, "Xid 3");
  EXPECT_EQ((*last)[1].text, "Xid 4");
  EXPECT_THAT(*store.happenings({kReadingsBegin, kReadingsBegin + 1s}), SizeIs(1));
}

TEST_F(StoreTest, DerivedMetricsAndUnknownOnes) {
  Store store = open();
  Reading reading = reading_with(0s, "memory_used", 25);
  reading.snapshot.gpus[0].sample.memory_total = Bytes(100);
  ASSERT_THAT(store.add(reading), IsOk());
  EXPECT_DOUBLE_EQ(series_of(store, "memory_used_percent").points.at(0).mean, 25);
  EXPECT_THAT(store.series(reading_uuid(0), "powr", kAll, 0s),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("powr")));
  EXPECT_THAT(store.series(Uuid("GPU-x"), "power", kAll, 0s), FailsWith(ErrorCode::not_found, HasSubstr("GPU-x")));
}

TEST_F(StoreTest, TimesGrowThoughTheClockIsSetBackAndTheProgramStartedAgain) {
  {
    Store store = open();
    for (int i = 0; i < 10; ++i) ASSERT_THAT(store.add(reading_with(i * 1s, "power", i)), IsOk());
    for (int i = 10; i < 40; ++i) {
      Reading reading = reading_with(i * 1s, "power", i);
      reading.snapshot.taken_at -= 10s;
      ASSERT_THAT(store.add(reading), IsOk());
    }
    // After twice the time by which it was set back file and clock agree again.
    EXPECT_EQ(series_of(store, "power").points.back().time, kReadingsBegin + 29s);
  }
  Store store = open();
  Reading earlier = reading_with(0s, "power", 40);
  ASSERT_THAT(store.add(earlier), IsOk());
  const Series series = series_of(store, "power");
  ASSERT_THAT(series.points, SizeIs(41));
  for (std::size_t i = 0; i < 41; ++i) EXPECT_EQ(series.points[i].mean, static_cast<double>(i));
}

TEST_F(StoreTest, AWriterThatIsKilledLosesNothingThatItAcknowledged) {
  int expected = 0;
  for (int round = 0; round < 50; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t writer = ::fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
      FakeClock clock;
      auto store = Store::open(file_, short_tiers(), {}, clock);
      if (!store) ::_exit(1);
      for (int i = expected;; ++i) {
        if (!store->add(reading_with(i * 1s, "power", i % 4000))) ::_exit(2);
        if (::write(pipe[1], &i, sizeof i) != sizeof i) ::_exit(3);
      }
    }
    ::close(pipe[1]);
    int last = -1;
    const int most = 1 + (round * 37) % 90;
    for (int acknowledged = 0; acknowledged < most; ++acknowledged) {
      ASSERT_EQ(::read(pipe[0], &last, sizeof last), static_cast<ssize_t>(sizeof last)) << "round " << round;
    }
    ::kill(writer, SIGKILL);
    // What it had acknowledged before it died may still be in the pipe.
    for (int more = 0; ::read(pipe[0], &more, sizeof more) == static_cast<ssize_t>(sizeof more);) last = more;
    ::close(pipe[0]);
    ::waitpid(writer, nullptr, 0);
    const Store read = reader();
    const Window window{kReadingsBegin + expected * 1s, kReadingsBegin + (last + 1) * 1s};
    const Series series = series_of(read, "power", 0s, window);
    ASSERT_EQ(series.points.size(), static_cast<std::size_t>(last + 1 - expected)) << "round " << round;
    expected = last + 2;  // one may have been committed and not acknowledged
  }
}

TEST_F(StoreTest, OthersReadWhileOneWrites) {
  Store store = open(short_tiers());
  ASSERT_THAT(store.add(reading_with(0s, "power", 0)), IsOk());
  const pid_t other = ::fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    std::size_t last = 0;
    while (last < 800) {
      const auto read = Store::read(file_);
      if (!read) ::_exit(1);
      const auto series = read->series(reading_uuid(0), "power", kAll, 1ms);
      if (!series || series->points.size() < last || series->points.empty()) ::_exit(2);
      for (std::size_t i = 0; i < series->points.size(); ++i) {
        if (series->points[i].mean != static_cast<double>(i % 700)) ::_exit(3);
      }
      last = series->points.size();
    }
    ::_exit(0);
  }
  for (int i = 1; i < 900; ++i) ASSERT_THAT(store.add(reading_with(i * 1ms, "power", i % 700)), IsOk());
  int status = -1;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0) << "exit " << WEXITSTATUS(status);
}

TEST_F(StoreTest, OneWriterAtATime) {
  const Store store = open();
  EXPECT_THAT(Store::open(file_, {}, {}, clock_), FailsWith(ErrorCode::unavailable, HasSubstr("another gpuwarden")));
}

TEST_F(StoreTest, AFullDiskFailsTheReadingAndTheNextOneIsTriedAgain) {
  Store store = open();
  ASSERT_THAT(store.add(reading_with(0s, "power", 0)), IsOk());
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{fs::file_size(file_.string() + "-wal") + 3000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  BusyFleet fleet(8);
  const auto full = store.add(fleet.next(1s));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_THAT(full, FailsWith(ErrorCode::failed, AnyOf(HasSubstr("no space left"), HasSubstr("cannot be written"))));
  EXPECT_THAT(*store.gpus(), SizeIs(1)) << "of what was not committed nothing stays";
  ASSERT_THAT(store.add(fleet.next(2s)), IsOk());
  EXPECT_THAT(*store.gpus(), SizeIs(8));
  EXPECT_THAT(series_of(store, "power").points, SizeIs(2));
}

TEST_F(StoreTest, OtherFilesAreLeftAlone) {
  put(folder_ / "text", std::string(5000, 'x'));
  for (const auto& result :
       {Store::read(folder_ / "text").error(), Store::open(folder_ / "text", {}, {}, clock_).error()}) {
    EXPECT_EQ(result.code, ErrorCode::invalid_argument);
    EXPECT_THAT(result.message, HasSubstr("is not a gpuwarden history"));
  }
  EXPECT_EQ(*read_file(folder_ / "text"), std::string(5000, 'x'));
  sql("CREATE TABLE photos(name TEXT); INSERT INTO photos VALUES('cat')");
  const std::string theirs = *read_file(file_);
  EXPECT_THAT(Store::read(file_), FailsWith(ErrorCode::invalid_argument, HasSubstr("another program's database")));
  EXPECT_THAT(Store::open(file_, {}, {}, clock_),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("another program's database")));
  EXPECT_EQ(*read_file(file_), theirs);
  put(folder_ / "empty", "");
  EXPECT_THAT(Store::read(folder_ / "empty"), FailsWith(ErrorCode::invalid_argument, HasSubstr("is empty")));
  EXPECT_THAT(Store::read(folder_.path()), FailsWith(ErrorCode::invalid_argument, HasSubstr("is a directory")));
  EXPECT_THAT(Store::read(folder_ / "absent"), FailsWith(ErrorCode::not_found, HasSubstr("absent")));
  EXPECT_THAT(Store::open(folder_ / "no" / "file", {}, {}, clock_), FailsWith(ErrorCode::not_found, HasSubstr("no")));
}

TEST_F(StoreTest, AFileOfANewerGpuwardenIsSaidToBe) {
  {
    const Store store = open();
  }
  sql("PRAGMA user_version = 99");
  EXPECT_THAT(Store::read(file_), FailsWith(ErrorCode::unavailable, HasSubstr("newer gpuwarden")));
  EXPECT_THAT(Store::open(file_, {}, {}, clock_), FailsWith(ErrorCode::unavailable, HasSubstr("newer gpuwarden")));
}

TEST_F(StoreTest, TablesThatNoGpuwardenMadeAreNotTouched) {
  {
    const Store store = open();
  }
  sql("CREATE VIEW evil AS SELECT randomblob(1000000000)");
  EXPECT_THAT(Store::read(file_), FailsWith(ErrorCode::corrupt, HasSubstr("no gpuwarden made")));
}

TEST_F(StoreTest, SimulatedAndRealReadingsDoNotMix) {
  {
    const Store store = open({}, of_machine(true));
  }
  EXPECT_THAT(Store::open(file_, {}, of_machine(false), clock_),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("simulated")));
}

TEST_F(StoreTest, DamagedFilesFailOrAnswerAndNeverCrash) {
  {
    Store store = open(StoreConfig::of_recording());
    for (int i = 0; i < 700; ++i) ASSERT_THAT(store.add(reading_with(i * 1s, "power", i % 300)), IsOk());
    ASSERT_THAT(store.finish(), IsOk());
  }
  const std::string whole = *read_file(file_);
  std::mt19937 random(3);
  int failed = 0;
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole;
    if (round % 4 == 0) bytes.resize(random() % bytes.size());
    for (int i = 0; i < 20 && !bytes.empty(); ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    put(folder_ / "damaged", bytes);
    const auto store = Store::read(folder_ / "damaged");
    const auto series = store ? store->series(reading_uuid(0), "power", kAll, 0s) : std::unexpected(store.error());
    if (series) continue;
    ++failed;
    EXPECT_THAT(series.error().code,
                AnyOf(ErrorCode::corrupt, ErrorCode::invalid_argument, ErrorCode::unavailable, ErrorCode::not_found));
    EXPECT_FALSE(series.error().message.empty());
  }
  EXPECT_GT(failed, 50);
}

TEST_F(StoreTest, ACopyInAFolderThatCannotBeWrittenIsRead) {
  {
    Store store = open();
    ASSERT_THAT(store.add(reading_with(0s, "power", 7)), IsOk());
  }
  // Closed, but not finished: the file still says that it has a log beside it.
  fs::create_directory(folder_ / "archive");
  const fs::path copy = folder_ / "archive" / "history.db";
  fs::copy_file(file_, copy);
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(copy.c_str(), 0444);
  ::chmod(copy.parent_path().c_str(), 0555);
  const pid_t nobody = ::fork();
  ASSERT_GE(nobody, 0);
  if (nobody == 0) {
    // For root no folder is read-only.
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(9);
    const auto store = Store::read(copy);
    const auto series = store ? store->series(reading_uuid(0), "power", kAll, 0s) : std::unexpected(store.error());
    ::_exit(series && series->points.size() == 1 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(nobody, &status, 0);
  ::chmod(copy.parent_path().c_str(), 0755);
  EXPECT_EQ(status, 0);
}

TEST_F(StoreTest, AReaderCannotWriteAndAFinishedStoreTakesNoMore) {
  Store store = open();
  ASSERT_THAT(store.add(reading_with(0s, "power", 7)), IsOk());
  ASSERT_THAT(store.finish(), IsOk());
  EXPECT_THAT(store.add(reading_with(1s, "power", 7)), FailsWith(ErrorCode::invalid_argument, HasSubstr("finished")));
  Store read = reader();
  EXPECT_THAT(read.add(reading_with(1s, "power", 7)),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("reading only")));
}

TEST_F(StoreTest, AFinishedFileIsGoneOnWith) {
  for (int part = 0; part < 3; ++part) {
    Store store = open(StoreConfig::of_recording());
    EXPECT_FALSE(store.info()->finished);
    for (int i = 0; i < 10; ++i) ASSERT_THAT(store.add(reading_with(part * 1h + i * 1s, "power", i)), IsOk());
    ASSERT_THAT(store.finish(), IsOk());
  }
  EXPECT_THAT(series_of(reader(), "power").points, SizeIs(30));
}

}  // namespace
