// SPDX-License-Identifier: Apache-2.0
// A pool's status, told to other processes.
#include "gpuwarden/pools/pool_publisher.hpp"

#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <mutex>

#include "gpuwarden/base/file.hpp"
#include "sim_cuda/program.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::pools {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Whose intervals end when the test says so.
class Steps final : public Clock {
 public:
  SteadyTime now() const override { return {}; }
  WallTime wall_now() const override { return WallTime(std::chrono::seconds(1'700'000'000) + later); }
  bool sleep_for(std::chrono::nanoseconds, const std::stop_token& stop) override {
    std::unique_lock lock(mutex_);
    ++waits_;
    changed_.notify_all();
    changed_.wait(lock, stop, [&] { return steps_ > 0; });
    if (stop.stop_requested()) return false;
    --steps_;
    return true;
  }
  std::chrono::seconds later{0};  ///< changed between steps

  /// Lets one interval end, and waits until the next one has begun.
  void step() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waits_ > 0; });
    const unsigned before = waits_;
    ++steps_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return waits_ > before; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  unsigned steps_ = 0;
  unsigned waits_ = 0;
};

class PublisherTest : public cuda::Programs {
 protected:
  static std::unique_ptr<DevicePool> open_pool() {
    DevicePoolOptions options;
    options.cuda.library = cuda::library_of(580);
    options.strategy = "greedy";
    return DevicePool::open(options).value();
  }
  std::filesystem::path pools() const { return folder() / "pools"; }
};

TEST_F(PublisherTest, TellsWhatThePoolHoldsAsItChanges) {
  run([&](const cuda::Library&) {
    const auto pool = open_pool();
    Steps clock;
    {
      const auto publisher = PoolPublisher::start(*pool, {.folder = pools()}, clock);
      ASSERT_TRUE(publisher) << publisher.error().message;
      const auto first = published_pools({pools()});
      ASSERT_EQ(first.size(), 1U);
      EXPECT_EQ(first[0].process, own_mark());
      EXPECT_EQ(first[0].gpu, pool->device().uuid());
      EXPECT_EQ(first[0].strategy, "greedy");
      EXPECT_EQ(first[0].live, 0_B);
      EXPECT_EQ(first[0].time_unix_ms, 1'700'000'000'000U);
      const auto address = pool->pool().allocate(5_MiB, {}).value();
      EXPECT_EQ(published_pools({pools()})[0].live, 0_B) << "not on the common path";
      clock.step();
      const auto second = published_pools({pools()})[0];
      EXPECT_EQ(second.live, 5_MiB);
      EXPECT_EQ(second.reserved, pool->pool().status().reserved);
      EXPECT_EQ(second.segments, pool->pool().layout().size());
      EXPECT_EQ(second.limit, pool->pool().status().limit);
      EXPECT_EQ(second.allocations, 1U);
      ASSERT_TRUE(pool->pool().deallocate(address, {}));
      clock.step();
      EXPECT_EQ(published_pools({pools()})[0].live, 0_B);
      EXPECT_EQ(published_pools({pools()})[0].peak_live, 5_MiB);
    }
    EXPECT_THAT(list_directory(pools()), IsEmpty()) << "removed at its end";
  });
}

TEST_F(PublisherTest, WritesNothingWhileNothingChanges) {
  run([&](const cuda::Library&) {
    const auto pool = open_pool();
    Steps clock;
    const auto publisher = PoolPublisher::start(*pool, {.folder = pools()}, clock).value();
    std::filesystem::remove(publisher->file());
    clock.step();
    EXPECT_FALSE(std::filesystem::exists(publisher->file()));
    ASSERT_TRUE(pool->pool().allocate(5_MiB, {}));
    clock.step();
    EXPECT_TRUE(std::filesystem::exists(publisher->file()));
  });
}

TEST_F(PublisherTest, GivesASignOfLifeEachHourThoughNothingChanges) {
  namespace fs = std::filesystem;
  run([&](const cuda::Library&) {
    const auto pool = open_pool();
    Steps clock;
    const auto publisher = PoolPublisher::start(*pool, {.folder = pools()}, clock).value();
    const auto old = fs::file_time_type::clock::now() - std::chrono::hours(5);
    fs::last_write_time(publisher->file(), old);
    clock.later = std::chrono::minutes(59);
    clock.step();
    EXPECT_EQ(fs::last_write_time(publisher->file()), old);
    clock.later = std::chrono::minutes(61);
    clock.step();
    EXPECT_GT(fs::last_write_time(publisher->file()), old + std::chrono::hours(4));
    EXPECT_EQ(published_pools({pools()})[0].time_unix_ms, 1'700'000'000'000U) << "touched only";
    fs::remove(publisher->file());
    clock.later = std::chrono::minutes(125);
    clock.step();
    EXPECT_EQ(published_pools({pools()}).size(), 1U) << "written again";
  });
}

TEST_F(PublisherTest, EachPoolHasAFileOfItsOwn) {
  run([&](const cuda::Library&) {
    const auto first = open_pool();
    const auto second = open_pool();
    Steps clock;
    const auto one = PoolPublisher::start(*first, {.folder = pools()}, clock).value();
    const auto two = PoolPublisher::start(*second, {.folder = pools()}, clock).value();
    EXPECT_NE(one->file(), two->file());
    // Containers that share the folder may have the same process IDs.
    const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid");
    const std::string number = space.substr(5, space.size() - 6);
    EXPECT_THAT(one->file().filename().string(), HasSubstr("pool-" + number + "-" + std::to_string(::getpid())));
    EXPECT_EQ(published_pools({pools()}).size(), 2U);
  });
}

TEST_F(PublisherTest, AForkedChildLeavesTheFileAlone) {
  run([&](const cuda::Library&) {
    const auto pool = open_pool();
    Steps clock;
    auto publisher = PoolPublisher::start(*pool, {.folder = pools()}, clock).value();
    cuda::Child child([&] {
      publisher.reset();
      return published_pools({pools()}).empty() ? 1 : 7;
    });
    EXPECT_EQ(child.wait(), 7);
    EXPECT_EQ(published_pools({pools()}).size(), 1U);
  });
}

TEST_F(PublisherTest, WhatAKilledProcessLeftIsSweptByTheNextOne) {
  const cuda::Signal ready;
  {
    const auto killed = begin([&](const cuda::Library&) {
      const auto pool = open_pool();
      const auto publisher = PoolPublisher::start(*pool, {.folder = pools()}, system_clock());
      ready.send();
      ::pause();
    });
    ready.wait();
    EXPECT_EQ(published_pools({pools()}).size(), 1U) << "of another process";
  }
  EXPECT_EQ(list_directory(pools()).size(), 1U) << "it could not clean up";
  run([&](const cuda::Library&) {
    const auto pool = open_pool();
    Steps clock;
    const auto publisher = PoolPublisher::start(*pool, {.folder = pools()}, clock).value();
    EXPECT_THAT(list_directory(pools()), ElementsAre(publisher->file()));
  });
}

TEST_F(PublisherTest, RefusesFoldersThatOthersCanWriteTo) {
  run([&](const cuda::Library&) {
    const auto pool = open_pool();
    Steps clock;
    const auto start = [&](const std::filesystem::path& where) {
      return PoolPublisher::start(*pool, {.folder = where}, clock);
    };
    const auto open_to_all = folder() / "open";
    ASSERT_EQ(::mkdir(open_to_all.c_str(), 0755), 0);
    ASSERT_EQ(::chmod(open_to_all.c_str(), 0777), 0);
    EXPECT_THAT(start(open_to_all), FailsWith(ErrorCode::permission_denied, HasSubstr("only this user can write")));
    ASSERT_EQ(::chmod(open_to_all.c_str(), 01777), 0);
    EXPECT_TRUE(start(open_to_all)) << "nobody can replace another's files there";
    if (::geteuid() == 0) {
      ASSERT_EQ(::chown(open_to_all.c_str(), 12345, 12345), 0);
      EXPECT_THAT(start(open_to_all), FailsWith(ErrorCode::permission_denied, HasSubstr("only this user can write")))
          << "its owner can";
    }
    std::filesystem::create_directory_symlink(open_to_all, folder() / "link");
    EXPECT_THAT(start(folder() / "link"), FailsWith(ErrorCode::permission_denied, HasSubstr("link")));
    std::ofstream(folder() / "file") << "here";
    EXPECT_FALSE(start(folder() / "file"));
    EXPECT_THAT(start(folder() / "no" / "such"), FailsWith(ErrorCode::not_found, HasSubstr("no/such")));
  });
}

}  // namespace
}  // namespace gpuwarden::pools
