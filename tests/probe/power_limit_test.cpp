// SPDX-License-Identifier: Apache-2.0
// Setting a power limit, on a simulated GPU: a real one's is never touched by a test.
#include "gpuwarden/probe/power_limit.hpp"

#include <cstdlib>

#include "gpuwarden/probe/nvml_reader.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

class PowerLimit : public ::testing::Test {
 protected:
  PowerLimit() {
    options_.nvml_library = std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / "550/libnvidia-ml.so.1";
    options_.sys_root = dir_ / "sys";
    options_.driver_proc_root = dir_ / "proc";
    options_.simulated = true;
    options_.timeout = std::chrono::seconds(20);
    options_.variables = {{"GPUWARDEN_SIM_DIR", (dir_ / "sim").string()}, {"GPUWARDEN_SIM_FLEET", "h100x8"}};
  }
  facts::GpuRecord first() const { return read_snapshot(options_, {.detail = Detail::full}).gpus.at(0); }

  TempDir dir_;
  ReaderOptions options_;
};

TEST_F(PowerLimit, IsSetAndReadBack) {
  NvmlReader keeper(options_);
  const auto before = keeper.read();
  ASSERT_FALSE(before.gpus.empty());
  const Uuid gpu = before.gpus[0].gpu.uuid;
  EXPECT_EQ(set_power_limit(options_, gpu, 350_W), 350_W);
  const auto after = keeper.read();
  EXPECT_EQ(after.gpus[0].sample.power_limit, 350_W);
  EXPECT_EQ(after.gpus[1].sample.power_limit, before.gpus[1].sample.power_limit);
}

TEST_F(PowerLimit, StaysWithinTheGpusOwnRange) {
  const auto gpu = first().gpu;
  ASSERT_TRUE(gpu.power_limit_min && gpu.power_limit_max);
  for (const Milliwatts wrong :
       {Milliwatts(gpu.power_limit_min->value - 1), Milliwatts(gpu.power_limit_max->value + 1)})
    EXPECT_THAT(set_power_limit(options_, gpu.uuid, wrong),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("the range of this GPU")));
}

TEST_F(PowerLimit, OfAnUnknownGpuIsNotFound) {
  EXPECT_THAT(set_power_limit(options_, Uuid("GPU-nowhere"), 300_W),
              FailsWith(ErrorCode::not_found, HasSubstr("GPU-nowhere")));
}

TEST_F(PowerLimit, WithoutADriverSaysSo) {
  options_.nvml_library = dir_ / "libnvidia-ml.so.1";
  EXPECT_THAT(set_power_limit(options_, Uuid("GPU-x"), 300_W),
              FailsWith(ErrorCode::unavailable, HasSubstr("cannot be opened")));
}

}  // namespace
}  // namespace gpuwarden::probe
