// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/cuda_manager.hpp"

#include "gpuwarden/manager/distributed.hpp"
#include "support/fake_clock.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::manager {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using facts::HealthState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A machine whose snapshot a test changes, and a manager of it.
class Devices : public ::testing::Test {
 protected:
  Devices() {
    config_.enable_health_check = false;
    config_.retry_jitter = 0;
  }
  CudaManager& make(Environment environment = {}) {
    CudaSources sources;
    sources.read = [this](const probe::ReadRequest&) {
      ++reads_;
      return reads_ <= silent_ ? silent() : snapshot_;
    };
    sources.visibility = placement::visibility_from(environment);
    sources.cuda_library = GPUWARDEN_FAKE_CUDA;
    sources.clock = &clock_;
    sources.out_of_memory = [this](const Device&) { ++out_of_memory_; };
    manager_.emplace(config_, std::move(sources));
    return *manager_;
  }
  static facts::Snapshot silent() {
    facts::Snapshot snapshot;
    snapshot.problem = facts::DriverProblem(facts::DriverProblem::Kind::timed_out,
                                            {ErrorCode::timed_out, "the driver does not answer", ""});
    return snapshot;
  }
  HealthState state(std::size_t at) { return manager_->devices().at(at).health.state; }

  CudaConfig config_;
  FakeClock clock_;
  facts::Snapshot snapshot_ = fleet(3);
  unsigned reads_ = 0;
  unsigned silent_ = 0;
  unsigned out_of_memory_ = 0;
  std::optional<CudaManager> manager_;
};

TEST_F(Devices, AreAllVisibleOnesOrThoseThatAreNamed) {
  ASSERT_THAT(make().initialize(), IsOk());
  EXPECT_EQ(manager_->devices().size(), 3U);
  EXPECT_EQ(manager_->devices().at(2).device.ordinal, CudaOrdinal{2});
  config_.device_ids = {2, 0};
  ASSERT_THAT(make().initialize(), IsOk());
  ASSERT_EQ(manager_->devices().size(), 2U);
  EXPECT_EQ(device_name(manager_->devices().at(0).device), "cuda:2");
  config_.device_ids = {7};
  const auto none = make().initialize();
  EXPECT_THAT(none, FailsWith(ErrorCode::invalid_argument, HasSubstr("there is no GPU 7")));
  EXPECT_THAT(none.error().hint, HasSubstr("0, 1, 2"));
}

TEST_F(Devices, VisibleDevicesGiveTheOrdinals) {
  ASSERT_THAT(make({{"CUDA_VISIBLE_DEVICES", "2,1"}}).initialize(), IsOk());
  ASSERT_EQ(manager_->devices().size(), 2U);
  EXPECT_EQ(manager_->devices().at(0).device.gpu, GpuIndex{2});
  EXPECT_EQ(manager_->devices().at(0).device.ordinal, CudaOrdinal{0});
  config_.device_ids = {0};
  EXPECT_THAT(make({{"CUDA_VISIBLE_DEVICES", "2,1"}}).initialize(),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("GPU 0 is hidden by CUDA_VISIBLE_DEVICES=2,1")));
}

TEST_F(Devices, ASilentDriverIsAskedAgainAndAnAbsentOneIsNot) {
  silent_ = 2;
  std::vector<DeviceError> errors;
  make().add_error_callback([&](const DeviceError& error) { errors.push_back(error); });
  ASSERT_THAT(manager_->initialize(), IsOk());
  EXPECT_EQ(manager_->devices().size(), 3U);
  EXPECT_EQ(errors.size(), 2U);
  EXPECT_EQ(clock_.now().time_since_epoch(), 300ms) << "100 and 200 ms";
  silent_ = 1000;
  ASSERT_THAT(make().initialize(), IsOk()) << "the CPU remains";
  EXPECT_FALSE(manager_->has_gpu());
  EXPECT_THAT(manager_->problem(), HasSubstr("does not answer"));
  silent_ = reads_ = 0;
  snapshot_ = {};
  snapshot_.problem =
      facts::DriverProblem(facts::DriverProblem::Kind::no_library, {ErrorCode::unavailable, "no NVIDIA driver", ""});
  ASSERT_THAT(make().initialize(), IsOk());
  EXPECT_EQ(reads_, 1U);
  EXPECT_TRUE(manager_->best_device().is_cpu());
}

