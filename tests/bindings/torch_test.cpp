// SPDX-License-Identifier: Apache-2.0
// The PyTorch allocator, driven as CUDAPluggableAllocator drives it: found by name, called with the stream, the device
// and the size that it has noted itself, the optional functions set as hooks.
#include <cmath>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memory.h"
#include "gpuwarden/pools/published_pool.hpp"
#include "sim_cuda/program.hpp"
#include "sim_nvml/client.hpp"
#include "support/patience.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden {
namespace {

using cuda::Library;
using cuda::Stream;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using GroupId = std::pair<unsigned long long, unsigned long long>;

/// The library's functions, with the signatures of PyTorch's hooks.
struct Functions {
  void* (*malloc)(ssize_t, int, Stream) = nullptr;
  void (*free)(void*, ssize_t, int, Stream) = nullptr;
  void (*init)(int) = nullptr;
  void (*reset)() = nullptr;
  void (*memory_fraction)(double, int) = nullptr;
  void* (*base_alloc)(void*, size_t*) = nullptr;
  void (*record_stream)(void*, Stream) = nullptr;
  void (*begin_allocate_to_pool)(int, GroupId, std::function<bool(Stream)>) = nullptr;
  void (*end_allocate_to_pool)(int, GroupId) = nullptr;
  void (*release_pool)(int, GroupId) = nullptr;
  int (*memory_status)(int, gpuwarden_pool_status*) = nullptr;
};

class Torch : public Functions {
 public:
  Torch() : handle_(::dlopen(GPUWARDEN_TORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    find("malloc", malloc);
    find("free", free);
    find("init", init);
    find("reset", reset);
    find("memory_fraction", memory_fraction);
    find("base_alloc", base_alloc);
    find("record_stream", record_stream);
    find("begin_allocate_to_pool", begin_allocate_to_pool);
    find("end_allocate_to_pool", end_allocate_to_pool);
    find("release_pool", release_pool);
    find("memory_status", memory_status);
    init(2);
  }

  /// As CUDAPluggableAllocator::malloc and raw_delete.
  void* raw_alloc(std::size_t size, int device, Stream stream) {
    void* const pointer = malloc(static_cast<ssize_t>(size), device, stream);
    const std::lock_guard lock(mutex_);
    metadata_.emplace(pointer, Metadata{size, device, stream});
    return pointer;
  }
  void raw_delete(void* pointer) {
    Metadata found;
    {
      const std::lock_guard lock(mutex_);
      found = metadata_.at(pointer);
      metadata_.erase(pointer);
    }
    free(pointer, static_cast<ssize_t>(found.size), found.device, found.stream);
  }
  gpuwarden_pool_status status(int device = 0) const {
    gpuwarden_pool_status status = GPUWARDEN_POOL_STATUS_INIT;
    EXPECT_EQ(memory_status(device, &status), 1);
    return status;
  }

 private:
  struct Metadata {
    std::size_t size = 0;
    int device = 0;
    Stream stream = nullptr;
  };
  template <class F>
  void find(const std::string& name, F& function) {
    function = reinterpret_cast<F>(::dlsym(handle_, ("gpuwarden_" + name).c_str()));
    EXPECT_NE(function, nullptr) << name;
  }

  void* handle_;
  std::mutex mutex_;
  std::unordered_map<void*, Metadata> metadata_;
};

class TorchTest : public cuda::Programs {
 protected:
  TorchTest() {
    for (const char* name : {"GPUWARDEN_MEMORY_STRATEGY", "GPUWARDEN_GPU_MEM_LIMIT", "GPUWARDEN_MEMORY_TRACE",
                             "GPUWARDEN_MEMORY_ON_FAILURE", "GPUWARDEN_MEMORY_WAIT", "GPUWARDEN_MEMORY_STATUS",
                             "GPUWARDEN_MEMORY_SNAPSHOT", "GPUWARDEN_MEMORY_TRIM"})
      ::unsetenv(name);
  }
  /// A program with the allocator, and what it wrote on stderr.
  std::string run_torch(const std::function<void(const Library&, Torch&)>& body) {
    const auto errors = folder() / "stderr";
    run([&](const Library& cuda) {
      EXPECT_NE(std::freopen(errors.c_str(), "w", stderr), nullptr);
      Torch torch;
      body(cuda, torch);
    });
    return read_file(errors).value_or("no such file");
  }
};

TEST_F(TorchTest, GivesOutMemoryInThePrimaryContext) {
  const auto said = run_torch([](const Library& cuda, Torch& torch) {
    auto* const pointer = static_cast<unsigned char*>(torch.raw_alloc(5'000'000, 0, nullptr));
    ASSERT_NE(pointer, nullptr);
    std::memset(pointer, 3, 5'000'000);
    EXPECT_EQ(torch.raw_alloc(0, 0, nullptr), nullptr);
    std::size_t size = 0;
    EXPECT_EQ(torch.base_alloc(pointer, &size), pointer);
    EXPECT_EQ(size, 5'000'000U);
    unsigned flags = 0;
    int active = 0;
    EXPECT_EQ(cuda.cuDevicePrimaryCtxGetState(0, &flags, &active), cuda::kSuccess);
    EXPECT_EQ(active, 1);
    void* const other = torch.raw_alloc(1000, 1, nullptr);
    EXPECT_NE(other, nullptr) << "the second device has a pool of its own";
    torch.raw_delete(other);
    torch.raw_delete(pointer);
    EXPECT_EQ(torch.status().live, 0U);
    EXPECT_GT(torch.status().reserved, 0U);
    torch.reset();
    EXPECT_EQ(torch.status().reserved, 0U);
    EXPECT_EQ(torch.status(1).reserved, 0U);
  });
  EXPECT_THAT(said, IsEmpty());
}

TEST_F(TorchTest, ServesThreadsThatPassTensorsOn) {
  const auto said = run_torch([](const Library& cuda, Torch& torch) {
    cuda.start();
    std::vector<Stream> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(cuda.stream(cuda::kStreamNonBlocking));
    const auto work = [&](unsigned number) {
      std::mt19937 random(number);
      std::vector<void*> kept;
      for (int i = 0; i < 300; ++i) {
        void* const pointer = torch.raw_alloc(1 + random() % 4'000'000, 0, streams[number]);
        ASSERT_NE(pointer, nullptr);
        *static_cast<unsigned char*>(pointer) = 1;
        // Tensors that other streams use, as those of data loaders and of gradients are.
        if (i % 5 == 0) torch.record_stream(pointer, streams[(number + 1) % 3]);
        if (i % 11 == 0) torch.record_stream(pointer, streams[(number + 2) % 3]);
        kept.push_back(pointer);
        if (kept.size() < 20) continue;
        std::swap(kept[random() % 20], kept.back());
        torch.raw_delete(kept.back());
        kept.pop_back();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < 3; ++i) threads.emplace_back(work, i);
    }
    EXPECT_EQ(torch.status().frees, 3U * 281);
    EXPECT_EQ(torch.status().live_blocks, 57U);
  });
  EXPECT_THAT(said, IsEmpty());
}

TEST_F(TorchTest, ARecordedStreamsWorkIsWaitedFor) {
  run_torch([](const Library& cuda, Torch& torch) {
    cuda.start();
    const Stream own = cuda.stream(cuda::kStreamNonBlocking);
    const Stream user = cuda.stream(cuda::kStreamNonBlocking);
    cuda.stop_clock();
    void* const plain = torch.raw_alloc(3'000'000, 0, own);
    torch.raw_delete(plain);
    EXPECT_EQ(torch.raw_alloc(3'000'000, 0, own), plain) << "on its own stream it is used again at once";
    torch.record_stream(plain, user);
    cuda.work(user, 1000);
    torch.raw_delete(plain);
    // Other memory, or the same one behind the work of the other stream.
    if (torch.raw_alloc(3'000'000, 0, own) == plain) {
      EXPECT_EQ(cuda.cuStreamQuery(own), cuda::kNotReady);
    }
    cuda.advance(2000);
    EXPECT_EQ(cuda.cuStreamQuery(own), cuda::kSuccess);
    torch.reset();
    EXPECT_EQ(torch.status().live_blocks, 1U);
  });
}

TEST_F(TorchTest, SaysThatMemoryIsOutAndWhoHoldsIt) {
  const cuda::Signal taken;
  const auto holder = begin([&](const Library& cuda) {
    cuda.start();
    EXPECT_NE(cuda.allocate(10'000 * cuda::kMiB), 0U);
    taken.send();
    ::pause();
  });
  taken.wait();
  const auto said = run_torch([](const Library&, Torch& torch) {
    const nvml::Nvml nvml(580);  // so that it is the one found
    EXPECT_EQ(torch.raw_alloc(std::size_t{6} << 30U, 0, nullptr), nullptr);
    EXPECT_NE(torch.raw_alloc(std::size_t{4} << 30U, 0, nullptr), nullptr) << "it stays usable";
  });
  EXPECT_THAT(said, AllOf(StartsWith("gpuwarden: "), HasSubstr("memory"),
                          HasSubstr("process " + std::to_string(holder->pid())), HasSubstr("10000.0 MiB")));
}

TEST_F(TorchTest, ThrowsWhereToldTo) {
  ::setenv("GPUWARDEN_MEMORY_ON_FAILURE", "throw", 1);
  const auto said = run_torch([](const Library&, Torch& torch) {
    try {
      torch.malloc(ssize_t{20} << 30U, 0, nullptr);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), StartsWith("CUDA out of memory"));
    }
    EXPECT_NE(torch.malloc(1000, 0, nullptr), nullptr);
  });
  EXPECT_THAT(said, IsEmpty());
}

TEST_F(TorchTest, MindsTheLimitAndTheStrategyOfTheEnvironment) {
  ::setenv("GPUWARDEN_GPU_MEM_LIMIT", "50%", 1);
  ::setenv("GPUWARDEN_MEMORY_STRATEGY", "consolidated", 1);
  const auto said = run_torch([](const Library&, Torch& torch) {
    EXPECT_EQ(torch.raw_alloc(std::size_t{8} << 30U, 0, nullptr), nullptr);
    EXPECT_NE(torch.raw_alloc(std::size_t{7} << 30U, 0, nullptr), nullptr);
    EXPECT_NEAR(static_cast<double>(torch.status().limit), 0.5 * (15360 - 272) * cuda::kMiB, 4.0 * cuda::kMiB);
  });
  EXPECT_THAT(said, HasSubstr("limit"));
}

TEST_F(TorchTest, GivesIdleMemoryBackInTheBackgroundWhereToldTo) {
  ::setenv("GPUWARDEN_MEMORY_TRIM", "100ms", 1);
  run_torch([](const Library&, Torch& torch) {
    void* const address = torch.raw_alloc(std::size_t{1} << 30U, 0, nullptr);
    ASSERT_NE(address, nullptr);
    torch.raw_delete(address);
    EXPECT_TRUE(gpuwarden::testing::eventually(gpuwarden::testing::kSoon,
                                               [&] { return torch.status().reserved < (std::uint64_t{64} << 20U); }));
  });
}

TEST_F(TorchTest, RefusesSettingsThatMakeNoSense) {
  for (const auto& [name, value] :
       {std::pair("GPUWARDEN_GPU_MEM_LIMIT", "lots"), std::pair("GPUWARDEN_MEMORY_STRATEGY", "reckless"),
        std::pair("GPUWARDEN_MEMORY_ON_FAILURE", "shrug"), std::pair("GPUWARDEN_MEMORY_STATUS", "-1s"),
        std::pair("GPUWARDEN_MEMORY_TRACE", "/nowhere/trace.csv")}) {
    ::setenv(name, value, 1);
    const auto said =
        run_torch([](const Library&, Torch& torch) { EXPECT_EQ(torch.raw_alloc(1000, 0, nullptr), nullptr); });
    EXPECT_THAT(said, AllOf(StartsWith("gpuwarden: "), HasSubstr(value)));
    ::unsetenv(name);
  }
}

TEST_F(TorchTest, MindsTheMemoryFractionSetBeforeTheFirstAllocation) {
  const auto said = run_torch([](const Library&, Torch& torch) {
    torch.memory_fraction(0.25, 0);
    EXPECT_EQ(torch.raw_alloc(std::size_t{4} << 30U, 0, nullptr), nullptr);
    EXPECT_NE(torch.raw_alloc(std::size_t{3} << 30U, 0, nullptr), nullptr);
    torch.memory_fraction(1.5, 0);
  });
  EXPECT_THAT(said, HasSubstr("above 0 and at most 1"));
}

TEST_F(TorchTest, MindsAMemoryFractionThatComesLate) {
  const auto said = run_torch([](const Library&, Torch& torch) {
    void* const first = torch.raw_alloc(std::size_t{4} << 30U, 0, nullptr);
    void* const second = torch.raw_alloc(std::size_t{5} << 30U, 0, nullptr);
    torch.raw_delete(second);
    torch.memory_fraction(0.5, 0);
    EXPECT_NEAR(static_cast<double>(torch.status().limit), 0.5 * (15360 - 272) * cuda::kMiB, 4.0 * cuda::kMiB);
    EXPECT_LE(torch.status().reserved, torch.status().limit) << "what was idle went back";
    EXPECT_EQ(torch.malloc(ssize_t{5} << 30U, 0, nullptr), nullptr);
    torch.memory_fraction(0.1, 0);
    EXPECT_NE(torch.raw_alloc(std::size_t{2} << 30U, 0, nullptr), nullptr) << "what was refused changes nothing";
    torch.memory_fraction(1, 0);
    EXPECT_NE(torch.raw_alloc(std::size_t{5} << 30U, 0, nullptr), nullptr);
    torch.raw_delete(first);
  });
  EXPECT_THAT(said,
              AllOf(HasSubstr("CUDA out of memory"), HasSubstr("cannot be limited"), HasSubstr("4294967296 are live")));
}

TEST_F(TorchTest, TheSmallerOfTheEnvironmentsLimitAndTheFractionHolds) {
  ::setenv("GPUWARDEN_GPU_MEM_LIMIT", "4GiB", 1);
  run_torch([](const Library&, Torch& torch) {
    torch.memory_fraction(0.1, 0);
    EXPECT_NE(torch.raw_alloc(1000, 0, nullptr), nullptr);
    EXPECT_LT(torch.status().limit, std::uint64_t{2} << 30U);
    torch.memory_fraction(0.9, 0);
    EXPECT_EQ(torch.status().limit, std::uint64_t{4} << 30U);
  });
}

TEST_F(TorchTest, WritesATraceThatCanBeReplayed) {
  const auto trace = folder() / "trace.csv";
  ::setenv("GPUWARDEN_MEMORY_TRACE", trace.c_str(), 1);
  ::setenv("LD_LIBRARY_PATH", cuda::library_of(580).parent_path().c_str(), 1);
  run([](const Library&) {
    Torch torch;
    void* const first = torch.raw_alloc(1000, 0, nullptr);
    void* const second = torch.raw_alloc(2'000'000, 0, nullptr);
    torch.raw_delete(first);
    torch.raw_delete(second);
    // The program ends as programs do, so that what is kept for writing is written.
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  const std::string text = read_file(trace).value_or("");
  const auto lines = split(text, '\n');
  ASSERT_EQ(lines.size(), 6U) << text;
  EXPECT_EQ(lines[0], "op,id,size,stream,time_us,phase");
  EXPECT_THAT(lines[1], StartsWith("a,1,1000,0,"));
  EXPECT_THAT(lines[2], StartsWith("a,2,2000000,0,"));
  EXPECT_THAT(lines[3], StartsWith("f,1,1000,0,"));
  EXPECT_THAT(lines[4], StartsWith("f,2,2000000,0,"));
}

TEST_F(TorchTest, TellsOthersWhatItHoldsAndWritesSnapshots) {
  ::setenv("GPUWARDEN_MEMORY_STATUS", "5ms", 1);
  ::setenv("GPUWARDEN_MEMORY_SNAPSHOT", (folder() / "end.json").c_str(), 1);
  ::setenv("LD_LIBRARY_PATH", cuda::library_of(580).parent_path().c_str(), 1);
  run([this](const Library&) {
    Torch torch;
    const auto pools = [&] { return pools::published_pools({folder() / "pools"}); };
    EXPECT_THAT(pools(), IsEmpty());
    torch.raw_alloc(2'000'000, 0, nullptr);
    torch.raw_alloc(3'000'000, 1, nullptr);
    EXPECT_TRUE(testing::eventually(testing::kSoon, [&] {
      const auto found = pools();
      return found.size() == 2 && found[0].live == Bytes(2'000'384) && found[1].live == Bytes(3'000'320);
    }));
    EXPECT_NE(pools()[0].gpu, pools()[1].gpu);
    torch.malloc(ssize_t{20} << 30U, 1, nullptr);
    cuda::Child child([]() -> int {
      // To the leak checker of a child what the threads that it lacks have on their stacks is lost.
      if (testing::kSanitized) ::_exit(3);
      std::exit(3);
    });
    EXPECT_EQ(child.wait(), 3);
    EXPECT_EQ(pools().size(), 2U) << "a forked child finishes nothing";
    EXPECT_FALSE(std::filesystem::exists(folder() / "end.json"));
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_THAT(list_directory(folder() / "pools"), IsEmpty());
  for (const char* name : {"end.json", "end.json.1", "end.oom.json.1"})
    EXPECT_TRUE(cuda::Json::accept(read_file(folder() / name).value_or(""))) << name;
  EXPECT_FALSE(std::filesystem::exists(folder() / "end.oom.json")) << "only the other device ran out";
}

TEST_F(TorchTest, SaysWhatWasGivenBackWrongly) {
  const auto said = run_torch([](const Library&, Torch& torch) {
    void* const pointer = torch.malloc(1000, 0, nullptr);
    torch.free(pointer, 999, 0, nullptr);
    torch.free(pointer, 1000, 0, nullptr);
    torch.free(pointer, 1000, 0, nullptr);
    torch.record_stream(pointer, nullptr);
    torch.free(nullptr, 0, 0, nullptr);
    EXPECT_EQ(torch.malloc(1000, -1, nullptr), nullptr);
    EXPECT_EQ(torch.malloc(1000, 0, reinterpret_cast<Stream>(cuda::kStreamPerThread)), nullptr);  // NOLINT
    EXPECT_EQ(torch.malloc(-5, 0, nullptr), nullptr);
  });
  EXPECT_THAT(split(trim(said), '\n'), ::testing::SizeIs(6)) << said;
  EXPECT_THAT(said, AllOf(HasSubstr("cannot free"), HasSubstr("freed twice"), HasSubstr("per-thread default stream")));
}

TEST_F(TorchTest, GraphsHaveMemoryOfTheirOwn) {
  const auto said = run_torch([](const Library& cuda, Torch& torch) {
    cuda.start();
    const Stream stream = cuda.stream(cuda::kStreamNonBlocking);
    const Stream side = cuda.stream(cuda::kStreamNonBlocking);
    void* const before = torch.raw_alloc(3'000'000, 0, stream);
    torch.raw_delete(before);
    const GroupId group{0, 7};
    torch.begin_allocate_to_pool(0, group, [&](Stream one) { return one == stream || one == side; });
    void* const captured = torch.raw_alloc(3'000'000, 0, stream);
    void* const beside = torch.raw_alloc(3'000'000, 0, side);
    EXPECT_NE(captured, nullptr);
    EXPECT_NE(beside, nullptr);
    EXPECT_NE(captured, before) << "a graph's memory comes from nowhere else";
    torch.raw_delete(captured);
    torch.end_allocate_to_pool(0, group);
    for (int i = 0; i < 3; ++i)
      EXPECT_NE(torch.raw_alloc(3'000'000, 0, stream), captured) << "a replay will write there";
    torch.raw_delete(beside);
    torch.release_pool(0, group);
    torch.release_pool(0, GroupId{9, 9});
    EXPECT_EQ(torch.status().live_blocks, 3U);
    torch.reset();
    EXPECT_LE(torch.status().reserved, 12U * cuda::kMiB) << "the graph's memory went back";
    torch.end_allocate_to_pool(0, group);
  });
  EXPECT_THAT(said, HasSubstr("no capture of this group"));
}

TEST_F(TorchTest, AForkedChildIsToldThatItHasNoDevice) {
  const auto said = run_torch([](const Library&, Torch& torch) {
    EXPECT_NE(torch.raw_alloc(1000, 0, nullptr), nullptr);
    cuda::Child child([&] {
      gpuwarden_pool_status status = GPUWARDEN_POOL_STATUS_INIT;
      const bool refused = torch.malloc(1000, 0, nullptr) == nullptr && torch.memory_status(0, &status) == 0;
      std::fflush(nullptr);
      return refused ? 5 : 6;
    });
    EXPECT_EQ(child.wait(), 5);
  });
  EXPECT_THAT(said, HasSubstr("forked"));
}

}  // namespace
}  // namespace gpuwarden
