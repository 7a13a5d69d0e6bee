// SPDX-License-Identifier: Apache-2.0
// GpuManager with its parts: each key of its configuration has an effect.
#include "gpuwarden/manager/gpu_manager.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/repetitions.hpp"
#include "support/temp_dir.hpp"
#include "telemetry/simulated_fleet.hpp"

namespace gpuwarden::manager {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Coordinated : public ::testing::Test {
 protected:
  Coordinated() {
    options_.read = [this](const probe::ReadRequest&) { return snapshot_; };
    options_.leases.directory = folder_ / "leases";
    options_.environment = {{"GPUWARDEN_STATE_DIR", (folder_ / "state").string()}};
    options_.cuda_library.clear();
    options_.cuda.enable_health_check = false;
    options_.memory.enable_cleanup = false;
  }
  GpuManager& make() {
    manager_.reset();
    manager_ = std::make_unique<GpuManager>(options_);
    EXPECT_THAT(manager_->initialize(), IsOk());
    return *manager_;
  }

  TempDir folder_;
  facts::Snapshot snapshot_ = fleet(2);
  Options options_;
  std::unique_ptr<GpuManager> manager_;
};

TEST_F(Coordinated, TheStatusIsOneValue) {
  const auto status = to_json(make().status());
  EXPECT_EQ(status["initialized"], true);
  EXPECT_EQ(status["cuda_available"], false) << "there is no driver's library";
  EXPECT_EQ(status["gpus"].size(), 2U);
  EXPECT_EQ(status["gpus"][0]["state"], "available");
  EXPECT_EQ(status["config"], to_json(GpuConfig{}));
  EXPECT_EQ(status["optimization"]["autocast"], "bfloat16");
  EXPECT_TRUE(status["distributed"].is_null());
  manager_->shutdown();
  EXPECT_FALSE(manager_->status().initialized);
  EXPECT_THAT(manager_->initialize(), IsOk()) << "and again";
  EXPECT_THAT(manager_->initialize(), IsOk()) << "twice is once";
}

TEST_F(Coordinated, WithoutGpusEverythingRunsOnTheCpu) {
  if (kLittleAddressSpace) GTEST_SKIP() << "a pool over a whole device needs more address space";
  snapshot_ = {};
  const auto context = make().device_context();
  ASSERT_THAT(context, IsOk());
  EXPECT_TRUE(context->device().is_cpu());
  EXPECT_THAT(context->fallback(), HasSubstr("no NVIDIA GPU"));
  EXPECT_THAT(manager_->memory().allocate(1_MiB), IsOk());
  EXPECT_EQ(manager_->status().memory.at(0).backing, "host");
  EXPECT_EQ(manager_->optimization().autocast, "bfloat16");
  EXPECT_EQ(manager_->set_up_distributed()->backend, "gloo");
}

TEST_F(Coordinated, KeysReachTheirParts) {
  if (kLittleAddressSpace) GTEST_SKIP() << "a pool over a whole device needs more address space";
  options_.config.device_ids = {1};
  options_.config.memory_fraction = 0.25;
  options_.config.allocation_strategy = AllocationStrategy::greedy;
  options_.config.max_memory_cache_ratio = 0.5;
  options_.config.enable_distributed = true;
  options_.config.distributed_backend = "gloo";
  options_.config.enable_profiling = true;
  make();
  ASSERT_EQ(manager_->cuda().devices().size(), 1U);
  EXPECT_EQ(manager_->cuda().best_device().gpu, GpuIndex{1});
  EXPECT_THAT(manager_->memory().allocate(1_MiB), IsOk());
  const auto memory = manager_->status().memory.at(0);
  EXPECT_EQ(memory.limit, 20_GiB) << "a quarter of the GPU's 80 GiB";
  EXPECT_EQ(memory.strategy, AllocationStrategy::greedy);
  EXPECT_EQ(manager_->memory().config().max_memory_cache_ratio, 0.5);
  EXPECT_EQ(manager_->status().distributed->backend, "gloo");
  {
    const auto scope = manager_->monitor().profile_operation("inference");
  }
  ASSERT_EQ(manager_->status().operations.size(), 1U);
  EXPECT_EQ(manager_->status().operations[0].name, "inference");
  options_.config = {};
  options_.config.enable_memory_pooling = false;
  make();
  {
    const auto scope = manager_->monitor().profile_operation("inference");
  }
  EXPECT_TRUE(manager_->status().operations.empty()) << "without enable_profiling";
  EXPECT_FALSE(manager_->memory().status().pooling);
}

TEST_F(Coordinated, ABadConfigurationBeginsNothing) {
  options_.config.max_memory_cache_ratio = 2;
  GpuManager manager(options_);
  EXPECT_THAT(manager.initialize(), FailsWith(ErrorCode::invalid_argument, HasSubstr("max_memory_cache_ratio")));
  EXPECT_FALSE(manager.initialized());
}

TEST_F(Coordinated, EmergencyReleaseTrimsThePools) {
  if (kLittleAddressSpace) GTEST_SKIP() << "a pool over a whole device needs more address space";
  make();
  auto& memory = manager_->memory();
  const auto address = memory.allocate(64_MiB);
  ASSERT_THAT(address, IsOk());
  EXPECT_THAT(memory.deallocate(*address), IsOk());
  manager_->releases().add(
      {"model", ReleaseKind::model, [] { return std::optional(1_MiB); }, []() -> Result<Bytes> { return 1_MiB; }});
  const auto report = manager_->emergency_release(64_MiB);
  ASSERT_EQ(report.steps.size(), 1U) << "the pool was enough";
  EXPECT_EQ(report.steps[0].kind, ReleaseKind::pool);
  EXPECT_EQ(manager_->emergency_release().steps.at(0).name, "model");
}

TEST(Monitoring, ReachesDevicesAlertsAndCallbacks) {
  const SimulatedFleet fleet("gpus: [{model: Tesla T4, count: 2, workload: {kind: training, memory: 4GiB}}]\n");
  Options options;
  options.reader = fleet.reader();
  options.environment = {{"GPUWARDEN_STATE_DIR", fleet.file("state").string()}};
  options.cuda_library.clear();
  options.monitor.interval = 100ms;
  options.monitor.thresholds = {{"temperature", {1, AlertLevel::critical}}};
  GpuManager manager(options);
  ASSERT_THAT(manager.initialize(), IsOk());
  std::atomic<unsigned> critical = 0;
  manager.monitor().telemetry().add_alert_callback([&](const telemetry::AlertChange& change) {
    if (change.alert.rule == "threshold_temperature" && change.alert.level == AlertLevel::critical) ++critical;
  });
  ASSERT_TRUE(eventually(kSoon, [&] { return !manager.status().alerts.empty(); }));
  EXPECT_TRUE(manager.status().monitoring);
  EXPECT_TRUE(manager.status().simulated);
  const auto current = manager.monitor().current();
  EXPECT_GT(current["gpus"][0]["metrics"]["temperature"], 1);
  EXPECT_TRUE(manager.monitor().summary(1h)["gpus"][1]["metrics"].contains("utilization"));
  fleet.sim().fault(1, "lost");
  EXPECT_TRUE(eventually(kSoon, [&] {
    return manager.cuda().devices().at(1).health.state == facts::HealthState::error;
  })) << "the monitor's readings reach the devices";
  options.config.enable_monitoring = false;
  GpuManager quiet(options);
  ASSERT_THAT(quiet.initialize(), IsOk());
  EXPECT_FALSE(quiet.status().monitoring);
  EXPECT_TRUE(quiet.monitor().current().is_null());
}

}  // namespace
}  // namespace gpuwarden::manager
