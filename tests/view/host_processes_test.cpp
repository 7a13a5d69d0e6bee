// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/host_processes.hpp"

#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::view {
namespace {

using ::testing::ElementsAre;
using testing::put;
using testing::TempDir;

std::string stat_text(int parent, int ticks) {
  return "77 (a ) (b) S " + std::to_string(parent) + " 1 1 0 -1 4194560 1 2 3 4 " + std::to_string(ticks) +
         " 5 0 0 20 0 1 0 12345 999 256 18446744073709551615 1 1\n";
}

/// Asks and waits for the answer.
HostTable look(HostProcesses& host, std::vector<Pid> pids, bool ancestors) {
  std::mutex mutex;
  std::condition_variable heard;
  bool done = false;
  host.look_at(std::move(pids), ancestors, [&] {
    const std::scoped_lock lock(mutex);
    done = true;
    heard.notify_all();
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(heard.wait_for(lock, testing::kSoon, [&] { return done; }));
  return host.latest();
}

TEST(HostProcesses, TellsOfThoseThatWereAskedForFromTheFirstRootThatKnowsThem) {
  const TempDir dir;
  put(dir / "sim/77/stat", stat_text(60, 10));
  put(dir / "real/77/stat", stat_text(1, 10));
  put(dir / "real/60/stat", stat_text(50, 10));
  put(dir / "real/99/stat", stat_text(1, 10));
  HostProcesses host({dir / "sim", dir / "real"});
  const HostTable table = look(host, {Pid{77}, Pid{78}}, true);
  ASSERT_EQ(table.size(), 1U) << "nobody asked for 99, and 78 does not exist";
  const HostProcess& process = table.at(Pid{77});
  EXPECT_EQ(process.memory, Bytes(256U * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))));
  EXPECT_EQ(process.start_ticks, 12345U);
  EXPECT_FALSE(process.cpu_percent.has_value()) << "one look tells no rate";
  EXPECT_THAT(process.ancestors, ElementsAre(Pid{60}, Pid{50}));
  put(dir / "sim/77/stat", stat_text(60, 20));
  EXPECT_GT(look(host, {Pid{77}}, false).at(Pid{77}).cpu_percent.value_or(0), 0);
}

TEST(HostProcesses, SayWhichAreSimulated) {
  const TempDir dir;
  put(dir / "sim/77/stat", stat_text(1, 10));
  const Pid self{::getpid()};
  HostProcesses host({dir / "sim", "/proc"});
  const HostTable table = look(host, {Pid{77}, self}, false);
  ASSERT_TRUE(table.contains(self) && table.contains(Pid{77}));
  EXPECT_TRUE(table.at(Pid{77}).stand_in);
  EXPECT_FALSE(table.at(self).stand_in);
}

TEST(HostProcesses, HaveWhatTheirPoolsTell) {
  const TempDir dir;
  put(dir / "real/77/stat", stat_text(1, 10));
  put(dir / "real/78/stat", stat_text(1, 10));
  const auto read_pools = [] {
    pools::PublishedPool one;
    one.process.pid = Pid{77};
    one.live = 3_GiB;
    pools::PublishedPool unseen;
    unseen.process.pid = Pid{99};
    return pools::Pools{one, unseen};
  };
  HostProcesses host({dir / "real"}, read_pools);
  const HostTable table = look(host, {Pid{77}, Pid{78}}, false);
  ASSERT_EQ(table.size(), 2U);
  ASSERT_EQ(table.at(Pid{77}).pools.size(), 1U);
  EXPECT_EQ(table.at(Pid{77}).pools[0].live, 3_GiB);
  EXPECT_TRUE(table.at(Pid{78}).pools.empty());
}

}  // namespace
}  // namespace gpuwarden::view
