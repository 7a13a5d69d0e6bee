// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/suggestions.hpp"

#include <algorithm>

#include "gpuwarden/knowledge/variables.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::toolkits {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using testing::FailsWith;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

facts::Snapshot machine(const std::vector<std::string>& gpus) {
  facts::Snapshot snapshot;
  for (const std::string& name : gpus) {
    facts::GpuRecord record;
    record.gpu.vendor = "NVIDIA";
    record.gpu.name = name;
    snapshot.gpus.push_back(record);
  }
  snapshot.environment.emplace();
  snapshot.environment->host.cpus = 64;
  snapshot.environment->interfaces = {{"docker0", true, false, false, {}},
                                      {"eno1", true, true, true, 10000},
                                      {"eno2", false, true, false, {}},
                                      {"ib0", true, true, false, 200000}};
  snapshot.environment->rdma_adapters = {{"mlx5_0", true, "InfiniBand", 400},
                                         {"mlx5_1", true, "InfiniBand", 400},
                                         {"mlx5_2", true, "Ethernet", 25},
                                         {"mlx5_3", false, "InfiniBand", {}}};
  snapshot.environment->driver.loaded_modules = {"nvidia", "nvidia_peermem"};
  return snapshot;
}

std::string value_of(std::string_view software, const facts::Snapshot& snapshot, std::string_view name) {
  const auto all = suggest(software, snapshot);
  EXPECT_TRUE(all);
  const auto found = std::ranges::find(*all, name, &Suggestion::name);
  return found == all->end() ? "-" : found->value;
}

auto advice(const std::string& part) {
  return Contains(AllOf(Field(&Suggestion::name, ""), Field(&Suggestion::why, HasSubstr(part))));
}

TEST(SuggestionsForNccl, NameTheInterfaceThatLeadsOut) {
  auto box = machine({"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"});
  EXPECT_EQ(value_of("nccl", box, "NCCL_SOCKET_IFNAME"), "=eno1");
  EXPECT_THAT(*suggest("nccl", box), advice("faster, but without the default route: ib0"));
  auto& interfaces = box.environment->interfaces;
  interfaces[1].default_route = false;
  EXPECT_EQ(value_of("nccl", box, "NCCL_SOCKET_IFNAME"), "-") << "two with a link: not guessed at";
  EXPECT_THAT(*suggest("nccl", box), advice("several interfaces"));
  interfaces.pop_back();
  EXPECT_EQ(value_of("nccl", box, "NCCL_SOCKET_IFNAME"), "=eno1") << "the only one with a link";
  interfaces.clear();
  EXPECT_EQ(value_of("nccl", box, "NCCL_SOCKET_IFNAME"), "-");
}

TEST(SuggestionsForNccl, NameTheAdaptersOfTheComputeNetwork) {
  auto box = machine({"NVIDIA H100 80GB HBM3"});
  EXPECT_EQ(value_of("nccl", box, "NCCL_IB_HCA"), "=mlx5_0,mlx5_1");
  EXPECT_THAT(*suggest("nccl", box), Contains(Field(&Suggestion::why, HasSubstr("not those without a link: mlx5_3"))));
  auto& adapters = box.environment->rdma_adapters;
  adapters[0].active = adapters[1].active = false;
  EXPECT_EQ(value_of("nccl", box, "NCCL_IB_HCA"), "=mlx5_2") << "RoCE, where there is nothing else";
  adapters[2].active = false;
  EXPECT_EQ(value_of("nccl", box, "NCCL_IB_HCA"), "-");
  EXPECT_EQ(value_of("nccl", box, "NCCL_IB_DISABLE"), "1");
  adapters.clear();
  EXPECT_EQ(value_of("nccl", box, "NCCL_IB_DISABLE"), "-") << "NCCL finds out by itself";
}

TEST(SuggestionsForNccl, TellWhatStandsInTheWay) {
  auto box = machine({"NVIDIA L4", "NVIDIA L4"});
  EXPECT_THAT(*suggest("nccl", box), Not(advice("peermem")));
  EXPECT_THAT(*suggest("nccl", box), Not(advice("/dev/shm")));
  box.environment->driver.loaded_modules = {"nvidia"};
  box.environment->host.file_systems = {{"/dev/shm", 64_MiB, 64_MiB}};
  EXPECT_THAT(*suggest("nccl", box), advice("nvidia_peermem is not loaded"));
  EXPECT_THAT(*suggest("nccl", box), advice("/dev/shm has only 64 MiB"));
}

TEST(SuggestionsForVllm, DependOnHowManyAndWhichGpusThereAre) {
  const auto one = machine({"NVIDIA L4"});
  EXPECT_EQ(value_of("vllm", one, "OMP_NUM_THREADS"), "64");
  EXPECT_EQ(value_of("vllm", one, "VLLM_WORKER_MULTIPROC_METHOD"), "-");
  EXPECT_EQ(value_of("vllm", one, "NCCL_SOCKET_IFNAME"), "-") << "one GPU talks to nobody";
  auto two = machine({"NVIDIA L4", "Tesla T4"});
  two.environment->host.cpus_allowed = 6;
  EXPECT_EQ(value_of("vllm", two, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_EQ(value_of("vllm", two, "VLLM_WORKER_MULTIPROC_METHOD"), "spawn");
  EXPECT_EQ(value_of("vllm", two, "OMP_NUM_THREADS"), "3") << "those that this process may use";
}

TEST(SuggestionsForPyTorch, CompileForTheGpusOfTheMachine) {
  auto box = machine({"NVIDIA L4", "Tesla T4", "NVIDIA L4"});
  EXPECT_EQ(value_of("pytorch", box, "TORCH_CUDA_ARCH_LIST"), "7.5;8.9+PTX");
  EXPECT_EQ(value_of("pytorch", box, "PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  box.environment->host.wsl = 2;
  EXPECT_EQ(value_of("pytorch", box, "PYTORCH_CUDA_ALLOC_CONF"), "-");
  EXPECT_EQ(value_of("pytorch", machine({}), "TORCH_CUDA_ARCH_LIST"), "-");
}

TEST(Suggestions, AreCommandsBelowTheirReasons) {
  EXPECT_EQ(script_of(Shell::bash, {{"A", "it's", "why\nnot"}, {"", "", "advice"}}),
            "# why?not\nexport A='it'\\''s'\n# advice\n");
  EXPECT_EQ(script_of(Shell::fish, {{"A", "1", "why"}}), "# why\nset -gx A '1'\n");
  EXPECT_THAT(suggest("tensorflow", {}), FailsWith(ErrorCode::invalid_argument, HasSubstr("'tensorflow'")));
}

TEST(Suggestions, NameOnlyVariablesThatAreExplained) {
  auto box = machine({"NVIDIA L4", "Tesla T4"});
  for (const char* software : {"nccl", "vllm", "pytorch"}) {
    const auto all = suggest(software, box);
    ASSERT_TRUE(all);
    for (const auto& one : *all) {
      if (one.name.empty()) continue;
      EXPECT_NE(knowledge::find_known_variable(one.name), nullptr) << one.name;
    }
  }
}

}  // namespace
}  // namespace gpuwarden::toolkits
