// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/use.hpp"

#include "gpuwarden/facts/indices.hpp"

namespace gpuwarden::facts {
namespace {

GpuRecord gpu(std::uint32_t index, const char* uuid) {
  GpuRecord record;
  record.gpu.index = GpuIndex{index};
  record.gpu.uuid = Uuid(uuid);
  record.sample.memory_total = 80_GiB;
  record.sample.memory_used = 1_MiB;
  record.sample.utilization_gpu = 0_pct;
  record.processes.emplace();
  return record;
}

TEST(FindLease, IsTheGpusOwnOrOneOfItsInstances) {
  const std::vector<Lease> leases{{Uuid("GPU-a"), false, {}}, {Uuid("MIG-b"), false, {}}, {Uuid("index-7"), false, {}}};
  EXPECT_EQ(find_lease(leases, gpu(0, "GPU-a")), &leases[0]);
  GpuRecord divided = gpu(1, "GPU-b");
  EXPECT_EQ(find_lease(leases, divided), nullptr);
  divided.mig_devices.push_back({.uuid = Uuid("MIG-b")});
  EXPECT_EQ(find_lease(leases, divided), &leases[1]);
  EXPECT_EQ(find_lease(leases, gpu(7, "")), &leases[2]) << "leased by its index, as its UUID cannot be read";
}

TEST(IdleLease, IsALeasedGpuWithoutLoadAndContext) {
  const Lease lease{Uuid("GPU-a"), false, {}};
  GpuRecord record = gpu(0, "GPU-a");
  EXPECT_FALSE(is_idle_lease(record, nullptr));
  EXPECT_TRUE(is_idle_lease(record, &lease));
  record.sample.memory_used = 64_MiB;
  EXPECT_FALSE(is_idle_lease(record, &lease));
  record.sample.memory_used.reset();
  EXPECT_FALSE(is_idle_lease(record, &lease)) << "what is unknown is not idle";
  record = gpu(0, "GPU-a");
  record.sample.utilization_gpu = 1_pct;
  EXPECT_FALSE(is_idle_lease(record, &lease));
  record = gpu(0, "GPU-a");
  record.state = GpuState::not_answering;
  EXPECT_FALSE(is_idle_lease(record, &lease));
}

TEST(OutOfUse, IsSaidWhereTheStateOfTheGpuDoesNotSayMore) {
  GpuRecord record = gpu(0, "GPU-a");
  Disabling word;
  EXPECT_EQ(out_of_use_word(record, nullptr), "");
  EXPECT_EQ(out_of_use_word(record, &word), "disabled");
  word.judged = true;
  EXPECT_EQ(out_of_use_word(record, &word), "unfit");
  record.state = GpuState::lost;
  EXPECT_EQ(out_of_use_word(record, &word), "");
  word.judged = false;
  EXPECT_EQ(out_of_use_word(record, &word), "");
}

TEST(Trouble, IsTheCauseBehindTheStateWhereTheCauseDoesNotSayIt) {
  GpuRecord record = gpu(0, "GPU-a");
  record.state = GpuState::not_answering;
  EXPECT_EQ(describe_trouble(record), "not answering");
  record.cause = "no answer within 5 s";
  EXPECT_EQ(describe_trouble(record), "not answering: no answer within 5 s");
  record.state = GpuState::lost;
  record.cause = "the GPU is lost: it fell off the PCIe bus";
  EXPECT_EQ(describe_trouble(record), record.cause);
}

TEST(Indices, AreWrittenAsRanges) {
  EXPECT_EQ(index_ranges({6, 0, 2, 1, 2}), "0-2, 6");
  EXPECT_EQ(name_gpus({3}), "GPU 3");
  EXPECT_EQ(name_gpus({0, 1}), "GPUs 0-1");
  EXPECT_EQ(name_gpus({}), "no GPU");
}

TEST(Orphan, IsNamedWithTheCommandThatEndsIt) {
  Lease lease{Uuid("GPU-a"), false, {{.pid = Pid{7}, .user = "ada", .run_id = "run-1"}}};
  EXPECT_EQ(find_orphan(lease), nullptr);
  EXPECT_EQ(describe_orphan(lease.holders[0]), "");
  lease.holders[0].orphaned = true;
  ASSERT_NE(find_orphan(lease), nullptr);
  EXPECT_EQ(describe_orphan(*find_orphan(lease)),
            "left over of the run run-1, whose launcher was killed; to end: gpuwarden run --end-leftovers run-1");
}

TEST(UnseenHolder, IsSaidToHoldTheLeaseAndNeverGuessedAt) {
  EXPECT_TRUE(describe_unseen_holder({Uuid("GPU-a"), false, {}}).starts_with("the holder is not visible here"));
  EXPECT_EQ(describe_unseen_holder({Uuid("GPU-a"), false, {{.pid = Pid{7}, .user = "ada"}}}), "");
}

TEST(IsLoaded, IsMoreThanAnIdleDesktop) {
  GpuSample sample;
  EXPECT_FALSE(is_loaded(sample));
  sample.utilization_gpu = 10_pct;
  EXPECT_FALSE(is_loaded(sample));
  sample.utilization_gpu = 11_pct;
  EXPECT_TRUE(is_loaded(sample));
  sample.utilization_gpu.reset();
  sample.memory_used = 2_GiB;
  EXPECT_FALSE(is_loaded(sample)) << "of an unknown total";
  sample.memory_total = 16_GiB;
  EXPECT_TRUE(is_loaded(sample));
  sample.memory_total.reset();
  sample.memory_used = 39_GiB;
  EXPECT_TRUE(is_loaded(sample)) << "no desktop takes that much, whatever the total";
}

TEST(LoadOf, TellsWorkFromMemory) {
  GpuSample sample;
  EXPECT_EQ(load_of(sample), Load::none);
  sample.memory_total = 80_GiB;
  sample.memory_used = 30_GiB;
  EXPECT_EQ(load_of(sample), Load::memory);
  sample.utilization_gpu = 95_pct;
  EXPECT_EQ(load_of(sample), Load::work);
}

TEST(UseOf, IsFreeOnlyWhereNobodyCanBeAtWork) {
  EXPECT_EQ(use_of(gpu(0, "GPU-a")), Use::free);
  GpuRecord record = gpu(0, "GPU-a");
  record.sample.utilization_gpu = 95_pct;
  EXPECT_EQ(use_of(record), Use::in_use) << "at work, by nobody who is seen";
  record.state = GpuState::busy;
  EXPECT_EQ(use_of(record), Use::busy);
  record.state = GpuState::lost;
  EXPECT_EQ(use_of(record), Use::unusable);
  record = gpu(0, "GPU-a");
  record.processes_unreadable = true;
  EXPECT_EQ(use_of(record), Use::unknown);
}

TEST(UseOf, ACaptureThatDoesNotTellIsNotFree) {
  GpuRecord record = gpu(0, "GPU-a");
  record.processes.reset();
  EXPECT_EQ(use_of(record), Use::free);
  record.sample.memory_total.reset();
  EXPECT_EQ(use_of(record), Use::free) << "next to nothing of its memory is in use";
  record.sample.memory_used = 2_GiB;
  EXPECT_EQ(use_of(record), Use::unknown) << "much of a small GPU, little of a large one";
  record.sample.memory_used = 39_GiB;
  EXPECT_EQ(use_of(record), Use::in_use);
  record.sample = {};
  EXPECT_EQ(use_of(record), Use::unknown);
  record.sample.utilization_gpu = 95_pct;
  EXPECT_EQ(use_of(record), Use::in_use);
}

TEST(UseOf, MigWithoutAnInstanceIsNoDevice) {
  GpuRecord record = gpu(0, "GPU-a");
  record.gpu.mig_enabled = true;
  EXPECT_EQ(use_of(record), Use::no_instance);
  record.mig_listed = false;
  EXPECT_EQ(use_of(record), Use::unknown) << "nvidia-smi's CSV names no instances";
  record.sample.utilization_gpu = 95_pct;
  EXPECT_EQ(use_of(record), Use::in_use);
  record.sample.utilization_gpu.reset();
  record.mig_listed.reset();
  record.mig_devices.push_back({.uuid = Uuid("MIG-b")});
  EXPECT_EQ(use_of(record), Use::free);
}

TEST(UnlistedUser, IsMemoryThatNoListedProcessAccountsFor) {
  GpuRecord record = gpu(0, "GPU-a");
  EXPECT_FALSE(has_unlisted_user(record));
  record.sample.memory_used = 2_GiB;
  EXPECT_TRUE(has_unlisted_user(record));
  record.processes->push_back({.pid = Pid{1}, .memory = 2_GiB, .listed = false});
  EXPECT_TRUE(has_unlisted_user(record)) << "the driver does not list it";
  record.processes->back().listed = true;
  EXPECT_FALSE(has_unlisted_user(record));
  record.sample.memory_used.reset();
  EXPECT_TRUE(has_unlisted_user(record)) << "what is unknown is not free";
}

TEST(Capability, IsReadWhereAGpuCouldHaveIt) {
  EXPECT_EQ(compute_capability_from("8.6"), (ComputeCapability{8, 6}));
  EXPECT_EQ(compute_capability_from("12.0"), (ComputeCapability{12, 0}));
  for (const char* text : {"", "8", "8.", "8.10", "0.5", "100.0", "8.6.1", "x.y"})
    EXPECT_EQ(compute_capability_from(text), std::nullopt) << text;
}

TEST(Trouble, IsAnNvidiaGpuThatCannotBeUsedAndDoesNotSleep) {
  GpuRecord record = gpu(0, "GPU-a");
  record.gpu.vendor = "NVIDIA";
  EXPECT_FALSE(is_in_trouble(record));
  record.state = GpuState::lost;
  EXPECT_TRUE(is_in_trouble(record));
  record.gpu.vendor = "AMD";
  EXPECT_FALSE(is_in_trouble(record)) << "what state it is in nobody here can judge";
  record.gpu.vendor = "NVIDIA";
  record.state = GpuState::suspended;
  EXPECT_FALSE(is_in_trouble(record));
}

}  // namespace
}  // namespace gpuwarden::facts
