// SPDX-License-Identifier: Apache-2.0
// What goes wrong on purpose: single errors, broken contexts, GPUs in trouble.
#include <thread>

#include "sim_cuda/program.hpp"

namespace gpuwarden::cuda {
namespace {

class FaultTest : public Programs {};

Result allocation(const Library& cuda) {
  DevicePointer pointer = 0;
  return cuda.cuMemAlloc_v2(&pointer, kMiB);
}

void inject(const Library& cuda, const std::string& fault) {
  const Json reply = cuda.call({{"op", "fault"}, {"gpu", 0}, {"fault", fault}});
  EXPECT_FALSE(reply.contains("error")) << reply.dump();
}

TEST_F(FaultTest, TheNthCallOfAFunctionFails) {
  run([](const Library& cuda) {
    cuda.start();
    cuda.call({{"op", "cuda_fail"}, {"function", "cuMemCreate"}, {"code", kOutOfMemory}, {"after", 2}, {"times", 2}});
    std::vector<bool> worked;
    for (int i = 0; i < 5; ++i) worked.push_back(cuda.create(kPage) != 0);
    EXPECT_EQ(worked, (std::vector<bool>{true, true, false, false, true}));
    EXPECT_EQ(allocation(cuda), kSuccess) << "other functions are not concerned";
    cuda.call({{"op", "cuda_fail"}, {"function", "*"}, {"code", kUnknown}, {"times", -1}});
    EXPECT_EQ(allocation(cuda), kUnknown);
    EXPECT_EQ(cuda.cuCtxSynchronize(), kUnknown);
    cuda.call({{"op", "cuda_clear"}});
    EXPECT_EQ(allocation(cuda), kSuccess);
    EXPECT_TRUE(cuda.call({{"op", "cuda_fail"}, {"code", 0}}).contains("error"));
  });
}

TEST_F(FaultTest, AStickyErrorBreaksTheContextUntilItIsReset) {
  run([](const Library& cuda) {
    cuda.start();
    Stream stream = cuda.stream();
    cuda.call({{"op", "cuda_fail"}, {"function", "cuStreamSynchronize"}, {"code", kIllegalAddress}, {"sticky", true}});
    EXPECT_EQ(allocation(cuda), kSuccess);
    EXPECT_EQ(cuda.cuStreamSynchronize(stream), kIllegalAddress);
    EXPECT_EQ(allocation(cuda), kIllegalAddress);
    EXPECT_EQ(cuda.cuCtxSynchronize(), kIllegalAddress);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxReset_v2(0), kSuccess);
    cuda.start();
    EXPECT_EQ(allocation(cuda), kSuccess);
  });
}

TEST_F(FaultTest, OfTheFleetStrikesOnce) {
  run([](const Library& cuda) {
    cuda.start();
    EXPECT_EQ(allocation(cuda), kSuccess);
    inject(cuda, "cuda_error=700");
    EXPECT_EQ(allocation(cuda), kIllegalAddress);
    EXPECT_EQ(allocation(cuda), kSuccess);
    inject(cuda, "cuda_out_of_memory=2");
    EXPECT_EQ(cuda.cuCtxSynchronize(), kSuccess);
    EXPECT_EQ(allocation(cuda), kOutOfMemory);
    EXPECT_EQ(cuda.create(kPage), 0U);
    EXPECT_EQ(allocation(cuda), kSuccess);
    cuda.start(1);
    inject(cuda, "cuda_out_of_memory=1");
    EXPECT_EQ(allocation(cuda), kSuccess) << "another GPU";
  });
}

struct Broken {
  const char* fault;
  Result code;
};

class BreakingFault : public FaultTest, public ::testing::WithParamInterface<Broken> {};

TEST_P(BreakingFault, BreaksTheContextsThatAreThere) {
  run([](const Library& cuda) {
    cuda.start();
    inject(cuda, GetParam().fault);
    EXPECT_EQ(allocation(cuda), GetParam().code);
    EXPECT_EQ(cuda.cuCtxSynchronize(), GetParam().code) << "and again";
    cuda.start(1);
    EXPECT_EQ(allocation(cuda), kSuccess) << "another GPU's go on";
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, BreakingFault,
                         ::testing::Values(Broken{"cuda_corrupt=719", kLaunchFailed}, Broken{"xid=31", kIllegalAddress},
                                           Broken{"xid=13", kLaunchFailed}, Broken{"xid=48", kEccUncorrectable},
                                           Broken{"ecc_uncorrected=1", kEccUncorrectable}, Broken{"xid=79", kUnknown},
                                           Broken{"reset_required", kUnknown}, Broken{"unknown_error", kUnknown}));

TEST_F(FaultTest, AContextMadeAfterwardsIsWhole) {
  run([](const Library& cuda) {
    cuda.start();
    inject(cuda, "cuda_corrupt=700");
    EXPECT_EQ(allocation(cuda), kIllegalAddress);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxReset_v2(0), kSuccess);
    cuda.start();
    EXPECT_EQ(allocation(cuda), kSuccess);
  });
}

TEST_F(FaultTest, StrikesOtherProcessesToo) {
  const Signal started;
  const Signal injected;
  const auto other = begin([&](const Library& cuda) {
    cuda.start();
    started.send();
    injected.wait();
    EXPECT_EQ(allocation(cuda), kLaunchFailed);
  });
  started.wait();
  run([](const Library& cuda) {
    cuda.start();
    inject(cuda, "cuda_corrupt=719");
  });
  injected.send();
  EXPECT_EQ(other->wait(), 0);
}

TEST_F(FaultTest, WithoutADriverThereIsNoDevice) {
  use("faults: [driver_not_loaded]\ngpus: [{model: Tesla T4}]\n");
  run([](const Library& cuda) { EXPECT_EQ(cuda.cuInit(0), kNoDevice); });
  use("faults: [mismatch]\ngpus: [{model: Tesla T4}]\n");
  run([](const Library& cuda) { EXPECT_EQ(cuda.cuInit(0), kSystemDriverMismatch); });
  use("gpus: [{model: Tesla T4, faults: [lost]}, {model: Tesla T4}]\n");
  run([](const Library& cuda) {
    int count = 0;
    EXPECT_EQ(cuda.cuInit(0), kSuccess);
    EXPECT_EQ(cuda.cuDeviceGetCount(&count), kSuccess);
    EXPECT_EQ(count, 1) << "a lost GPU is not enumerated";
  });
}

TEST_F(FaultTest, AHangingGpuHangsItsCallers) {
  use("gpus: [{model: Tesla T4}]\n");
  const Signal started;
  const auto program = begin([&](const Library& cuda) {
    cuda.start();
    inject(cuda, "hang");
    started.send();
    allocation(cuda);
  });
  started.wait();
  EXPECT_TRUE(program->still_runs_after(std::chrono::milliseconds(200)));
}

TEST_F(FaultTest, ThreadsMayCallAtOnce) {
  run([](const Library& cuda) {
    const Context context = cuda.start();
    const std::uint64_t before = cuda.free_memory();
    {
      std::array<std::jthread, 4> threads;
      for (std::jthread& thread : threads) {
        thread = std::jthread([&] {
          EXPECT_EQ(cuda.cuCtxSetCurrent(context), kSuccess);
          Stream stream = cuda.stream();
          for (int i = 0; i < 200; ++i) {
            DevicePointer pointer = 0;
            EXPECT_EQ(cuda.cuMemAllocAsync(&pointer, 1000U + static_cast<std::size_t>(i) * 4096, stream), kSuccess);
            EXPECT_EQ(cuda.cuMemsetD8Async(pointer, 1, 1000, stream), kSuccess);
            EXPECT_EQ(cuda.cuMemFreeAsync(pointer, stream), kSuccess);
            if (i % 20 == 0) cuda.cuStreamSynchronize(stream);
          }
        });
      }
    }
    EXPECT_EQ(cuda.cuCtxSynchronize(), kSuccess);
    EXPECT_EQ(cuda.free_memory(), before);
  });
}

}  // namespace
}  // namespace gpuwarden::cuda
