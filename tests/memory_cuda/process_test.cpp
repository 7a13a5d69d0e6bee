// SPDX-License-Identifier: Apache-2.0
// One GPU, several processes with pools: one waits for another's memory, its report names the holder, and a killed one
// holds nothing.
#include "memory_cuda/scene.hpp"
#include "sim_nvml/client.hpp"
#include "support/patience.hpp"

namespace gpuwarden::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// What NVML says of GPU 0: "process 12 holds 34 bytes; ...".
std::string holders(const nvml::Nvml& nvml) {
  std::array<nvml::ProcessInfoV2, 16> entries{};
  unsigned count = entries.size();
  EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(nvml.gpu(0), &count, entries.data()), nvml::kSuccess);
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += "process " + std::to_string(entries[i].pid) + " holds " + std::to_string(entries[i].used_memory) + "; ";
  return text;
}

class CudaProcessTest : public cuda::Programs {
 protected:
  CudaProcessTest() : nvml_(580) {
    nvml_.call({{"op", "attach"}, {"spec", std::getenv("GPUWARDEN_SIMULATE")}});
    EXPECT_EQ(nvml_.nvmlInit_v2(), nvml::kSuccess);
  }
  ~CudaProcessTest() override {
    nvml_.nvmlShutdown();
    nvml_.call({{"op", "detach"}});
  }

  /// A process whose pool holds `size`, until it is told to go on; then it gives the memory back and stays.
  std::unique_ptr<cuda::Child> begin_holder(Bytes size) {
    return begin([this, size](const Library&) {
      const auto device = open_device();
      const auto pool = Pool::create(*device, {}).value();
      const auto address = pool->allocate(size, {});
      EXPECT_TRUE(address) << address.error().message;
      taken_.send();
      go_on_.wait();
      EXPECT_TRUE(pool->deallocate(*address, {}));
      EXPECT_TRUE(pool->trim());
      ::pause();
    });
  }

  const nvml::Nvml nvml_;
  const cuda::Signal taken_;
  const cuda::Signal go_on_;
};

TEST_F(CudaProcessTest, TheReportNamesWhoHoldsTheRest) {
  const auto holder = begin_holder(10_GiB);
  taken_.wait();
  const std::string pid = std::to_string(holder->pid());
  EXPECT_THAT(holders(nvml_), HasSubstr("process " + pid + " holds " + std::to_string((10_GiB).value)));
  run([&](const Library&) {
    const nvml::Nvml nvml(580);
    nvml.call({{"op", "attach"}, {"spec", std::getenv("GPUWARDEN_SIMULATE")}});
    EXPECT_EQ(nvml.nvmlInit_v2(), nvml::kSuccess);
    const auto device = open_device();
    const auto pool = Pool::create(*device, {.who_holds_what = [&] { return holders(nvml); }}).value();
    const auto refused = pool->allocate(6_GiB, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied);
    EXPECT_THAT(refused.error().message, HasSubstr("process " + pid + " holds " + std::to_string((10_GiB).value)));
    EXPECT_THAT(refused.error().message, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
    EXPECT_THAT(refused.error().hint, AllOf(HasSubstr("10 GiB"), HasSubstr("outside this pool")));
    EXPECT_TRUE(pool->allocate(4_GiB, {}));
  });
}

TEST_F(CudaProcessTest, TheLadderWaitsUntilAnotherGivesBack) {
  const auto holder = begin_holder(10_GiB);
  taken_.wait();
  run([&](const Library&) {
    const auto device = open_device();
    unsigned waited = 0;
    const auto wait_for_others = [&](Bytes needed) {
      ++waited;
      go_on_.send();
      return testing::eventually(testing::kSoon, [&] { return device->memory().value().free >= needed; });
    };
    const auto pool = Pool::create(*device, {.wait_for_others = wait_for_others}).value();
    const auto address = pool->allocate(12_GiB, {});
    EXPECT_TRUE(address) << address.error().message;
    EXPECT_EQ(waited, 1U);
    EXPECT_EQ(pool->status().rungs[static_cast<std::size_t>(Rung::wait_others)].helped, 1U);
  });
}

TEST_F(CudaProcessTest, AKilledProcessesPoolIsGivenBack) {
  const auto holder = begin_holder(10_GiB);
  taken_.wait();
  holder->kill();
  run([](const Library&) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {}).value();
    EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return pool->allocate(14_GiB, {}).has_value(); }));
  });
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return holders(nvml_).empty(); }));
}

TEST_F(CudaProcessTest, APoolKeepsItsReserveForOthers) {
  const auto holder = begin_holder(4_GiB);
  taken_.wait();
  run([](const Library&) {
    const auto device = open_device();
    const auto pool = Pool::create(*device, {.keep_free = 8_GiB}).value();
    EXPECT_FALSE(pool->allocate(4_GiB, {}));
    EXPECT_TRUE(pool->allocate(2_GiB, {}));
  });
}

}  // namespace
}  // namespace gpuwarden::memory
