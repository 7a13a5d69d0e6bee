// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/record_machine.hpp"

#include <fmt/format.h>

#include <csignal>

#include "gpuwarden/base/child.hpp"
#include "machine/simulated.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::launch {
namespace {

using namespace std::chrono_literals;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::SizeIs;

class RecordMachine : public testing::Machines {
 protected:
  machine::Machine open(const char* fleet = "h100x8") const {
    machine::Options all = options();
    all.environment["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
    auto machine = machine::Machine::open(machine::Simulated{fleet}, all);
    EXPECT_TRUE(machine.has_value());
    return std::move(*machine);
  }
  std::chrono::milliseconds interval_of(const machine::Machine& machine, RecordRequest request) const {
    request.files.csv = dir_ / "readings.csv";
    request.files.existing = recording::Existing::replace;
    const auto recorded = MachineRecording::open(machine, std::move(request));
    EXPECT_TRUE(recorded.has_value());
    return (*recorded)->files().info.interval;
  }
};

TEST_F(RecordMachine, WritesDownTheNamedGpusWhileACommandRuns) {
  const machine::Machine machine = open();
  RecordRequest request{.gpus = {"0-1"}, .command = {"train"}, .interval = 100ms};
  request.files.file = dir_ / "train.db";
  const auto recorded = MachineRecording::open(machine, request);
  ASSERT_THAT(recorded, IsOk());
  EXPECT_THAT((*recorded)->gpus().gpus, SizeIs(2));
  ASSERT_THAT((*recorded)->start(), IsOk());
  const recording::Told told = (*recorded)->finish(3);
  EXPECT_GE((*recorded)->progress().readings, 1U) << "what ends at once has a reading, too";
  EXPECT_THAT(told.summary.gpus, SizeIs(2));
  EXPECT_EQ(told.summary.info.command, request.command);
  EXPECT_EQ(told.summary.info.exit_code, 3);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "train.db"));
}

TEST_F(RecordMachine, AShortOneIsReadOftenEnough) {
  const machine::Machine machine = open();
  EXPECT_EQ(interval_of(machine, {}), 5s);
  EXPECT_EQ(interval_of(machine, {.duration = 10s}), 1s);
  EXPECT_EQ(interval_of(machine, {.duration = 200ms}), 100ms);
  EXPECT_EQ(interval_of(machine, {.duration = 10h}), 5s);
  EXPECT_EQ(interval_of(machine, {.command = {"train"}}), 1s);
  EXPECT_EQ(interval_of(machine, {.command = {"train"}, .interval = 7s}), 7s);
}

TEST_F(RecordMachine, WhatCannotBeWrittenIsToldOnce) {
  const machine::Machine machine = open();
  std::vector<std::string> told;
  std::signal(SIGPIPE, SIG_IGN);
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe.has_value());
  RecordRequest request{.interval = 100ms};
  request.files.csv = fmt::format("/dev/fd/{}", pipe->write_end.get());
  request.log = [&](const std::string& line) { told.push_back(line); };
  const auto recorded = MachineRecording::open(machine, std::move(request));
  ASSERT_THAT(recorded, IsOk());
  pipe->read_end.reset();
  ASSERT_THAT((*recorded)->start(), IsOk());
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return (*recorded)->progress().lost >= 2; }));
  (*recorded)->finish();
  EXPECT_THAT(told, ::testing::ElementsAre(HasSubstr("cannot write")));
}

TEST_F(RecordMachine, WithoutAGpuThereIsNothingToRecord) {
  EXPECT_THAT(MachineRecording::open(open("none"), {}), FailsWith(ErrorCode::unavailable, HasSubstr("no GPU")));
  const machine::Machine machine = open();
  EXPECT_THAT(MachineRecording::open(machine, {.gpus = {"99"}}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("99")));
}

}  // namespace
}  // namespace gpuwarden::launch
