// SPDX-License-Identifier: Apache-2.0
// One GPU, several processes: they run out of memory because of each other, and a dead one holds nothing.
#include <sys/socket.h>

#include "sim_cuda/program.hpp"
#include "sim_nvml/client.hpp"
#include "support/patience.hpp"

namespace gpuwarden::cuda {
namespace {

/// Sends a file descriptor over a socket, as programs do with exported memory.
void send_descriptor(int socket, int fd) {
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> buffer{};
  msghdr message{.msg_iov = &data, .msg_iovlen = 1, .msg_control = buffer.data(), .msg_controllen = buffer.size()};
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  *header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  EXPECT_EQ(::sendmsg(socket, &message, 0), 1);
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> buffer{};
  msghdr message{.msg_iov = &data, .msg_iovlen = 1, .msg_control = buffer.data(), .msg_controllen = buffer.size()};
  EXPECT_EQ(::recvmsg(socket, &message, 0), 1);
  int fd = -1;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

/// A fleet that NVML watches from this process, and on which programs run.
class ProcessTest : public Programs {
 protected:
  ProcessTest() : nvml_(580) {
    nvml_.call({{"op", "attach"}, {"spec", std::getenv("GPUWARDEN_SIMULATE")}});
    EXPECT_EQ(nvml_.nvmlInit_v2(), nvml::kSuccess);
  }
  ~ProcessTest() override {
    nvml_.nvmlShutdown();
    nvml_.call({{"op", "detach"}});
  }

  /// What NVML says a process holds on GPU 0; nothing where it does not list it.
  std::optional<std::uint64_t> held_by(pid_t pid) const {
    std::array<nvml::ProcessInfoV2, 16> entries{};
    unsigned count = entries.size();
    EXPECT_EQ(nvml_.nvmlDeviceGetComputeRunningProcesses_v3(nvml_.gpu(0), &count, entries.data()), nvml::kSuccess);
    for (unsigned i = 0; i < count; ++i) {
      if (entries[i].pid == static_cast<unsigned>(pid)) return entries[i].used_memory;
    }
    return std::nullopt;
  }
  /// What programs use of GPU 0, as NVML says.
  std::uint64_t used() const {
    nvml::Memory memory{};
    EXPECT_EQ(nvml_.nvmlDeviceGetMemoryInfo(nvml_.gpu(0), &memory), nvml::kSuccess);
    return memory.used - 272 * kMiB;  // what the driver reserves counts as used here
  }

  const nvml::Nvml nvml_;
};

TEST_F(ProcessTest, RunsOutOfMemoryBecauseAnotherHoldsIt) {
  const Signal taken;
  const Signal go_on;
  const auto holder = begin([&](const Library& cuda) {
    cuda.start();
    taken.send(cuda.allocate(10'000 * kMiB));
    go_on.wait();
  });
  EXPECT_NE(taken.wait(), 0U);
  run([](const Library& cuda) {
    cuda.start();
    EXPECT_EQ(cuda.free_memory(), (15360 - 272 - 10'000) * kMiB);
    EXPECT_EQ(cuda.allocate(6'000 * kMiB), 0U);
    EXPECT_EQ(cuda.create(6'000 * kMiB), 0U);
    DevicePointer pointer = 0;
    EXPECT_EQ(cuda.cuMemAllocAsync(&pointer, 6'000 * kMiB, nullptr), kOutOfMemory);
    EXPECT_NE(cuda.allocate(5'000 * kMiB), 0U);
  });
  go_on.send();
  EXPECT_EQ(holder->wait(), 0);
  run([](const Library& cuda) {
    cuda.start();
    EXPECT_NE(cuda.allocate(15'000 * kMiB), 0U) << "it has ended";
  });
}

TEST_F(ProcessTest, NvmlShowsTheHolder) {
  const Signal taken;
  const auto holder = begin([&](const Library& cuda) {
    cuda.start();
    cuda.allocate(100 * kMiB);
    cuda.create(28 * kMiB);
    taken.send();
    ::pause();
  });
  taken.wait();
  EXPECT_EQ(held_by(holder->pid()), 128 * kMiB);
  EXPECT_EQ(used(), 128 * kMiB);
}

TEST_F(ProcessTest, GivesAllBackWhenKilled) {
  const Signal taken;
  const auto holder = begin([&](const Library& cuda) {
    cuda.start();
    cuda.allocate(10'000 * kMiB);
    cuda.create(2'000 * kMiB, kHandlePosixFd);
    DevicePointer pointer = 0;
    cuda.cuMemAllocAsync(&pointer, 1'000 * kMiB, nullptr);
    taken.send();
    ::pause();
  });
  taken.wait();
  EXPECT_EQ(held_by(holder->pid()), 13'000 * kMiB);
  holder->kill();
  // Without anybody looking at NVML first: the one who needs memory finds that the holder is dead.
  run([](const Library& cuda) {
    cuda.start();
    EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return cuda.allocate(15'000 * kMiB) != 0; }));
  });
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return used() == 0; }));
  EXPECT_EQ(held_by(holder->pid()), std::nullopt);
}

TEST_F(ProcessTest, ADeclaredJobAndItsCudaMemoryAreOneProcess) {
  const Signal taken;
  const auto holder = begin([&](const Library& cuda) {
    cuda.start();
    cuda.allocate(64 * kMiB);
    taken.send();
    ::pause();
  });
  taken.wait();
  std::array<char, 96> uuid{};
  EXPECT_EQ(nvml_.nvmlDeviceGetUUID(nvml_.gpu(0), uuid.data(), uuid.size()), nvml::kSuccess);
  nvml_.call({{"op", "declare"}, {"pid", holder->pid()}, {"gpus", {uuid.data()}}, {"memory_bytes", 36 * kMiB}});
  EXPECT_EQ(held_by(holder->pid()), 64 * kMiB) << "what it took counts, not what it pretends";
  EXPECT_EQ(used(), 64 * kMiB);
}

TEST_F(ProcessTest, SharesMemoryByDescriptor) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.data()), 0);
  const Signal written;
  const Signal imported;
  const auto giver = begin([&](const Library& cuda) {
    cuda.start();
    const AllocationHandle handle = cuda.create(kPage, kHandlePosixFd);
    DevicePointer base = 0;
    EXPECT_EQ(cuda.cuMemAddressReserve(&base, kPage, 0, 0, 0), kSuccess);
    EXPECT_EQ(cuda.cuMemMap(base, kPage, 0, handle, 0), kSuccess);
    EXPECT_EQ(cuda.allow(base, kPage), kSuccess);
    EXPECT_EQ(cuda.cuMemsetD8_v2(base, 77, kPage), kSuccess);
    int fd = -1;
    EXPECT_EQ(cuda.cuMemExportToShareableHandle(&fd, handle, kHandlePosixFd, 0), kSuccess);
    EXPECT_EQ(cuda.cuMemExportToShareableHandle(&fd, cuda.create(kPage), kHandlePosixFd, 0), kInvalidValue)
        << "only what was made for it";
    send_descriptor(sockets[0], fd);
    imported.wait();
    EXPECT_EQ(bytes_at(base)[1], 88) << "written by the other";
    written.send();
    ::pause();
  });
  run([&](const Library& cuda) {
    cuda.start();
    const int fd = receive_descriptor(sockets[1]);
    const std::uint64_t before = cuda.free_memory();
    AllocationHandle handle = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): how CUDA takes descriptors
    void* const shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
    ASSERT_EQ(cuda.cuMemImportFromShareableHandle(&handle, shareable, kHandlePosixFd), kSuccess);
    EXPECT_EQ(cuda.free_memory(), before) << "the same memory, not more";
    DevicePointer base = 0;
    ASSERT_EQ(cuda.cuMemAddressReserve(&base, kPage, 0, 0, 0), kSuccess);
    ASSERT_EQ(cuda.cuMemMap(base, kPage, 0, handle, 0), kSuccess);
    ASSERT_EQ(cuda.allow(base, kPage), kSuccess);
    EXPECT_EQ(bytes_at(base)[kPage - 1], 77);
    bytes_at(base)[1] = 88;
    imported.send();
    written.wait();
    giver->kill();
    // The giver is dead, its exported page lives on with us; its other page is free again.
    EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return cuda.free_memory() == before + kPage; }));
    EXPECT_EQ(bytes_at(base)[0], 77);
    EXPECT_EQ(cuda.cuMemUnmap(base, kPage), kSuccess);
    EXPECT_EQ(cuda.cuMemRelease(handle), kSuccess);
    EXPECT_EQ(cuda.free_memory(), before + 2 * kPage);
  });
  for (const int socket : sockets) ::close(socket);
}

TEST_F(ProcessTest, RefusesDescriptorsOfAnythingElse) {
  run([](const Library& cuda) {
    cuda.start();
    AllocationHandle handle = 0;
    for (const std::intptr_t fd : {std::intptr_t{0}, std::intptr_t{-1}, std::intptr_t{9999}}) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      EXPECT_EQ(cuda.cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(fd), kHandlePosixFd),
                kInvalidValue);
    }
  });
}

TEST_F(ProcessTest, ManyTakeAndGiveAtOnce) {
  std::vector<std::unique_ptr<Child>> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(begin([](const Library& cuda) {
      cuda.start();
      for (int round = 0; round < 50; ++round) {
        const DevicePointer large = cuda.allocate(2'000 * kMiB);
        const AllocationHandle handle = cuda.create(kPage);
        if (large != 0) cuda.cuMemFree_v2(large);
        if (handle != 0) cuda.cuMemRelease(handle);
      }
    }));
  }
  for (const auto& one : all) EXPECT_EQ(one->wait(), 0);
  EXPECT_EQ(used(), 0U);
}

}  // namespace
}  // namespace gpuwarden::cuda
