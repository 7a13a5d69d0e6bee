// SPDX-License-Identifier: Apache-2.0
// Series of readings (ReadRequest::every) against the simulator's library.
#include <cstdlib>
#include <stop_token>
#include <thread>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/machine_reader.hpp"
#include "support/fake_clock.hpp"
#include "support/patience.hpp"
#include "support/sim_control.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using facts::GpuState;
using ::testing::HasSubstr;

class Series : public ::testing::Test {
 protected:
  void open(const std::string& yaml) {
    ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1);
    put(dir_ / "fleet.yaml", yaml);
    const auto library = std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / "550/libnvidia-ml.so.1";
    sim_ = std::make_unique<SimControl>(library, (dir_ / "fleet.yaml").string());
    options_.nvml_library = library;
    options_.variables = {{"GPUWARDEN_SIM_FLEET", sim_->folder()}};
    options_.sys_root = dir_ / "sys";
    options_.driver_proc_root = dir_ / "proc";
    options_.simulated = true;
    options_.timeout = 30s;
  }
  static ReadRequest one_of_a_series(Detail detail = Detail::full, bool refresh = false) {
    ReadRequest request;
    request.detail = detail;
    request.every = 200ms;
    request.refresh = refresh;
    return request;
  }
  /// Of GPU 0, without what moves with time.
  static std::string still(facts::Snapshot snapshot) { return facts::to_json(snapshot.gpus.at(0)).dump(); }

  TempDir dir_;
  std::unique_ptr<SimControl> sim_;
  ReaderOptions options_;
};

constexpr const char* kFrozen =
    "driver: 550.54.15\nnvlink: nvswitch\nclock: {frozen: true}\n"
    "gpus: [{model: NVIDIA H100 80GB HBM3, count: 2, processes: [{pid: 4194001, memory: 2GiB}]}]\n";

TEST_F(Series, TellsWhatASingleReadingTells) {
  open(kFrozen);
  for (const Detail detail : {Detail::basic, Detail::full, Detail::slow}) {
    NvmlReader reader(options_);
    ReadRequest single;
    single.detail = detail;
    auto whole = reader.read(single);
    for (int i = 0; i < 3; ++i) {
      auto part = reader.read(one_of_a_series(detail));
      ASSERT_EQ(part.gpus.size(), 2U);
      if (detail == Detail::full) {
        EXPECT_EQ(part.gpus[0].sample.nvlinks.size(), 18U) << "for the judge of health";
        part.gpus[0].sample.nvlinks.clear();
      }
      EXPECT_EQ(still(part), still(whole)) << static_cast<int>(detail) << " " << i;
    }
  }
}

TEST_F(Series, WhatChangesSlowlyIsCarriedOnUntilItsTimeOrARefresh) {
  open(kFrozen);
  NvmlReader reader(options_);
  EXPECT_EQ(reader.read(one_of_a_series()).gpus.at(0).sample.ecc_corrected_volatile, Count(0));
  sim_->fault(0, "ecc_corrected=5");
  sim_->call({{"op", "set"}, {"gpu", 0}, {"field", "temperature"}, {"value", 77}});
  const auto next = reader.read(one_of_a_series());
  EXPECT_EQ(next.gpus.at(0).sample.ecc_corrected_volatile, Count(0));
  const auto refreshed = reader.read(one_of_a_series(Detail::full, true));
  EXPECT_EQ(refreshed.gpus.at(0).sample.ecc_corrected_volatile, Count(5));
}

TEST_F(Series, ALostGpuIsLostAtOnceAndReadAnewWhenItIsBack) {
  open(kFrozen);
  NvmlReader reader(options_);
  reader.read(one_of_a_series());
  sim_->fault(1, "lost");
  const auto lost = reader.read(one_of_a_series());
  EXPECT_EQ(lost.gpus.at(1).state, GpuState::lost);
  EXPECT_EQ(lost.gpus.at(0).state, GpuState::busy);
  sim_->call({{"op", "clear_faults"}});
  const auto back = reader.read(one_of_a_series());
  EXPECT_EQ(back.gpus.at(1).state, GpuState::busy);
  EXPECT_TRUE(back.gpus.at(1).sample.ecc_corrected_volatile);
}

TEST_F(Series, AGpuThatHangsIsReadApartAndNobodyWaitsForIt) {
  open("gpus: [{model: Tesla T4, count: 4}]\n");
  NvmlReader reader(options_);
  const auto before = reader.read(one_of_a_series());
  sim_->fault(2, "hang");
  for (int i = 0; i < 3; ++i) {
    const auto snapshot = reader.read(one_of_a_series());
    ASSERT_EQ(snapshot.gpus.size(), 4U);
    EXPECT_EQ(snapshot.gpus[2].state, GpuState::not_answering);
    EXPECT_EQ(snapshot.gpus[2].gpu.uuid, before.gpus[2].gpu.uuid);
    EXPECT_FALSE(snapshot.gpus[2].sample.power);
    for (const unsigned other : {0U, 1U, 3U}) EXPECT_EQ(snapshot.gpus[other].state, GpuState::available) << other;
  }
}

TEST_F(Series, SeveralThatHangAtOnceAreEachReadApart) {
  open("gpus: [{model: Tesla T4, count: 5}]\n");
  NvmlReader reader(options_);
  reader.read(one_of_a_series());
  for (const unsigned hung : {1U, 2U, 3U}) sim_->fault(hung, "hang");
  reader.read(one_of_a_series());
  // Those that were put apart with them answer soon.
  EXPECT_TRUE(eventually(kSoon, [&] {
    const auto snapshot = reader.read(one_of_a_series());
    return snapshot.gpus.at(0).state == GpuState::available && snapshot.gpus.at(4).state == GpuState::available &&
           snapshot.gpus.at(3).state == GpuState::not_answering;
  }));
}

TEST_F(Series, WhoAnswersAgainIsReadWithTheOthers) {
  open("gpus: [{model: Tesla T4, count: 2}]\n");
  FakeClock clock;
  options_.clock = &clock;
  NvmlReader reader(options_);
  reader.read(one_of_a_series());
  sim_->fault(1, "hang");
  EXPECT_EQ(reader.read(one_of_a_series()).gpus.at(1).state, GpuState::not_answering);
  clock.advance(31s);  // its child is given up
  EXPECT_THAT(reader.read(one_of_a_series()).gpus.at(1).cause, HasSubstr("30000 ms"));
  sim_->call({{"op", "clear_faults"}});
  clock.advance(31s);  // it is asked again
  EXPECT_TRUE(
      eventually(kSoon, [&] { return reader.read(one_of_a_series()).gpus.at(1).state == GpuState::available; }));
}

TEST_F(Series, IsStoppedWhileTheDriverHangs) {
  open("faults: [hang_init]\ngpus: [{model: Tesla T4}]\n");
  options_.timeout = 10min;
  std::stop_source stop;
  auto request = one_of_a_series();
  request.stop = stop.get_token();
  std::jthread stopper([&] {
    system_clock().sleep_for(50ms);
    stop.request_stop();
  });
  const auto snapshot = MachineReader(options_).read(request);  // ctest ends what waits for ten minutes
  EXPECT_TRUE(snapshot.gpus.empty());
}

}  // namespace
}  // namespace gpuwarden::probe
