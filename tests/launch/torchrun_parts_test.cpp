// SPDX-License-Identifier: Apache-2.0
// What the launcher has in common with torchrun: streams by digits, ports, CPUs near a GPU.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <set>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/port.hpp"
#include "launch/jobs.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(StreamChoices, AreTorchrunsAndNameRanksAboveNine) {
  const auto both = StreamChoice::parse("3");
  ASSERT_THAT(both, IsOk());
  EXPECT_EQ(both->of(0), 3);
  EXPECT_EQ(both->of(41), 3);
  const auto some = StreamChoice::parse("0:3,12:1,2");
  ASSERT_THAT(some, IsOk());
  EXPECT_EQ(some->of(0), 3);
  EXPECT_EQ(some->of(12), 1);
  EXPECT_EQ(some->of(5), 2);
  EXPECT_TRUE(StreamChoice::parse("0")->none());
  for (const char* wrong : {"", "4", "a", "1:4", ":1", "1:", "-1:1", "1,", "99999999999:1"})
    EXPECT_THAT(StreamChoice::parse(wrong), FailsWith(ErrorCode::invalid_argument, HasSubstr("names no streams")))
        << wrong;
}

/// Somebody who listens at a port.
UniqueFd listening(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd.get(), 1) != 0)
    fd.reset();
  return fd;
}

TEST(Ports, AreHeldUntilTheyAreHandedOverAndTheirNumbersLonger) {
  auto held = HeldPort::any();
  ASSERT_THAT(held, IsOk());
  EXPECT_GE(held->number(), 15000);
  EXPECT_LT(held->number(), 32768);
  EXPECT_FALSE(listening(held->number())) << "it is ours";
  held->hand_over();
  EXPECT_TRUE(listening(held->number())) << "rank 0 may have it";
}

TEST(Ports, NoTwoLaunchersAreGivenTheSame) {
  std::vector<HeldPort> held;
  std::set<std::uint16_t> numbers;
  for (int i = 0; i < 200; ++i) {
    auto one = HeldPort::any();
    ASSERT_THAT(one, IsOk());
    one->hand_over();  // only the number is held
    numbers.insert(one->number());
    held.push_back(std::move(*one));
  }
  EXPECT_EQ(numbers.size(), held.size());
}

TEST(Ports, FollowFromTheJobsIdAndTheTry) {
  EXPECT_EQ(port_of_job("job-7", 0), port_of_job("job-7", 0));
  EXPECT_NE(port_of_job("job-7", 0), port_of_job("job-7", 1));
  for (std::uint32_t i = 0; i < 1000; ++i) {
    EXPECT_GE(port_of_job("job", i), 15000);
    EXPECT_LT(port_of_job("job", i), 32768);
  }
}

TEST_F(Jobs, APortThatIsTakenIsRefusedBeforeAnyRankStarts) {
  auto held = HeldPort::any();
  ASSERT_THAT(held, IsOk());
  held->hand_over();
  const UniqueFd other = listening(held->number());
  ASSERT_TRUE(other);
  JobSpec spec = shell("touch $DIR/started", 2);
  spec.master_port = held->number();
  EXPECT_THAT(run_job(spec, system_clock()), FailsWith(ErrorCode::unavailable, HasSubstr("is in use on this machine")));
  EXPECT_EQ(file("started"), "(none)");
}

TEST_F(Jobs, RanksRunOnTheCpusThatTheyAreBoundTo) {
  JobSpec spec = shell("grep Cpus_allowed_list /proc/self/status >$DIR/$RANK", 2);
  cpu_set_t own;
  CPU_ZERO(&own);
  ASSERT_EQ(::sched_getaffinity(0, sizeof own, &own), 0);
  unsigned first = 0;
  while (!CPU_ISSET(first, &own)) ++first;
  spec.cpus = {{first}, {}};
  ASSERT_THAT(run_job(spec, system_clock()), IsOk());
  EXPECT_EQ(file("0"), "Cpus_allowed_list:\t" + std::to_string(first) + "\n");
  EXPECT_EQ(file("0") == file("1"), CPU_COUNT(&own) == 1);
}

TEST(AffinityMasks, HaveABitForEachCpu) {
  EXPECT_THAT(affinity_mask({0, 2}), ElementsAre(5UL));
  EXPECT_THAT(affinity_mask({64, 1025}), SizeIs(17));
  EXPECT_TRUE(affinity_mask({}).empty());
}

TEST_F(Jobs, TheEndOfTheOutputIsKeptWhereThatIsWanted) {
  JobSpec spec = shell("i=0; while [ $i -lt 9000 ]; do echo line $i of rank $RANK; i=$((i+1)); done; echo last >&2", 1);
  spec.keep_last_words = true;
  const auto end = run_job(spec, system_clock());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->ranks[0].last_words, "last\n");
  EXPECT_EQ(end->ranks[0].last_output.size(), 65536U);
  EXPECT_TRUE(end->ranks[0].last_output.ends_with("line 8999 of rank 0\n"));
  spec.keep_last_words = false;
  EXPECT_EQ(run_job(spec, system_clock())->ranks[0].last_words, "");
}

}  // namespace
}  // namespace gpuwarden::launch
