// SPDX-License-Identifier: Apache-2.0
// Which devices a program sees, in which order, and what they say of themselves.
#include "sim_cuda/program.hpp"

namespace gpuwarden::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Names of the visible devices; empty where there are none.
std::vector<std::string> names(const Library& cuda) {
  std::vector<std::string> result;
  int count = 0;
  if (cuda.cuInit(0) != kSuccess || cuda.cuDeviceGetCount(&count) != kSuccess) return result;
  for (int i = 0; i < count; ++i) {
    std::array<char, 100> name{};
    EXPECT_EQ(cuda.cuDeviceGetName(name.data(), static_cast<int>(name.size()), i), kSuccess);
    result.emplace_back(name.data());
  }
  return result;
}

std::string uuid(const Library& cuda, Device device) {
  Uuid bytes{};
  EXPECT_EQ(cuda.cuDeviceGetUuid_v2(&bytes, device), kSuccess);
  std::string text;
  for (const unsigned char byte : bytes.bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0xFU];
  }
  return text;
}

int attribute(const Library& cuda, int which, Device device = 0) {
  int value = -1;
  EXPECT_EQ(cuda.cuDeviceGetAttribute(&value, which, device), kSuccess) << which;
  return value;
}

constexpr const char* kMixed =
    "gpus:\n"
    "  - {model: Tesla T4, bus_id: '00000000:10:00.0', uuid: GPU-aaaaaaaa-0000-0000-0000-000000000001}\n"
    "  - {model: NVIDIA A100-SXM4-80GB, bus_id: '00000000:30:00.0', uuid: GPU-aaaabbbb-0000-0000-0000-000000000002}\n"
    "  - {model: NVIDIA GeForce RTX 4090, bus_id: '00000000:20:00.0', uuid: "
    "GPU-cccccccc-0000-0000-0000-000000000003}\n";

class DeviceTest : public Programs {
 protected:
  /// What a program sees with the variable set so.
  static void sees(const char* variable, const ::testing::Matcher<std::vector<std::string>>& matcher) {
    if (variable != nullptr) ::setenv("CUDA_VISIBLE_DEVICES", variable, 1);
    run([&](const Library& cuda) { EXPECT_THAT(names(cuda), matcher) << (variable != nullptr ? variable : "unset"); });
  }
};

constexpr const char* kT4 = "Tesla T4";
constexpr const char* kA100 = "NVIDIA A100-SXM4-80GB";
constexpr const char* k4090 = "NVIDIA GeForce RTX 4090";

TEST_F(DeviceTest, CountsTheFastestFirst) {
  use(kMixed);
  sees(nullptr, ElementsAre(k4090, kA100, kT4));
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  sees(nullptr, ElementsAre(kT4, k4090, kA100));
}

TEST_F(DeviceTest, HeedsCudaVisibleDevices) {
  use(kMixed);
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  sees("2,0", ElementsAre(kA100, kT4));
  sees("GPU-cccc,GPU-aaaaa", ElementsAre(k4090, kT4));
  sees("GPU-aaaa", IsEmpty());  // two begin so
  sees("0,7,1", ElementsAre(kT4));
  sees("1,nonsense,0", ElementsAre(k4090));
  sees("0,0", IsEmpty());
  sees("", IsEmpty());
  sees("-1", IsEmpty());
}

TEST_F(DeviceTest, WithoutAVisibleDeviceThereIsNone) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  run([](const Library& cuda) { EXPECT_EQ(cuda.cuInit(0), kNoDevice); });
}

TEST_F(DeviceTest, HasTheIdentityThatNvmlTells) {
  use(kMixed);
  run([](const Library& cuda) {
    ASSERT_EQ(cuda.cuInit(0), kSuccess);
    EXPECT_EQ(uuid(cuda, 1), "aaaabbbb000000000000000000000002");
    std::array<char, 20> bus{};
    EXPECT_EQ(cuda.cuDeviceGetPCIBusId(bus.data(), bus.size(), 1), kSuccess);
    EXPECT_STREQ(bus.data(), "0000:30:00.0");
    Device device = -1;
    EXPECT_EQ(cuda.cuDeviceGetByPCIBusId(&device, "0000:30:00.0"), kSuccess);
    EXPECT_EQ(device, 1);
    EXPECT_EQ(cuda.cuDeviceGetByPCIBusId(&device, "0000:31:00.0"), kInvalidDevice);
    EXPECT_EQ(cuda.cuDeviceGet(&device, 3), kInvalidDevice);
    std::size_t bytes = 0;
    EXPECT_EQ(cuda.cuDeviceTotalMem_v2(&bytes, 1), kSuccess);
    EXPECT_EQ(bytes, (81920 - 617) * kMiB);
  });
}

