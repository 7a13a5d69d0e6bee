// SPDX-License-Identifier: Apache-2.0
// Each check of the machine: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

constexpr std::uint64_t kMebibyte = 1ULL << 20U;
constexpr std::uint64_t kGibibyte = 1ULL << 30U;

void add_adapter(Snapshot& machine) {
  facts::Nic nic;
  nic.name = "mlx5_0";
  machine.nics.push_back(nic);
}

void leave_free(Snapshot& machine, std::string_view mount, std::uint64_t bytes) {
  for (auto& system : host(machine).file_systems) {
    if (system.mount == mount) system.free = Bytes(bytes);
  }
}

void use_memory(Snapshot& machine, std::uint64_t gibibytes) {
  host(machine).memory_total = Bytes(gibibytes * kGibibyte);
  host(machine).memory_available = Bytes(gibibytes * kGibibyte / 2);
}

void use_kernel(Snapshot& machine, std::string_view kernel) {
  use_driver(machine, "595.58.03");
  host(machine).kernel = kernel;
}

void use_machine(Snapshot& machine, std::string_view name) {
  remove_gpus(machine);
  host(machine).machine = name;
}

constexpr auto kSystemCases = std::to_array<Case>({
    {"memlock-low",
     [](Snapshot& m) {
       add_adapter(m);
       host(m).memlock_limit = Bytes(8 * kMebibyte);
     },
     [](Snapshot& m) { host(m).memlock_limit = Bytes(8 * kMebibyte); }, "8 MiB"},
    {"shm-low", [](Snapshot& m) { leave_free(m, "/dev/shm", 512 * kMebibyte); },
     [](Snapshot& m) { leave_free(m, "/dev/shm", 2 * kGibibyte); }, "512 MiB free of 512 GiB"},
    {"open-files-low", [](Snapshot& m) { host(m).open_files_limit = 1024; },
     [](Snapshot& m) { host(m).open_files_limit = 4096; }, "1024 files"},
    {"host-memory-small", [](Snapshot& m) { use_memory(m, 128); }, [](Snapshot& m) { use_memory(m, 320); }, "128 GiB"},
    {"memory-nearly-full", [](Snapshot& m) { host(m).memory_available = Bytes(20 * kGibibyte); },
     [](Snapshot& m) { host(m).memory_available = Bytes(60 * kGibibyte); }, "20 GiB of 1 TiB"},
    {"memory-limit-small", [](Snapshot& m) { host(m).memory_limit = Bytes(64 * kGibibyte); },
     [](Snapshot& m) { host(m).memory_limit = Bytes(256 * kGibibyte); }, "64 GiB"},
    {"disk-nearly-full", [](Snapshot& m) { leave_free(m, "/tmp", kGibibyte); },
     [](Snapshot& m) { leave_free(m, "/tmp", 8 * kGibibyte); }, "/tmp has 1 GiB free"},
    {"few-cpus", [](Snapshot& m) { host(m).cpus_allowed = 4; }, [](Snapshot& m) { host(m).cpus_allowed = 8; },
     "4 CPUs for 4 GPUs"},
    {"numa-balancing-on", [](Snapshot& m) { host(m).numa_balancing = true; },
     [](Snapshot& m) {
       host(m).numa_balancing = true;
       host(m).numa_nodes = 1;
     },
     "NUMA balancing"},
    {"kernel-too-old", [](Snapshot& m) { use_kernel(m, "4.4.0-210-generic"); },
     [](Snapshot& m) { use_kernel(m, "4.18.0-553.el8.x86_64"); }, "4.4.0-210-generic"},
    {"machine-without-cuda", [](Snapshot& m) { use_machine(m, "riscv64"); },
     [](Snapshot& m) { use_machine(m, "aarch64"); }, "riscv64"},
    {"glibc-too-old-for-torch", [](Snapshot& m) { host(m).libc = "2.27"; }, [](Snapshot& m) { host(m).libc = "2.28"; },
     "this system has 2.27"},
});

}  // namespace

std::span<const Case> system_cases() { return kSystemCases; }

namespace {

TEST(SystemChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(system_cases()); }

TEST(SystemChecks, ACgroupThatAllowsAllMemoryIsNoLimit) {
  Snapshot machine = healthy_machine();
  use_memory(machine, 320);
  host(machine).memory_limit = Bytes(320 * kGibibyte);
  EXPECT_EQ(found_in(machine), "");
}

}  // namespace
}  // namespace gpuwarden::testing
