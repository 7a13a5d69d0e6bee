// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/published_pool.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::pools {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::put;
using testing::TempDir;

void set_age(const std::filesystem::path& file, std::chrono::seconds age) {
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - age);
}

PublishedPool pool_of_this_process() {
  return {.process = own_mark(), .gpu = Uuid("GPU-1234"), .strategy = "balanced", .live = 5_MiB, .reserved = 8_MiB};
}

TEST(PublishedPool, ComesBackAsItWasWritten) {
  PublishedPool pool = pool_of_this_process();
  std::uint64_t value = 1'000;
  for (const PoolFigure& figure : pool_figures()) figure.set(pool, value++);
  const auto read = pool_of_text(to_text(pool));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, pool);
  value = 1'000;
  for (const PoolFigure& figure : pool_figures()) EXPECT_EQ(figure.get(*read), value++) << figure.key;
}

TEST(PublishedPool, FiguresHaveNamesOfTheirOwn) {
  std::set<std::string_view> keys;
  for (const PoolFigure& figure : pool_figures()) EXPECT_TRUE(keys.insert(figure.key).second) << figure.key;
  EXPECT_TRUE(keys.contains("live_bytes"));
}

TEST(PublishedPool, OfAnotherVersionIsReadAsFarAsItGoes) {
  const auto read = pool_of_text("gpuwarden-pool 1\npid 7\ngpu GPU-1\ncolour blue\nempty\nlive_bytes 12\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->process.pid.value, 7);
  EXPECT_EQ(read->live, Bytes(12));
  EXPECT_EQ(read->cached, 0_B);
}

TEST(PublishedPool, WhatIsNotKnownIsNotWrittenAndNotReadAs0) {
  const PublishedPool pool = pool_of_this_process();
  EXPECT_EQ(to_text(pool).find("limit_bytes"), std::string::npos);
  const auto read = pool_of_text(to_text(pool));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->limit, std::nullopt);
  EXPECT_EQ(read->requested, std::nullopt);
  EXPECT_EQ(read->largest_free, std::nullopt);
}

TEST(PublishedPool, FiguresAreSetByTheirNames) {
  PublishedPool pool;
  ASSERT_TRUE(set_figure(pool, "peak_live_bytes", 7));
  ASSERT_TRUE(set_figure(pool, "limit_bytes", 8));
  EXPECT_EQ(pool.peak_live, Bytes(7));
  EXPECT_EQ(pool.limit, Bytes(8));
  const auto refused = set_figure(pool, "colour", 1);
  EXPECT_THAT(refused, FailsWith(ErrorCode::invalid_argument, HasSubstr("'colour'")));
  EXPECT_THAT(refused.error().hint, HasSubstr("live_bytes"));
}

TEST(PublishedPool, WhatIsNoneIsRefused) {
  for (const std::string text :
       {"", "\n", "hello\n", "gpuwarden-pool 1\n", "gpuwarden-pool 1\npid 7\n", "gpuwarden-pool 1\ngpu GPU-1\n",
        "gpuwarden-pool 1\npid 7\ngpu GPU-1\nlive_bytes 12", "gpuwarden-pool 1\npid 7\ngpu GPU-1\nlive_bytes x\n",
        "gpuwarden-pool 1\npid 7\ngpu GPU-1\nlive_bytes -1\n", "gpuwarden-pool 1\npid -7\ngpu GPU-1\n",
        "gpuwarden-pool 1\npid 0\ngpu GPU-1\n",
        "gpuwarden-pool 1\npid 7\ngpu GPU-1\nlive_bytes 99999999999999999999\n"})
    EXPECT_THAT(pool_of_text(text), FailsWith(ErrorCode::corrupt, HasSubstr("a pool's status"))) << text;
}

TEST(PublishedPool, SurvivesEveryCutAndEveryChangedByte) {
  const std::string text = to_text(pool_of_this_process());
  for (std::size_t end = 0; end < text.size(); ++end) static_cast<void>(pool_of_text(text.substr(0, end)));
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char byte : {'\0', '\n', ' ', '9', '\xff'}) {
      std::string changed = text;
      changed[at] = byte;
      static_cast<void>(pool_of_text(changed));
    }
  }
}

TEST(PublishedPools, AreThoseOfProcessesThatLive) {
  const TempDir dir;
  const PublishedPool own = pool_of_this_process();
  PublishedPool second = own;
  second.gpu = Uuid("GPU-5678");
  put(dir / "pool-1-0", to_text(own));
  put(dir / "pool-1-1", to_text(second));
  EXPECT_THAT(published_pools({dir.path()}), ElementsAre(own, second));
  EXPECT_THAT(published_pools({dir / "none", dir.path(), dir / "none"}), ElementsAre(own, second));
  EXPECT_THAT(published_pools({}), IsEmpty());
}