TEST_F(DeviceTest, TellsAttributesOfTheProductAndOfTheSimulation) {
  use("h100x8");
  run([](const Library& cuda) {
    ASSERT_EQ(cuda.cuInit(0), kSuccess);
    EXPECT_EQ(attribute(cuda, kMultiprocessorCount), 132);
    EXPECT_EQ(attribute(cuda, kCapabilityMajor), 9);
    EXPECT_EQ(attribute(cuda, kCapabilityMinor), 0);
    EXPECT_EQ(attribute(cuda, kVirtualMemorySupported), 1);
    EXPECT_EQ(attribute(cuda, kMemoryPoolsSupported), 1);
    EXPECT_EQ(attribute(cuda, kUnifiedAddressing), 1);
    EXPECT_EQ(attribute(cuda, kManagedMemory), 0) << "managed memory is not simulated";
    int value = 0;
    EXPECT_EQ(cuda.cuDeviceGetAttribute(&value, 0, 0), kInvalidValue);
    EXPECT_EQ(cuda.cuDeviceGetAttribute(&value, 100000, 0), kInvalidValue);
    DeviceProperties properties{};
    EXPECT_EQ(cuda.cuDeviceGetProperties(&properties, 0), kSuccess);
    EXPECT_EQ(properties.threads_per_block, 1024);
    EXPECT_EQ(properties.warp_size, 32);
    EXPECT_EQ(properties.texture_alignment, 512);
  });
}

TEST_F(DeviceTest, SeesOneMigInstance) {
  use("gpus:\n  - {model: NVIDIA A100-SXM4-40GB, mig: {enabled: true, instances: [3g.20gb, {profile: 1g.5gb, uuid: "
      "MIG-12345678-0000-0000-0000-000000000001}]}}\n");
  sees(nullptr, ElementsAre("NVIDIA A100-SXM4-40GB MIG 3g.20gb"));
  sees("MIG-12345678-0000-0000-0000-000000000001", ElementsAre(HasSubstr("1g.5gb")));
  run([](const Library& cuda) {
    ASSERT_EQ(cuda.cuInit(0), kSuccess);
    std::size_t bytes = 0;
    EXPECT_EQ(cuda.cuDeviceTotalMem_v2(&bytes, 0), kSuccess);
    EXPECT_EQ(bytes, 4864 * kMiB);
    EXPECT_EQ(attribute(cuda, kMultiprocessorCount), 14);
    EXPECT_EQ(uuid(cuda, 0), "12345678000000000000000000000001");
  });
}

TEST_F(DeviceTest, ReachesPeersOverNvlink) {
  use("nvlink: direct\ngpus: [{model: NVIDIA A100-SXM4-80GB, count: 2}, {model: NVIDIA GeForce RTX 4090}]\n");
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  run([](const Library& cuda) {
    const Context second = cuda.start(1);
    const Context third = cuda.start(2);
    cuda.start(0);
    int can = -1;
    EXPECT_EQ(cuda.cuDeviceCanAccessPeer(&can, 0, 1), kSuccess);
    EXPECT_EQ(can, 1);
    EXPECT_EQ(cuda.cuDeviceCanAccessPeer(&can, 0, 2), kSuccess);
    EXPECT_EQ(can, 0);
    int rank = -1;
    EXPECT_EQ(cuda.cuDeviceGetP2PAttribute(&rank, kP2pNativeAtomicSupported, 0, 1), kSuccess);
    EXPECT_EQ(rank, 1);
    EXPECT_EQ(cuda.cuCtxEnablePeerAccess(second, 0), kSuccess);
    EXPECT_EQ(cuda.cuCtxEnablePeerAccess(second, 0), kPeerAccessAlreadyEnabled);
    EXPECT_EQ(cuda.cuCtxEnablePeerAccess(third, 0), kPeerAccessUnsupported);
    EXPECT_EQ(cuda.cuCtxDisablePeerAccess(second), kSuccess);
    EXPECT_EQ(cuda.cuCtxDisablePeerAccess(second), kPeerAccessNotEnabled);
  });
}

}  // namespace
}  // namespace gpuwarden::cuda
