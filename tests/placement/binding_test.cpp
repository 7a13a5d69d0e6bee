// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/binding.hpp"

#include <gmock/gmock.h>

#include <random>
#include <set>

namespace gpuwarden::placement {
namespace {

using facts::Cpu;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Two sockets with a NUMA node each; the threads of a core are `cores` apart, as Linux numbers them; four cores under
/// one cache.
std::vector<Cpu> two_sockets(unsigned cores_each) {
  std::vector<Cpu> cpus;
  const unsigned cores = 2 * cores_each;
  for (unsigned number = 0; number < 2 * cores; ++number) {
    const auto core = static_cast<int>(number % cores);
    const int socket = core / static_cast<int>(cores_each);
    cpus.push_back({.number = number, .core = core, .package = socket, .numa_node = socket, .cache = core / 4 * 4});
  }
  return cpus;
}

RankPlace on(int node) { return {.numa_node = node, .cpu_list = {}}; }

TEST(Binding, ARankGetsTheCpusOfItsGpusNode) {
  const auto bound = bind_ranks(std::vector{on(0), on(1)}, two_sockets(4), BindTo::node);
  ASSERT_THAT(bound, SizeIs(2));
  EXPECT_THAT(bound[0].cpus, ElementsAre(0, 1, 2, 3, 8, 9, 10, 11));
  EXPECT_THAT(bound[1].cpus, ElementsAre(4, 5, 6, 7, 12, 13, 14, 15));
  EXPECT_EQ(bound[1].cores, 4U);
  EXPECT_EQ(bound[1].numa_node, 1);
  EXPECT_EQ(bound[1].reason, "");
}

TEST(Binding, ExclusiveDividesWholeCoresWithBothTheirThreads) {
  const auto bound = bind_ranks(std::vector{on(0), on(1), on(0), on(0)}, two_sockets(8), BindTo::exclusive);
  EXPECT_THAT(bound[0].cpus, ElementsAre(0, 1, 2, 16, 17, 18));
  EXPECT_THAT(bound[2].cpus, ElementsAre(3, 4, 5, 19, 20, 21));
  EXPECT_THAT(bound[3].cpus, ElementsAre(6, 7, 22, 23));
  EXPECT_EQ(bound[3].cores, 2U);
  EXPECT_EQ(bound[1].cores, 8U) << "alone in its node";
}

TEST(Binding, MoreRanksThanCoresShareAndSaySo) {
  const auto bound = bind_ranks(std::vector{on(0), on(0), on(0)}, two_sockets(2), BindTo::exclusive);
  EXPECT_THAT(bound[0].cpus, ElementsAre(0, 4));
  EXPECT_THAT(bound[1].cpus, ElementsAre(1, 5));
  EXPECT_THAT(bound[2].cpus, ElementsAre(0, 4));
  EXPECT_THAT(bound[2].reason, HasSubstr("2 cores for 3 ranks"));
}

TEST(Binding, OnlyCpusThatTheJobMayUseCount) {
  auto cpus = two_sockets(4);
  std::erase_if(cpus, [](const Cpu& cpu) { return cpu.number != 2 && cpu.number != 9; });
  const auto bound = bind_ranks(std::vector{on(0), on(1)}, cpus, BindTo::node);
  EXPECT_THAT(bound[0].cpus, ElementsAre(2, 9));
  EXPECT_THAT(bound[1].cpus, IsEmpty());
  EXPECT_EQ(bound[1].reason, "no CPU of NUMA node 1 can be used here");
}

TEST(Binding, AnUnknownPlaceIsNotGuessedWhereThereAreSeveral) {
  const RankPlace unknown;
  EXPECT_THAT(bind_ranks(std::vector{unknown}, two_sockets(4), BindTo::node)[0].cpus, IsEmpty());
  EXPECT_THAT(bind_ranks(std::vector{on(-1)}, two_sockets(4), BindTo::node)[0].reason, HasSubstr("unknown"));
  auto one_node = two_sockets(2);
  for (Cpu& cpu : one_node) cpu.numa_node = 0;
  EXPECT_THAT(bind_ranks(std::vector{unknown}, one_node, BindTo::node)[0].cpus, SizeIs(8)) << "nothing to confuse";
}

TEST(Binding, TheDriversCpuListTellsTheNodeWhereTheKernelDoesNot) {
  const RankPlace listed{.numa_node = {}, .cpu_list = "4-7,12-15"};
  EXPECT_EQ(bind_ranks(std::vector{listed}, two_sockets(4), BindTo::node)[0].numa_node, 1);
  auto cpus = two_sockets(4);
  for (Cpu& cpu : cpus) cpu.numa_node.reset();
  EXPECT_THAT(bind_ranks(std::vector{listed}, cpus, BindTo::node)[0].cpus, ElementsAre(4, 5, 6, 7, 12, 13, 14, 15));
}

TEST(Binding, SocketAndCacheAreWiderAndNarrowerThanTheNode) {
  auto cpus = two_sockets(8);
  for (Cpu& cpu : cpus) cpu.numa_node = *cpu.core / 4;  // two nodes in each socket
  EXPECT_THAT(bind_ranks(std::vector{on(1)}, cpus, BindTo::socket)[0].cpus, SizeIs(16));
  EXPECT_THAT(bind_ranks(std::vector{on(1)}, cpus, BindTo::node)[0].cpus, SizeIs(8));
  const auto turns = bind_ranks(std::vector{on(0), on(0), on(0)}, two_sockets(8), BindTo::core_complex);
  EXPECT_THAT(turns[0].cpus, ElementsAre(0, 1, 2, 3, 16, 17, 18, 19));
  EXPECT_THAT(turns[1].cpus, ElementsAre(4, 5, 6, 7, 20, 21, 22, 23));
  EXPECT_EQ(turns[2].cpus, turns[0].cpus);
  for (Cpu& cpu : cpus) cpu.cache.reset();
  EXPECT_THAT(bind_ranks(std::vector{on(0)}, cpus, BindTo::core_complex)[0].reason, HasSubstr("unknown"));
}

TEST(Binding, NamesAreReadAsTheyAreWritten) {
  for (const BindTo bind : {BindTo::node, BindTo::socket, BindTo::exclusive, BindTo::core_complex})
    EXPECT_EQ(bind_to_from(to_string(bind)), bind);
  EXPECT_EQ(bind_to_from("core_complex"), BindTo::core_complex);
  EXPECT_EQ(bind_to_from("numa"), std::nullopt);
}

TEST(Binding, OverRandomMachinesNoRankGetsAForbiddenCpuAndExclusiveOnesShareNone) {
  std::mt19937 random(11);  // NOLINT(bugprone-random-generator-seed): the same machines every time
  for (int round = 0; round < 300; ++round) {
    auto cpus = two_sockets(1 + random() % 8);
    std::erase_if(cpus, [&](const Cpu&) { return random() % 4 == 0; });
    std::vector<RankPlace> ranks(1 + random() % 6);
    for (RankPlace& rank : ranks) rank = on(static_cast<int>(random() % 3) - 1);
    std::set<unsigned> allowed;
    for (const Cpu& cpu : cpus) allowed.insert(cpu.number);
    std::multiset<unsigned> used;
    bool sharing = false;
    const auto bindings = bind_ranks(ranks, cpus, BindTo::exclusive);
    ASSERT_EQ(bindings.size(), ranks.size());
    for (const RankBinding& one : bindings) {
      EXPECT_EQ(one.cpus.empty(), one.cores == 0);
      EXPECT_TRUE(!one.cpus.empty() || !one.reason.empty()) << "an unbound rank says why";
      sharing = sharing || (!one.cpus.empty() && !one.reason.empty());
      used.insert(one.cpus.begin(), one.cpus.end());
      for (const unsigned cpu : one.cpus) EXPECT_TRUE(allowed.contains(cpu));
    }
    for (const unsigned cpu : used) EXPECT_TRUE(sharing || used.count(cpu) == 1);
  }
}

}  // namespace
}  // namespace gpuwarden::placement