TEST(PublishedPools, WhatADeadProcessLeftIsRemoved) {
  const TempDir dir;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  PublishedPool gone = pool_of_this_process();
  gone.process.pid.value = dead;
  PublishedPool reused = pool_of_this_process();
  reused.process.started -= 1;
  put(dir / "pool-gone-0", to_text(gone));
  put(dir / "pool-reused-0", to_text(reused));
  EXPECT_THAT(published_pools({dir.path()}), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(dir / "pool-gone-0"));
  EXPECT_FALSE(std::filesystem::exists(dir / "pool-reused-0"));
}

TEST(PublishedPools, OfAnotherPidNamespaceAreLeftAlone) {
  const TempDir dir;
  PublishedPool elsewhere = pool_of_this_process();
  elsewhere.process.pid_namespace = "pid:[1]";
  put(dir / "pool-1-0", to_text(elsewhere));
  EXPECT_THAT(published_pools({dir.path()}), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(dir / "pool-1-0"));
}

TEST(PublishedPools, OfAnotherPidNamespaceAreRemovedWhenNobodyTouchesThem) {
  const TempDir dir;
  PublishedPool elsewhere = pool_of_this_process();
  elsewhere.process.pid_namespace = "pid:[1]";
  put(dir / "pool-1-1-0", to_text(elsewhere));
  put(dir / "pool-1-2-0", to_text(elsewhere));
  put(dir / "pool-2-1-0", to_text(pool_of_this_process()));
  set_age(dir / "pool-1-1-0", std::chrono::hours(25));
  set_age(dir / "pool-1-2-0", std::chrono::hours(23));
  set_age(dir / "pool-2-1-0", std::chrono::hours(1000));
  EXPECT_EQ(published_pools({dir.path()}).size(), 1U) << "a process that can be seen needs no signs of life";
  EXPECT_THAT(list_directory(dir.path()), ElementsAre(dir / "pool-1-2-0", dir / "pool-2-1-0"));
}

TEST(PublishedPools, WhatWasLeftHalfWrittenIsRemovedAfterAMinute) {
  const TempDir dir;
  for (const char* name : {"pool-1-0-0.7-0", "pool-1-0-0.7-1", "notes.7-0"}) put(dir / name, "gpuwarden-p");
  set_age(dir / "pool-1-0-0.7-0", std::chrono::seconds(90));
  set_age(dir / "pool-1-0-0.7-1", std::chrono::seconds(20));
  set_age(dir / "notes.7-0", std::chrono::hours(9));
  EXPECT_THAT(published_pools({dir.path()}), IsEmpty());
  EXPECT_THAT(list_directory(dir.path()), ElementsAre(dir / "notes.7-0", dir / "pool-1-0-0.7-1"));
}

TEST(PublishedPools, OtherFilesDoNotHideThem) {
  const TempDir dir;
  for (int i = 0; i < 4'100; ++i) put(dir / ("pool-0." + std::to_string(i)), "");
  put(dir / "pool-1-1-0", to_text(pool_of_this_process()));
  EXPECT_EQ(published_pools({dir.path()}).size(), 1U);
}

TEST(PublishedPools, NobodySpeaksForAnother) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to make a file of another user";
  const TempDir dir;
  put(dir / "pool-1-0", to_text(pool_of_this_process()));
  ASSERT_EQ(::chown((dir / "pool-1-0").c_str(), 12345, 12345), 0);
  EXPECT_THAT(published_pools({dir.path()}), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(dir / "pool-1-0"));
}

TEST(PublishedPools, OtherThingsInTheFolderArePassedOver) {
  const TempDir dir;
  const std::string good = to_text(pool_of_this_process());
  put(dir / "pool-1-0.1-2", good);  // being written
  put(dir / "notes", good);
  put(dir / "pool-1-1", good.substr(0, good.size() / 2));
  put(dir / "pool-1-2", std::string(100'000, 'x'));
  put(dir / "elsewhere", good);
  std::filesystem::create_symlink(dir / "elsewhere", dir / "pool-1-3");
  ASSERT_EQ(::mkfifo((dir / "pool-1-4").c_str(), 0600), 0);
  std::filesystem::create_directory(dir / "pool-1-5");
  EXPECT_THAT(published_pools({dir.path()}), IsEmpty());
  for (const char* name : {"pool-1-0.1-2", "notes", "pool-1-1", "pool-1-4"})
    EXPECT_TRUE(std::filesystem::exists(dir / name)) << name;
}

TEST(OwnMark, IsTheSameEachTimeAndAnotherInAChild) {
  const ProcessMark mark = own_mark();
  EXPECT_EQ(mark, own_mark());
  EXPECT_EQ(mark.pid.value, ::getpid());
  EXPECT_GT(mark.started, 0U);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(own_mark() == mark || own_mark().started < mark.started ? 1 : 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(PublishedPools, AreLookedForWhereTheVariableSays) {
  const TempDir dir;
  put(dir / "pool-1-0", to_text(pool_of_this_process()));
  const auto pools = published_pools_of({{"GPUWARDEN_MEMORY_DIR", dir.path().string()}});
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].gpu, Uuid("GPU-1234"));
  EXPECT_EQ(published_pools_of({{"GPUWARDEN_MEMORY_DIR", ""}}), published_pools(all_pools_folders()));
}

}  // namespace
}  // namespace gpuwarden::pools
