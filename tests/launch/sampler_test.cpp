// SPDX-License-Identifier: Apache-2.0
// What the sampler of a run starts.
#include <pthread.h>

#include <atomic>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/launch/report.hpp"
#include "support/sim_control.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::launch {
namespace {

std::atomic<int> forks = 0;

TEST(Sampler, ReadsFromFirstToLastWithOneProcess) {
  const testing::TempDir dir;
  ::setenv("GPUWARDEN_SIM_DIR", (dir / "sim").c_str(), 1);
  const std::filesystem::path library = GPUWARDEN_SIM_LIB_DIR "/550/libnvidia-ml.so.1";
  const testing::SimControl fleet(library, "h100x8");
  ::setenv("GPUWARDEN_SIM_FLEET", fleet.folder().c_str(), 1);
  probe::ReaderOptions options;
  options.nvml_library = library;
  options.sys_root = fleet.folder() + "/sys";
  options.driver_proc_root = fleet.proc_root();
  options.simulated = true;
  options.probe = probe::ProbeChoice::nvml;
  ASSERT_EQ(::pthread_atfork(nullptr, [] { ++forks; }, nullptr), 0);
  forks = 0;
  Sampler sampler(options, {}, std::chrono::hours(1), system_clock());
  EXPECT_EQ(sampler.finish().size(), 0U) << "no GPUs were named";
  EXPECT_EQ(forks.load(), 1) << "the last sample found the reader ended";
}

}  // namespace
}  // namespace gpuwarden::launch
