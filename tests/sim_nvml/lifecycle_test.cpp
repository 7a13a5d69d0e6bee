// SPDX-License-Identifier: Apache-2.0
// Initialisation, arguments, struct versions: the manners of the real library.
#include <set>

#include "sim_nvml/child.hpp"
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace std::chrono_literals;

class Lifecycle : public Simulated {};

TEST_F(Lifecycle, BeforeInitOnlyTheLibraryTellsItsVersion) {
  const Nvml& nvml = open(550, "h100x8");
  std::array<char, 80> buffer{};
  unsigned count = 0;
  Device device = nullptr;
  EXPECT_EQ(nvml.nvmlSystemGetNVMLVersion(buffer.data(), buffer.size()), kSuccess);
  EXPECT_STREQ(buffer.data(), "12.550.54.15");
  EXPECT_EQ(nvml.nvmlSystemGetDriverVersion(buffer.data(), buffer.size()), kUninitialized);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kUninitialized);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), kUninitialized);
  EXPECT_EQ(nvml.nvmlShutdown(), kUninitialized);
}

TEST_F(Lifecycle, EachInitIsUndoneByAShutdownOfItsOwn) {
  const Nvml& nvml = start("h100x8");
  unsigned count = 0;
  EXPECT_EQ(nvml.nvmlInit_v2(), kSuccess);
  EXPECT_EQ(nvml.nvmlShutdown(), kSuccess);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kSuccess);
  EXPECT_EQ(nvml.nvmlShutdown(), kSuccess);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kUninitialized);
  EXPECT_EQ(nvml.nvmlShutdown(), kUninitialized);
  EXPECT_EQ(nvml.nvmlInit_v2(), kSuccess);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kSuccess);
}

TEST_F(Lifecycle, AMismatchFailsInitButTellsTheLibrarysVersion) {
  const Nvml& nvml = open(550, "clock: {frozen: true}\nfaults: [mismatch]\ngpus: [{model: Tesla T4}]\n");
  unsigned count = 0;
  std::array<char, 80> buffer{};
  EXPECT_EQ(nvml.nvmlInit_v2(), kLibRmVersionMismatch);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kUninitialized);
  EXPECT_EQ(nvml.nvmlSystemGetNVMLVersion(buffer.data(), buffer.size()), kSuccess);
  EXPECT_EQ(nvml.call({{"op", "clear_faults"}}), Json::object());
  EXPECT_EQ(nvml.nvmlInit_v2(), kSuccess);
}

TEST_F(Lifecycle, WithoutADriverInitSaysSo) {
  const Nvml& nvml = open(550, "faults: [driver_not_loaded]\ngpus: [{model: Tesla T4}]\n");
  unsigned count = 0;
  EXPECT_EQ(nvml.nvmlInit_v2(), kDriverNotLoaded);
  EXPECT_EQ(nvml.nvmlInitWithFlags(kInitFlagNoGpus), kDriverNotLoaded);
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kUninitialized);
}

TEST_F(Lifecycle, AnInitThatHangsHangsUntilItIsKilled) {
  const Nvml& nvml = open(550, "faults: [hang_init]\ngpus: [{model: Tesla T4}]\n");
  Child child([&] { return nvml.nvmlInit_v2(); });
  EXPECT_TRUE(child.still_runs_after(150ms));
  child.kill();
  EXPECT_EQ(child.wait(), -SIGKILL);
}

TEST_F(Lifecycle, AFleetWithoutGpusIsAnAnswerAndNoError) {
  const Nvml& nvml = start("none");
  unsigned count = 7;
  Device device = nullptr;
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kSuccess);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), kInvalidArgument);
}

TEST_F(Lifecycle, SixtyFourGpusHaveHandlesOfTheirOwn) {
  const Nvml& nvml = start("clock: {frozen: true}\ngpus: [{model: NVIDIA H100 80GB HBM3, count: 64}]\n");
  std::set<Device> handles;
  std::set<std::string> uuids;
  std::set<std::string> buses;
  for (unsigned i = 0; i < 64; ++i) {
    handles.insert(nvml.gpu(i));
    uuids.insert(text<&Functions::nvmlDeviceGetUUID>(nvml, nvml.gpu(i)));
    PciInfo info{};
    EXPECT_EQ(nvml.nvmlDeviceGetPciInfo_v3(nvml.gpu(i), &info), kSuccess);
    buses.insert(info.bus_id);
  }
  EXPECT_EQ(handles.size(), 64U);
  EXPECT_EQ(uuids.size(), 64U);
  EXPECT_EQ(buses.size(), 64U);
}

