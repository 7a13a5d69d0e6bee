// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/gpu_manager.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "gpuwarden/manager/models.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::manager {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

GpuManager manager_of(facts::Snapshot snapshot, Environment environment = {}) {
  static const TempDir folder;
  Options options;
  options.environment = std::move(environment);
  options.read = [snapshot = std::move(snapshot)](const probe::ReadRequest&) { return snapshot; };
  options.leases.directory = folder / "leases";
  options.reader.sys_root = folder / "sys";
  return GpuManager(std::move(options));
}

TEST(GpuManager, ListsTheGpusThatAnswer) {
  auto snapshot = fleet(3);
  snapshot.gpus[1].state = facts::GpuState::lost;
  auto manager = manager_of(snapshot);
  ASSERT_EQ(manager.available_gpus().size(), 2U);
  EXPECT_EQ(manager.available_gpus()[1].gpu.index, GpuIndex{2});
  EXPECT_THAT(manager.gpu_info("2"), IsOk());
  EXPECT_THAT(manager.gpu_info("9"), FailsWith(ErrorCode::invalid_argument, HasSubstr("no GPU '9'")));
}

TEST(GpuManager, WhatOthersHaveLeasedIsNotHandedOut) {
  auto manager = manager_of(fleet(2));
  auto other = manager_of(fleet(2));
  {
    const auto held = manager.reserve({.gpu_ids = {{"0"}}});
    ASSERT_THAT(held, IsOk());
    const auto chosen = other.select({});
    ASSERT_THAT(chosen, IsOk());
    ASSERT_EQ(chosen->selected.size(), 1U);
    EXPECT_EQ(chosen->selected[0].index, GpuIndex{1});
    EXPECT_EQ(other.optimal_device()->index, GpuIndex{1});
    EXPECT_THAT(other.reserve({.count = 2}), FailsWith(ErrorCode::unsatisfied, HasSubstr("GPU 0: leased by")));
    EXPECT_THAT(other.reserve({.count = 2}, std::chrono::milliseconds(1)),
                FailsWith(ErrorCode::timed_out, HasSubstr("timed out after")));
    EXPECT_FALSE(other.select({.count = 2})->satisfied);
  }
  EXPECT_THAT(other.reserve({.count = 2}), IsOk()) << "it frees itself";
}

TEST(GpuManager, WarnsWhenMemoryRunsOut) {
  auto snapshot = fleet(1);
  snapshot.gpus[0].sample.memory_used = 76_GiB;
  auto manager = manager_of(snapshot);
  const auto usage = manager.memory_usage("0");
  ASSERT_THAT(usage, IsOk());
  EXPECT_DOUBLE_EQ(usage->used_percent, 95);
  EXPECT_THAT(usage->warning.value_or(""), HasSubstr("95 %"));
  EXPECT_FALSE(manager.memory_usage("0", 96)->warning);
  snapshot.gpus[0].sample.memory_used.reset();
  EXPECT_THAT(manager_of(snapshot).memory_usage("0"), FailsWith(ErrorCode::unavailable, HasSubstr("does not report")));
}

TEST(GpuManager, ScoresMoreMemoryMoreMultiprocessorsAndLessLoadHigher) {
  auto record = gpu(0);
  record.gpu.multiprocessors = Count(100);
  const double score = *capability_score(record);
  record.gpu.multiprocessors = Count(120);
  EXPECT_GT(*capability_score(record), score);
  record.gpu.multiprocessors = Count(100);
  record.sample.memory_free = 70_GiB;
  EXPECT_LT(*capability_score(record), score);
  record.sample.memory_free = 80_GiB;
  record.sample.utilization_gpu = Percent(50);
  EXPECT_LT(*capability_score(record), score);
  record.state = facts::GpuState::lost;
  EXPECT_FALSE(capability_score(record));
}

TEST(GpuManager, TheOptimalDeviceIsFreeAndStrong) {
  auto snapshot = mixed_fleet();
  EXPECT_EQ(manager_of(snapshot).optimal_device()->index, GpuIndex{2});
  snapshot.gpus[2].state = facts::GpuState::needs_reset;
  EXPECT_EQ(manager_of(snapshot).optimal_device()->index, GpuIndex{1});
  EXPECT_THAT(manager_of({}).optimal_device(), FailsWith(ErrorCode::unsatisfied, HasSubstr("no GPU")));
  EXPECT_EQ(manager_of(snapshot, {{"CUDA_VISIBLE_DEVICES", "GPU-0000"}}).optimal_device()->index, GpuIndex{0});
}