TEST_F(Devices, WorkMovesToAnotherGpuAndBackToTheFirstWhenItRecovers) {
  ASSERT_THAT(make().initialize(), IsOk());
  std::vector<DeviceError> errors;
  std::vector<HealthState> states;
  manager_->add_error_callback([&](const DeviceError& error) { errors.push_back(error); });
  manager_->add_state_callback([&](const DeviceStatus&, const DeviceStatus& now) {
    if (now.device.gpu == GpuIndex{0}) states.push_back(now.health.state);
  });
  unsigned calls = 0;
  const auto done = manager_->run("inference", [&](const Device& device) -> Result<void> {
    ++calls;
    EXPECT_EQ(state(device.gpu->value), HealthState::busy);
    if (device.gpu == GpuIndex{0}) return fail(ErrorCode::failed, "CUDA error 700");
    return {};
  });
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->device.gpu, GpuIndex{1});
  EXPECT_EQ(calls, 4U);
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_TRUE(errors[1].will_retry);
  EXPECT_FALSE(errors[2].will_retry);
  EXPECT_EQ(errors[2].failover->gpu, GpuIndex{1});
  EXPECT_EQ(state(0), HealthState::error);
  EXPECT_THAT(manager_->device(GpuIndex{0}), FailsWith(ErrorCode::unavailable, HasSubstr("CUDA error 700")));
  manager_->check();
  EXPECT_EQ(state(0), HealthState::error) << "its time has not come";
  clock_.advance(11s);
  manager_->check();
  EXPECT_EQ(state(0), HealthState::available);
  EXPECT_THAT(states,
              ElementsAre(HealthState::busy, HealthState::available, HealthState::error, HealthState::available));
}

TEST_F(Devices, TheCpuIsTheLastResort) {
  ASSERT_THAT(make().initialize(), IsOk());
  std::vector<std::string> tried;
  const auto done = manager_->run("training", [&](const Device& device) -> Result<void> {
    tried.push_back(spoken_name(device));
    if (!device.is_cpu()) return fail(ErrorCode::unsatisfied, "CUDA out of memory");
    return {};
  });
  ASSERT_THAT(done, IsOk());
  EXPECT_TRUE(done->device.is_cpu());
  EXPECT_EQ(tried.size(), 10U);
  EXPECT_EQ(out_of_memory_, 6U) << "memory is let go of before each new attempt";
  EXPECT_EQ(state(0), HealthState::available) << "a full GPU is no broken one";
  const auto refused = manager_->run(
      "typo", [&](const Device&) -> Result<void> { return fail(ErrorCode::invalid_argument, "wrong shape"); });
  EXPECT_THAT(refused, FailsWith(ErrorCode::invalid_argument, HasSubstr("wrong shape")));
  config_.enable_failover = false;
  ASSERT_THAT(make().initialize(), IsOk());
  EXPECT_THAT(manager_->run("x", [](const Device&) -> Result<void> { return fail(ErrorCode::failed, "dead"); }),
              FailsWith(ErrorCode::failed, HasSubstr("dead")));
}

