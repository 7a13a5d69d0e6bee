// SPDX-License-Identifier: Apache-2.0
// Process lists: the layout that each symbol's clients expect, byte by byte.
#include <cstring>

#include "sim_nvml/child.hpp"
#include "sim_nvml/proof.hpp"
#include "support/patience.hpp"

namespace gpuwarden::nvml {
namespace {

constexpr const char* kFleetWithProcesses = R"(
clock: {frozen: true}
gpus:
  - model: Tesla T4
    processes:
      - {pid: 4194001, memory: 1000MiB, utilization: 30}
      - {pid: 4194002, memory: 2000MiB}
      - {pid: 4194003, type: G}
      - {pid: 4194004, type: C+G, memory: 5MiB}
)";

/// A list call on raw bytes: how many entries, and the buffer behind them.
template <class Function>
std::pair<unsigned, std::array<unsigned char, 256>> raw(Function function, Device device) {
  using Entry = typename Signature<Function>::Last;
  std::array<unsigned char, 256> bytes{};
  bytes.fill(0xA5);
  alignas(8) std::array<unsigned char, 256> room = bytes;
  unsigned count = static_cast<unsigned>(room.size() / sizeof(Entry));
  EXPECT_EQ(function(device, &count, reinterpret_cast<Entry*>(room.data())), kSuccess);
  return {count, room};
}

template <class T>
T at(const std::array<unsigned char, 256>& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

class Processes : public Simulated {
 protected:
  /// Entries of `size` bytes: pid at 0, memory at 8; nothing is written behind the last.
  template <class Function>
  void expect_entries(Function function, Device device, std::size_t size) {
    const auto [count, bytes] = raw(function, device);
    ASSERT_EQ(count, 3U);
    EXPECT_EQ(at<unsigned>(bytes, 0), 4194001U);
    EXPECT_EQ(at<unsigned long long>(bytes, 8), 1000ULL << 20U);
    EXPECT_EQ(at<unsigned>(bytes, size), 4194002U);
    EXPECT_EQ(at<unsigned long long>(bytes, size + 8), 2000ULL << 20U);
    EXPECT_EQ(at<unsigned>(bytes, 2 * size), 4194004U);
    EXPECT_EQ(at<unsigned char>(bytes, 3 * size), 0xA5);
    if (size >= 24) {
      EXPECT_EQ(at<unsigned>(bytes, 16), kNoInstance);
      EXPECT_EQ(at<unsigned>(bytes, 20), kNoInstance);
    }
  }
};

TEST_F(Processes, EntriesHaveTheSizeOfTheirSymbolInEveryDriver) {
  for (const int profile : kProfiles) {
    SCOPED_TRACE(profile);
    const Nvml& nvml = start(kFleetWithProcesses, profile);
    Device gpu = nvml.gpu(0);
    expect_entries(nvml.nvmlDeviceGetComputeRunningProcesses, gpu, 16);
    if (profile >= 450) expect_entries(nvml.nvmlDeviceGetComputeRunningProcesses_v2, gpu, 24);
    if (profile >= 535) expect_entries(nvml.nvmlDeviceGetComputeRunningProcesses_v3, gpu, 24);
  }
}

TEST_F(Processes, MemoryThatIsNotKnownIsNeitherZeroNorLeftOut) {
  const Nvml& nvml = start(kFleetWithProcesses);
  std::array<ProcessInfoV2, 4> entries{};
  unsigned count = entries.size();
  ASSERT_EQ(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(nvml.gpu(0), &count, entries.data()), kSuccess);
  ASSERT_EQ(count, 2U);
  EXPECT_EQ(entries[0].pid, 4194003U);
  EXPECT_EQ(entries[0].used_memory, kMemoryNotAvailable);
  EXPECT_EQ(entries[1].pid, 4194004U) << "C+G is in both lists";
}

TEST_F(Processes, TooLittleRoomTellsHowMuchIsNeeded) {
  const Nvml& nvml = start(kFleetWithProcesses);
  Device gpu = nvml.gpu(0);
  std::array<ProcessInfoV2, 3> entries{};
  unsigned count = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, nullptr), kInsufficientSize);
  EXPECT_EQ(count, 3U);
  count = 2;
  EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, entries.data()), kInsufficientSize);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(entries[0].pid, 0U) << "nothing is written then";
  EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, entries.data()), kSuccess);
  const Nvml& idle = start("t4x1");
  count = 0;
  EXPECT_EQ(idle.nvmlDeviceGetComputeRunningProcesses_v3(idle.gpu(0), &count, nullptr), kSuccess);
  EXPECT_EQ(count, 0U);
}

TEST_F(Processes, UtilizationIsAskedForInTwoSteps) {
  const Nvml& nvml = start(kFleetWithProcesses);
  Device gpu = nvml.gpu(0);
  unsigned count = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(gpu, nullptr, &count, 0), kInsufficientSize);
  ASSERT_EQ(count, 1U);
  ProcessUtilizationSample sample{};
  ASSERT_EQ(nvml.nvmlDeviceGetProcessUtilization(gpu, &sample, &count, 0), kSuccess);
  EXPECT_EQ(sample.pid, 4194001U);
  EXPECT_EQ(sample.sm, 30U);
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(gpu, &sample, &count, sample.time_stamp), kNotFound)
      << "nothing is newer than the newest";
}

TEST_F(Processes, ADeclaredProcessHoldsMemoryAndLoadUntilItDies) {
  const Nvml& nvml = start("clock: {frozen: true}\ngpus: [{model: Tesla T4}]\n");
  Device gpu = nvml.gpu(0);
  Child child([] { return ::pause(); });
  const Json reply = nvml.call({{"op", "declare"},
                                {"pid", child.pid()},
                                {"gpus", {text<&Functions::nvmlDeviceGetUUID>(nvml, gpu)}},
                                {"memory_bytes", 3ULL << 30U},
                                {"utilization_percent", 80}});
  ASSERT_FALSE(reply.contains("error")) << reply.dump();
  const auto used = [&] {
    MemoryV2 memory{.version = kMemoryV2};
    EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(gpu, &memory), kSuccess);
    return memory.used;
  };
  std::array<ProcessInfoV2, 4> entries{};
  unsigned count = entries.size();
  ASSERT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, entries.data()), kSuccess);
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(entries[0].pid, static_cast<unsigned>(child.pid()));
  EXPECT_EQ(used(), 3ULL << 30U);
  nvml.call({{"op", "clock"}, {"advance_seconds", 1}});
  Utilization load{};
  EXPECT_EQ(nvml.nvmlDeviceGetUtilizationRates(gpu, &load), kSuccess);
  EXPECT_NEAR(load.gpu, 80, 5);

  child.kill();
  // Before anybody has waited for it: what is dead holds nothing, though its pid is still there.
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return used() == 0; }));
  count = entries.size();
  EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu, &count, entries.data()), kSuccess);
  EXPECT_EQ(count, 0U);
}

TEST_F(Processes, OneThatDoesNotExistCannotBeDeclared) {
  const Nvml& nvml = start("t4x1");
  const std::string uuid = text<&Functions::nvmlDeviceGetUUID>(nvml, nvml.gpu(0));
  const Json reply = nvml.call({{"op", "declare"}, {"pid", 4194301}, {"gpus", {uuid}}, {"memory_bytes", 1}});
  EXPECT_THAT(reply.value("error", ""), ::testing::HasSubstr("4194301"));
}

}  // namespace
}  // namespace gpuwarden::nvml