TEST(GpuManager, SelectionComesWithItsStrategyAndEnvironment) {
  placement::Request request;
  request.model_size = Bytes(140'000'000'000);
  const auto decision = manager_of(fleet(4)).select(request);
  ASSERT_THAT(decision, IsOk());
  EXPECT_EQ(decision->strategy, placement::Strategy::fsdp);
  EXPECT_EQ(environment_for(*decision).at("CUDA_VISIBLE_DEVICES"), "GPU-0000-test,GPU-1000-test");
  EXPECT_EQ(environment_for(*decision).at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
}

planning::Workload work_on(const char* model, const char* task) {
  const auto shape = load_model(model).value();
  return {.model = shape, .settings = planning::settings_for(shape, task).value()};
}

TEST(GpuManager, TakesAsManyGpusAsAModelNeeds) {
  placement::Request request;
  request.work = work_on("llama-3.1-70b", "inference");
  const auto decision = manager_of(fleet(4)).select(request);
  ASSERT_THAT(decision, IsOk());
  ASSERT_TRUE(decision->satisfied) << decision->missing;
  ASSERT_TRUE(decision->model);
  EXPECT_EQ(decision->selected.size(), decision->model->gpus);
  EXPECT_GE(decision->selected.size(), 2U);
  EXPECT_THAT(decision->model->reason, HasSubstr("GiB of each"));
}

TEST(GpuManager, PlansForTheMachineOrForNamedGpus) {
  const auto here = manager_of(fleet(4)).plan({.work = work_on("llama-3.1-8b", "train")});
  ASSERT_THAT(here, IsOk());
  EXPECT_EQ(here->request.gpus.count, 4U);
  EXPECT_EQ(here->request.gpus.usable, 80_GiB);
  EXPECT_TRUE(here->fits);
  EXPECT_FALSE(here->lines.empty());
  const auto named =
      manager_of({}).plan({.work = work_on("llama-3.1-8b", "train"), .gpus = planning::gpus_named("rtx4090").value()});
  ASSERT_THAT(named, IsOk());
  EXPECT_FALSE(named->fits);
  EXPECT_FALSE(named->search.changes.empty());
  EXPECT_THAT(manager_of({}).plan({.work = work_on("gpt2", "train")}),
              FailsWith(ErrorCode::unsatisfied, HasSubstr("no GPU")));
}

TEST(ScopedVisibleDevicesTest, RestoresWhatWasThere) {
  ::setenv("CUDA_VISIBLE_DEVICES", "before", 1);
  ::unsetenv("CUDA_DEVICE_ORDER");
  placement::Decision decision;
  decision.selected = {{GpuIndex{0}, Uuid("GPU-a"), std::nullopt, ""}};
  {
    const ScopedVisibleDevices scope(decision);
    EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "GPU-a");
    EXPECT_STREQ(std::getenv("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  }
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "before");
  EXPECT_EQ(std::getenv("CUDA_DEVICE_ORDER"), nullptr);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(DeviceGuardTest, MakesADeviceCurrentForItsScope) {
  void* fake = ::dlopen(GPUWARDEN_FAKE_CUDA, RTLD_NOW);
  ASSERT_NE(fake, nullptr);
  const auto current = reinterpret_cast<int (*)()>(::dlsym(fake, "fake_current"));
  const auto retained = reinterpret_cast<int (*)()>(::dlsym(fake, "fake_retained"));
  {
    const auto outer = DeviceGuard::enter(CudaOrdinal{1}, GPUWARDEN_FAKE_CUDA);
    ASSERT_THAT(outer, IsOk());
    EXPECT_EQ(current(), 1);
    {
      const auto inner = DeviceGuard::enter(CudaOrdinal{0}, GPUWARDEN_FAKE_CUDA);
      ASSERT_THAT(inner, IsOk());
      EXPECT_EQ(current(), 0);
    }
    EXPECT_EQ(current(), 1);
  }
  EXPECT_EQ(current(), -1);
  EXPECT_EQ(retained(), 0);
  EXPECT_THAT(DeviceGuard::enter(CudaOrdinal{5}, GPUWARDEN_FAKE_CUDA),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("no CUDA device 5")));
  EXPECT_THAT(DeviceGuard::enter(CudaOrdinal{0}, "no-such-libcuda.so"),
              FailsWith(ErrorCode::unavailable, HasSubstr("CUDA driver")));
}

}  // namespace
}  // namespace gpuwarden::manager