TEST_F(Devices, AreDisabledByTheProgramAndByReadings) {
  ASSERT_THAT(make().initialize(), IsOk());
  ASSERT_THAT(manager_->disable(GpuIndex{0}, "loud"), IsOk());
  EXPECT_EQ(state(0), HealthState::disabled);
  EXPECT_EQ(manager_->best_device().gpu, GpuIndex{1});
  ASSERT_THAT(manager_->report_error(GpuIndex{1}, "copy", {ErrorCode::failed, "bad", ""}), IsOk());
  EXPECT_EQ(manager_->best_device().gpu, GpuIndex{2});
  snapshot_.gpus[2].state = facts::GpuState::lost;
  manager_->check();
  EXPECT_EQ(state(2), HealthState::error);
  EXPECT_TRUE(manager_->best_device().is_cpu());
  ASSERT_THAT(manager_->enable(GpuIndex{0}), IsOk());
  EXPECT_EQ(manager_->best_device().gpu, GpuIndex{0});
  EXPECT_THAT(manager_->enable(GpuIndex{9}), FailsWith(ErrorCode::invalid_argument, HasSubstr("GPU 9")));
}

TEST_F(Devices, AContextIsAUseOfItsDevice) {
  snapshot_ = fleet(2);  // as many as the fake driver has
  ASSERT_THAT(make().initialize(), IsOk());
  {
    const auto context = manager_->enter(GpuIndex{1});
    ASSERT_THAT(context, IsOk());
    EXPECT_EQ(device_name(context->device()), "cuda:1");
    EXPECT_EQ(state(1), HealthState::busy);
    EXPECT_EQ(manager_->devices().at(1).in_use, 1U);
  }
  EXPECT_EQ(state(1), HealthState::available);
  EXPECT_THAT(manager_->enter(GpuIndex{5}), FailsWith(ErrorCode::invalid_argument, HasSubstr("GPU 5")));
  ASSERT_THAT(manager_->disable(GpuIndex{1}, "loud"), IsOk());
  const auto fallback = manager_->enter(GpuIndex{1});
  ASSERT_THAT(fallback, IsOk());
  EXPECT_TRUE(fallback->device().is_cpu());
  EXPECT_THAT(fallback->fallback(), HasSubstr("loud"));
}

TEST(HealthChecks, LookByThemselves) {
  std::atomic<unsigned> reads = 0;
  CudaConfig config;
  config.health_check_interval = 10ms;
  CudaSources sources;
  sources.read = [&](const probe::ReadRequest&) {
    ++reads;
    return fleet(1);
  };
  CudaManager manager(config, std::move(sources));
  ASSERT_THAT(manager.initialize(), IsOk());
  EXPECT_TRUE(eventually(kSoon, [&] { return reads > 3; }));
  manager.shutdown();
  const unsigned then = reads;
  manager.check();
  EXPECT_EQ(reads, then + 1);
}

TEST(HealthChecks, EndWithAManagerThatACallbackOfTheirsDestroys) {
  std::atomic<bool> lost = false;
  std::atomic<bool> destroyed = false;
  CudaConfig config;
  config.health_check_interval = 10ms;
  CudaSources sources;
  sources.read = [&](const probe::ReadRequest&) {
    facts::Snapshot snapshot = fleet(2);
    if (lost) snapshot.gpus[1].state = facts::GpuState::lost;
    return snapshot;
  };
  auto manager = std::make_unique<CudaManager>(config, std::move(sources));
  ASSERT_THAT(manager->initialize(), IsOk());
  manager->add_state_callback([&](const DeviceStatus&, const DeviceStatus& now) {
    EXPECT_EQ(now.health.state, HealthState::error);
    manager.reset();
    destroyed = true;
  });
  lost = true;
  EXPECT_TRUE(eventually(kSoon, [&] { return destroyed.load(); }));
}

TEST_F(Devices, MayBeDestroyedByACallbackOfTheirOwn) {
  ASSERT_THAT(make().initialize(), IsOk());
  manager_->add_state_callback([&](const DeviceStatus&, const DeviceStatus&) { manager_.reset(); });
  snapshot_.gpus[2].state = facts::GpuState::lost;
  manager_->check();
  EXPECT_FALSE(manager_);
  ASSERT_THAT(make().initialize(), IsOk());
  manager_->add_error_callback([&](const DeviceError&) { manager_.reset(); });
  EXPECT_THAT(manager_->report_error(GpuIndex{0}, "copy", {ErrorCode::failed, "bad", ""}), IsOk());
  EXPECT_FALSE(manager_);
}