TEST_F(Lifecycle, HandlesThatNobodyGaveAreRefused) {
  const Nvml& nvml = start("rtx4090x2");
  unsigned value = 0;
  const auto beyond = reinterpret_cast<std::uintptr_t>(nvml.gpu(1)) * 2 - reinterpret_cast<std::uintptr_t>(nvml.gpu(0));
  for (const std::uintptr_t number : {std::uintptr_t{0}, std::uintptr_t{0x1234}, ~std::uintptr_t{0}, beyond}) {
    Device device = reinterpret_cast<Device>(number);
    EXPECT_EQ(nvml.nvmlDeviceGetTemperature(device, kTemperatureGpu, &value), kInvalidArgument) << number;
    EXPECT_EQ(nvml.nvmlDeviceGetIndex(device, &value), kInvalidArgument) << number;
  }
}

TEST_F(Lifecycle, NullPointersAreRefused) {
  const Nvml& nvml = start("rtx4090x2");
  Device gpu = nvml.gpu(0);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUID(nullptr, &gpu), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetName(gpu, nullptr, 96), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo(gpu, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(gpu, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetUtilizationRates(gpu, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetTemperature(gpu, kTemperatureGpu, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetPowerUsage(gpu, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetPciInfo_v3(gpu, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu, nullptr, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetFieldValues(gpu, 1, nullptr), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlEventSetCreate(nullptr), kInvalidArgument);
}

TEST_F(Lifecycle, ATextThatDoesNotFitIsNotCutShort) {
  const Nvml& nvml = start("t4x1");  // "Tesla T4": 8 characters and a zero
  std::array<char, 9> buffer{};
  buffer.fill('?');
  EXPECT_EQ(nvml.nvmlDeviceGetName(nvml.gpu(0), buffer.data(), 8), kInsufficientSize);
  EXPECT_EQ(std::string(buffer.data(), buffer.size()), "?????????");
  EXPECT_EQ(nvml.nvmlDeviceGetName(nvml.gpu(0), buffer.data(), 9), kSuccess);
  EXPECT_STREQ(buffer.data(), "Tesla T4");
}

TEST_F(Lifecycle, NumbersOfEnumerationsThatDoNotExistAreRefused) {
  const Nvml& nvml = start("t4x1");
  Device gpu = nvml.gpu(0);
  unsigned value = 0;
  unsigned long long wide = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetTemperature(gpu, 1, &value), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetTemperatureThreshold(gpu, 99, &value), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetClockInfo(gpu, 4, &value), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetPcieThroughput(gpu, 2, &value), kInvalidArgument);
  EXPECT_EQ(nvml.nvmlDeviceGetTotalEccErrors(gpu, 2, kEccVolatile, &wide), kInvalidArgument);
}

TEST_F(Lifecycle, StructsWithAnotherVersionWordAreRefused) {
  const Nvml& nvml = start("h100x8");
  Device gpu = nvml.gpu(0);
  for (const unsigned version : {0U, 1U, 2U, 0x01000028U, 0x02000020U}) {
    MemoryV2 memory{.version = version};
    EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(gpu, &memory), kArgumentVersionMismatch) << version;
    TemperatureV1 temperature{.version = version, .sensor = kTemperatureGpu};
    EXPECT_EQ(nvml.nvmlDeviceGetTemperatureV(gpu, &temperature), kArgumentVersionMismatch) << version;
    ProcessDetailList list{.version = version};
    EXPECT_EQ(nvml.nvmlDeviceGetRunningProcessDetailList(gpu, &list), kArgumentVersionMismatch) << version;
  }
  MemoryV2 memory{.version = 0x02000028};
  EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(gpu, &memory), kSuccess);
  EXPECT_EQ(memory.version, 0x02000028U);
  EXPECT_EQ(memory.total, memory.used + memory.free + memory.reserved);
}

TEST_F(Lifecycle, EveryErrorHasWordsOfItsOwn) {
  const Nvml& nvml = open(580, "none");
  std::set<std::string> words;
  const std::array codes{kSuccess,       kUninitialized, kInvalidArgument,      kNotSupported,           kNoPermission,
                         kNotFound,      kTimeout,       kInsufficientSize,     kDriverNotLoaded,        kGpuIsLost,
                         kResetRequired, kUnknown,       kLibRmVersionMismatch, kArgumentVersionMismatch};
  for (const Return code : codes) words.insert(nvml.nvmlErrorString(code));
  EXPECT_EQ(words.size(), codes.size());
  EXPECT_STREQ(nvml.nvmlErrorString(12345), nvml.nvmlErrorString(kUnknown));
}

}  // namespace
}  // namespace gpuwarden::nvml
