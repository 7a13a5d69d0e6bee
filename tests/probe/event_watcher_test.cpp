// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/event_watcher.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"
#include "support/sim_control.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using facts::GpuEventKind;
using ::testing::HasSubstr;
using Time = std::chrono::steady_clock;

/// Keeps what a watcher tells, and waits for it.
class Listener {
 public:
  EventWatcher::Handlers handlers() {
    return {.watching = [this] { note([this] { watching_ = true; }); },
            .event = [this](const facts::GpuEvent& event) { note([&] { events_.push_back(event); }); },
            .ended = [this](const Error& error) { note([&] { ended_ = error; }); }};
  }
  bool wait_until_watching() {
    return wait([this] { return watching_; });
  }
  std::vector<facts::GpuEvent> wait_for_events(std::size_t count) {
    wait([&] { return events_.size() >= count; });
    const std::scoped_lock lock(mutex_);
    return events_;
  }
  std::optional<Error> wait_for_end() {
    wait([this] { return ended_.has_value(); });
    return ended();
  }
  std::optional<Error> ended() {
    const std::scoped_lock lock(mutex_);
    return ended_;
  }

 private:
  void note(const std::function<void()>& change) {
    const std::scoped_lock lock(mutex_);
    change();
    changed_.notify_all();
  }
  bool wait(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool watching_ = false;
  std::vector<facts::GpuEvent> events_;
  std::optional<Error> ended_;
};

class EventWatcherTest : public ::testing::Test {
 protected:
  EventWatcherTest() { ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1); }
  void begin(const std::string& yaml, int profile = 550) {
    put(dir_ / "fleet.yaml", yaml);
    const auto library = std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / std::to_string(profile) / "libnvidia-ml.so.1";
    fleet_ = std::make_unique<SimControl>(library, (dir_ / "fleet.yaml").string());
    ::setenv("GPUWARDEN_SIM_FLEET", fleet_->folder().c_str(), 1);
    options_.nvml_library = library;
    options_.sys_root = fleet_->folder() + "/sys";
    options_.driver_proc_root = fleet_->proc_root();
    options_.timeout = 20s;
  }
  /// The children of this process.
  static std::vector<pid_t> children() {
    const std::string parent = "\nPPid:\t" + std::to_string(::getpid()) + "\n";
    std::vector<pid_t> result;
    for (const auto& folder : list_directory("/proc")) {
      const auto pid = parse_integer(folder.filename().native());
      if (pid && read_file(folder / "status").value_or("").contains(parent)) result.push_back(static_cast<pid_t>(*pid));
    }
    return result;
  }
  std::string uuid(std::size_t gpu) const {
    return fleet_->call({{"op", "show"}})["devices"][gpu]["uuid"].get<std::string>();
  }

  TempDir dir_;
  ReaderOptions options_;
  std::unique_ptr<SimControl> fleet_;
  Listener listener_;
};

/// On a busy machine, too; less than the watcher's time-out.
constexpr auto kAtOnce = 15s;

constexpr const char* kTwo = "gpus: [{model: NVIDIA A100-SXM4-80GB, count: 2}]\n";

TEST_F(EventWatcherTest, AnXidIsToldAtOnceWithItsGpu) {
  for (const int profile : {418, 550, 580}) {
    begin(kTwo, profile);
    Listener listener;
    const EventWatcher watcher(options_, listener.handlers());
    ASSERT_TRUE(listener.wait_until_watching()) << profile;
    const auto before = std::chrono::system_clock::now();
    const auto start = Time::now();
    fleet_->fault(1, "xid=31");
    const auto events = listener.wait_for_events(1);
    EXPECT_LT(Time::now() - start, kAtOnce) << profile;
    ASSERT_EQ(events.size(), 1U) << profile;
    EXPECT_EQ(events[0].kind, GpuEventKind::xid);
    EXPECT_EQ(events[0].data, 31U);
    EXPECT_EQ(events[0].uuid, Uuid(uuid(1)));
    EXPECT_GE(events[0].time, before - 1s);
    fleet_.reset();
  }
}

TEST_F(EventWatcherTest, MemoryErrorsAreToldByTheirKindAndInOrder) {
  begin(kTwo);
  const EventWatcher watcher(options_, listener_.handlers());
  ASSERT_TRUE(listener_.wait_until_watching());
  fleet_->fault(0, "ecc_corrected=3");
  fleet_->fault(1, "ecc_uncorrected=1");
  fleet_->fault(0, "xid=48");
  const auto events = listener_.wait_for_events(3);
  ASSERT_GE(events.size(), 3U);
  EXPECT_EQ(events[0].kind, GpuEventKind::ecc_single_bit);
  EXPECT_EQ(events[0].uuid, Uuid(uuid(0)));
  EXPECT_EQ(events[1].kind, GpuEventKind::ecc_double_bit);
  EXPECT_EQ(events.back().kind, GpuEventKind::xid);
}

