// SPDX-License-Identifier: Apache-2.0
// The library itself: what it exports, how it is initialised, and what it says of what it does not do.
#include "sim_cuda/program.hpp"
#include "support/patience.hpp"

namespace gpuwarden::cuda {
namespace {

using ::testing::StrEq;

class LibraryTest : public Programs {};

TEST_F(LibraryTest, FailsBeforeInitialisation) {
  run([](const Library& cuda) {
    int count = 0;
    EXPECT_EQ(cuda.cuDeviceGetCount(&count), kNotInitialized);
    EXPECT_EQ(cuda.allocate(1), 0U);
    EXPECT_EQ(cuda.cuInit(1), kInvalidValue);
    EXPECT_EQ(cuda.cuInit(0), kSuccess);
    EXPECT_EQ(cuda.cuInit(0), kSuccess) << "again is no error";
    EXPECT_EQ(cuda.cuDeviceGetCount(&count), kSuccess);
    EXPECT_EQ(count, 2);
  });
}

TEST_F(LibraryTest, TellsTheFleetsCudaVersionEvenBeforeInitialisation) {
  use("cuda: \"12.2\"\ngpus: [{model: Tesla T4}]\n");
  run([](const Library& cuda) {
    int version = 0;
    EXPECT_EQ(cuda.cuDriverGetVersion(&version), kSuccess);
    EXPECT_EQ(version, 12020);
  });
}

TEST_F(LibraryTest, NamesErrorsAsCudaDoes) {
  run([](const Library& cuda) {
    const char* text = nullptr;
    EXPECT_EQ(cuda.cuGetErrorName(kOutOfMemory, &text), kSuccess);
    EXPECT_THAT(text, StrEq("CUDA_ERROR_OUT_OF_MEMORY"));
    EXPECT_EQ(cuda.cuGetErrorString(kOutOfMemory, &text), kSuccess);
    EXPECT_THAT(text, StrEq("out of memory"));
    EXPECT_EQ(cuda.cuGetErrorName(12345, &text), kInvalidValue);
    EXPECT_EQ(text, nullptr);
  });
}

TEST_F(LibraryTest, AnswersThatWhatIsNotSimulatedIsNotSupported) {
  run([](const Library& cuda) {
    cuda.start();
#define GPUWARDEN_CUDA_UNSUPPORTED(symbol, since)           \
  {                                                         \
    const auto function = cuda.find<Result (*)()>(#symbol); \
    ASSERT_NE(function, nullptr) << #symbol;                \
    EXPECT_EQ(function(), kNotSupported) << #symbol;        \
  }
#include "nvidia/cuda_unsupported.inc"
#undef GPUWARDEN_CUDA_UNSUPPORTED
    EXPECT_EQ(cuda.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), kNotSupported);
    Module module = nullptr;
    EXPECT_EQ(cuda.cuModuleLoadDataEx(&module, "", 0, nullptr, nullptr), kNotSupported);
  });
}

/// One row of the tables of functions.
struct Row {
  const char* symbol;
  int since;
};
constexpr auto kRows = std::to_array<Row>({
#define GPUWARDEN_CUDA_FUNCTION(symbol, since, parameters) {#symbol, since},
#include "nvidia/cuda_functions.inc"
#undef GPUWARDEN_CUDA_FUNCTION
#define GPUWARDEN_CUDA_PER_THREAD(symbol, suffix, since, parameters, arguments) {#symbol "_" #suffix, since},
#include "nvidia/cuda_per_thread.inc"
#undef GPUWARDEN_CUDA_PER_THREAD
#define GPUWARDEN_CUDA_UNSUPPORTED(symbol, since) {#symbol, since},
#include "nvidia/cuda_unsupported.inc"
#undef GPUWARDEN_CUDA_UNSUPPORTED
});

class ProfileTest : public LibraryTest, public ::testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(ProfileTest, ExportsWhatItsCudaHadAndNothingElse) {
  const auto [profile, version] = GetParam();
  run(
      [version](const Library& cuda) {
        for (const Row& row : kRows)
          EXPECT_EQ(cuda.find<void*>(row.symbol) != nullptr, row.since <= version) << row.symbol;
      },
      profile);
}

INSTANTIATE_TEST_SUITE_P(Drivers, ProfileTest,
                         ::testing::Values(std::pair(418, 10010), std::pair(450, 11000), std::pair(470, 11040),
                                           std::pair(535, 12020), std::pair(550, 12040), std::pair(580, 13000)));

TEST_F(LibraryTest, GivesEntryPointsByVersionAndDefaultStream) {
  use("cuda: \"12.4\"\ngpus: [{model: Tesla T4}]\n");
  run([](const Library& cuda) {
    const auto entry = [&](const char* name, int version, std::uint64_t flags, int expected) {
      void* function = nullptr;
      int status = -1;
      EXPECT_EQ(cuda.cuGetProcAddress_v2(name, &function, version, flags, &status), kSuccess) << name;
      EXPECT_EQ(status, expected) << name;
      return function;
    };
    EXPECT_EQ(entry("cuMemAlloc", 12040, 0, kProcFound), cuda.find<void*>("cuMemAlloc_v2"));
    EXPECT_EQ(entry("cuMemAlloc", 2000, 0, kProcFound), cuda.find<void*>("cuMemAlloc"));
    EXPECT_EQ(entry("cuMemcpyHtoD", 12040, kProcPerThreadStream, kProcFound), cuda.find<void*>("cuMemcpyHtoD_v2_ptds"));
    EXPECT_EQ(entry("cuStreamSynchronize", 12040, kProcPerThreadStream, kProcFound),
              cuda.find<void*>("cuStreamSynchronize_ptsz"));
    EXPECT_EQ(entry("cuMemFree", 12040, kProcPerThreadStream, kProcFound), cuda.find<void*>("cuMemFree_v2"))
        << "a function without a stream has one form";
    EXPECT_EQ(entry("cuMemAllocAsync", 11010, 0, kProcVersionNotSufficient), nullptr);
    EXPECT_EQ(entry("cuNoSuchThing", 12040, 0, kProcSymbolNotFound), nullptr);
    void* function = nullptr;
    EXPECT_EQ(cuda.cuGetProcAddress("cuNoSuchThing", &function, 12040, 0), kNotFound);
    EXPECT_EQ(cuda.cuGetProcAddress("cuInit", &function, 12040, 0), kSuccess);
  });
}

TEST_F(LibraryTest, DoesNotSurviveAFork) {
  run([](const Library& cuda) {
    cuda.start();
    Child child([&] { return cuda.allocate(1) == 0 && cuda.cuInit(0) == kNotInitialized ? 0 : 1; });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_NE(cuda.allocate(1), 0U) << "the parent goes on";
  });
}

TEST_F(LibraryTest, ClearsTheFleetAwayWhenTheProcessEnds) {
  const Child child([&]() -> int {
    {
      const Library cuda(580);
      cuda.start();
      cuda.allocate(kPage);
    }
    std::exit(0);
  });
  EXPECT_TRUE(
      testing::eventually(testing::kSoon, [&] { return !child.still_runs_after(std::chrono::milliseconds(1)); }));
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder() / "sim"))
    folders += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(folders, 0);
}

}  // namespace
}  // namespace gpuwarden::cuda