TEST_F(Devices, AreNotUsedWhileNobodyKnowsWhatIsDisabled) {
  Result<std::vector<facts::Disabling>> told = fail(ErrorCode::corrupt, "disabled.json is torn", "remove it");
  CudaSources sources;
  sources.read = [this](const probe::ReadRequest&) { return snapshot_; };
  sources.disabled = [&told] { return told; };
  CudaManager& manager = manager_.emplace(config_, std::move(sources));
  ASSERT_THAT(manager.initialize(), IsOk());
  EXPECT_TRUE(manager.best_device().is_cpu());
  EXPECT_EQ(state(0), HealthState::disabled);
  EXPECT_THAT(manager.devices().at(0).health.reason, HasSubstr("disabled.json is torn"));
  told = std::vector<facts::Disabling>{
      {.uuid = snapshot_.gpus[1].gpu.uuid, .reason = "loud", .by = "eve", .next_step = {}}};
  manager.check();
  EXPECT_EQ(state(0), HealthState::available);
  EXPECT_EQ(state(1), HealthState::disabled);
  told = fail(ErrorCode::corrupt, "disabled.json is torn again", "");
  manager.check();
  EXPECT_EQ(state(0), HealthState::available);
  EXPECT_EQ(state(1), HealthState::disabled);
}

TEST(Distributed, TakesTheLaunchersWordOrStandsAlone) {
  const std::vector<Device> devices{{GpuIndex{0}, Uuid("GPU-a"), "a", CudaOrdinal{0}},
                                    {GpuIndex{1}, Uuid("GPU-b"), "b", CudaOrdinal{1}}};
  const Environment launched{
      {"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  const auto setup = set_up_distributed({}, launched, devices);
  ASSERT_THAT(setup, IsOk());
  EXPECT_TRUE(setup->launched);
  EXPECT_EQ(setup->rank, 3U);
  EXPECT_EQ(setup->device.gpu, GpuIndex{1});
  EXPECT_EQ(setup->backend, "nccl");
  EXPECT_TRUE(setup->variables.empty());
  const auto alone = set_up_distributed({}, {}, devices);
  ASSERT_THAT(alone, IsOk());
  EXPECT_EQ(alone->variables.at("WORLD_SIZE"), "1");
  EXPECT_EQ(alone->variables.at("MASTER_PORT"), std::to_string(alone->master_port));
  EXPECT_FALSE(alone->variables.contains("CUDA_VISIBLE_DEVICES"));
  const auto on_cpu = set_up_distributed({}, {}, {});
  EXPECT_EQ(on_cpu->backend, "gloo");
  EXPECT_THAT(on_cpu->notes, ElementsAre(HasSubstr("gloo is used")));
  GpuConfig gloo;
  gloo.distributed_backend = "gloo";
  EXPECT_EQ(set_up_distributed(gloo, launched, devices)->backend, "gloo");
}

TEST(Distributed, RefusesHalfOfTheVariablesAndWhatIsNoNumber) {
  EXPECT_THAT(set_up_distributed({}, {{"RANK", "0"}}, {}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("WORLD_SIZE")));
  const Environment wrong{{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "29500"}};
  EXPECT_THAT(set_up_distributed({}, wrong, {}), FailsWith(ErrorCode::invalid_argument, HasSubstr("RANK=4")));
  const Environment crowded{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "29500"}};
  const std::vector<Device> two(2, Device{GpuIndex{0}, Uuid("GPU-a"), "a", CudaOrdinal{0}});
  EXPECT_THAT(set_up_distributed({}, crowded, two), FailsWith(ErrorCode::unsatisfied, HasSubstr("LOCAL_RANK=3")));
}

}  // namespace
}  // namespace gpuwarden::manager
