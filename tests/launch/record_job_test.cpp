// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/record_job.hpp"

#include "gpuwarden/machine/reserve.hpp"
#include "machine/simulated.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::launch {
namespace {

using namespace std::chrono_literals;
using testing::IsOk;

class RecordJob : public testing::Machines {};

TEST_F(RecordJob, HoldsTheJobsOwnGpusAlone) {
  const auto machine = machine::Machine::open(machine::Simulated{"h100x8"}, options());
  ASSERT_THAT(machine, IsOk());
  const auto held =
      machine::reserve(*machine, {.gpus = {.gpu_ids = {{"5"}, {"2"}}}}, {"a-run", "train"}, system_clock(), {});
  ASSERT_THAT(held, IsOk());
  JobSpec job;
  job.argv = {"python", "train.py"};
  job.run_id = "a-run";
  const auto options = recorder_options(*held, job, 2s);
  ASSERT_THAT(options, IsOk());
  const auto gpu = [&](std::size_t index) { return held->snapshot().gpus.at(index).gpu.uuid; };
  EXPECT_THAT(options->gpus, ::testing::UnorderedElementsAre(gpu(2), gpu(5)));
  EXPECT_EQ(options->held_by, "a-run");
  EXPECT_EQ(options->info.command, job.argv);
  EXPECT_EQ(options->info.interval, 2s);
  EXPECT_TRUE(options->info.simulated);
  EXPECT_TRUE(options->file.empty()) << "the caller names it";
}

}  // namespace
}  // namespace gpuwarden::launch