TEST_F(EventWatcherTest, StoppingTakesNoTimeAndLeavesNoChild) {
  begin(kTwo);
  const auto before = children();
  {
    EventWatcher watcher(options_, listener_.handlers());
    ASSERT_TRUE(listener_.wait_until_watching());
    EXPECT_EQ(children().size(), before.size() + 1);
    const auto start = Time::now();
    watcher.stop();
    EXPECT_LT(Time::now() - start, kAtOnce);
    watcher.stop();
  }
  // One that had to be killed while it ended is this process's to bury.
  EXPECT_TRUE(eventually(kAtOnce, [&] {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return children() == before;
  }));
  EXPECT_FALSE(listener_.ended()) << "it did not end by itself";
  fleet_->fault(0, "xid=31");
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(listener_.wait_for_events(0).empty());
}

TEST_F(EventWatcherTest, StoppingBeforeItHasBegunIsFine) {
  begin(kTwo);
  for (int i = 0; i < 20; ++i) EventWatcher(options_, {}).stop();
}

TEST_F(EventWatcherTest, AHandlerMayStopIt) {
  begin(kTwo);
  std::unique_ptr<EventWatcher> watcher;
  std::mutex made;
  std::unique_lock lock(made);
  auto handlers = listener_.handlers();
  handlers.event = [&, keep = handlers.event](const facts::GpuEvent& event) {
    const std::scoped_lock wait(made);
    watcher->stop();
    keep(event);
  };
  watcher = std::make_unique<EventWatcher>(options_, std::move(handlers));
  lock.unlock();
  ASSERT_TRUE(listener_.wait_until_watching());
  fleet_->fault(0, "xid=31");
  EXPECT_EQ(listener_.wait_for_events(1).size(), 1U);
}

TEST_F(EventWatcherTest, AKilledChildIsNoticed) {
  begin(kTwo);
  const auto before = children();
  const EventWatcher watcher(options_, listener_.handlers());
  ASSERT_TRUE(listener_.wait_until_watching());
  for (const pid_t pid : children()) {
    if (std::ranges::find(before, pid) == before.end()) ::kill(pid, SIGKILL);
  }
  const auto ended = listener_.wait_for_end();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code, ErrorCode::unavailable);
  EXPECT_THAT(ended->message, HasSubstr("killed, or crashed"));
}

TEST_F(EventWatcherTest, AHangingDriverIsGivenUpAndCanBeStopped) {
  begin(std::string("faults: [hang_init]\n") + kTwo);
  options_.timeout = 200ms;
  {
    const EventWatcher watcher(options_, listener_.handlers());
    const auto ended = listener_.wait_for_end();
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->code, ErrorCode::timed_out);
    EXPECT_THAT(ended->message, HasSubstr("200 ms"));
  }
  options_.timeout = 60s;
  const auto start = Time::now();
  EventWatcher(options_, {}).stop();
  EXPECT_LT(Time::now() - start, kAtOnce);
}

TEST_F(EventWatcherTest, WithoutADriverItSaysWhatIsMissing) {
  options_.nvml_library = dir_ / "libnvidia-ml.so.1";
  const EventWatcher watcher(options_, listener_.handlers());
  const auto ended = listener_.wait_for_end();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->code, ErrorCode::unavailable);
  EXPECT_THAT(ended->hint, HasSubstr("install the NVIDIA driver"));
}

TEST_F(EventWatcherTest, GpusThatReportNothingCannotBeWatched) {
  ::setenv("FAKE_NVML", dir_.path().c_str(), 1);
  options_.nvml_library = GPUWARDEN_FAKE_NVML;
  options_.sys_root = dir_ / "sys";
  const EventWatcher watcher(options_, listener_.handlers());
  EXPECT_THAT(listener_.wait_for_end().value_or(Error{}).message, HasSubstr("reports events"));
}

TEST_F(EventWatcherTest, ALostGpuIsToldAndTheOthersWatchedOn) {
  ::setenv("FAKE_NVML", dir_.path().c_str(), 1);
  ::setenv("FAKE_NVML_GPUS", "2", 1);
  put(dir_ / "lost", "");
  options_.nvml_library = GPUWARDEN_FAKE_NVML;
  options_.sys_root = dir_ / "sys";
  const EventWatcher watcher(options_, listener_.handlers());
  const auto events = listener_.wait_for_events(2);
  ::unsetenv("FAKE_NVML_GPUS");
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events[0].kind, GpuEventKind::lost);
  EXPECT_EQ(events[0].uuid, Uuid("GPU-0"));
  EXPECT_EQ(events[1].kind, GpuEventKind::mig_config);
  EXPECT_EQ(events[1].uuid, Uuid("GPU-1"));
}

}  // namespace
}  // namespace gpuwarden::probe
