// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/line.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::lease {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Uuid kA("GPU-a");
const Uuid kB("GPU-b");
const Clock::SteadyTime kStart{std::chrono::hours(1)};

facts::LeaseTicket ticket(const std::string& id, const std::string& user, std::uint32_t wants,
                          std::vector<Uuid> candidates) {
  facts::LeaseTicket result;
  result.id = id;
  result.owner.user = user;
  result.wants = wants;
  result.candidates = std::move(candidates);
  return result;
}

TEST(Line, ARequestLeavesToThoseBeforeItWhatTheyWaitFor) {
  const Situation situation{{}, {ticket("1", "ada", 2, {kA, kB}), ticket("2", "bob", 1, {kB})}, {}};
  Line line;
  EXPECT_THAT(line.look(situation, "1", {}, kStart).spoken_for, IsEmpty()) << "the first waits for nobody";
  const auto second = line.look(situation, "2", {}, kStart);
  EXPECT_THAT(second.spoken_for, ElementsAre(kA, kB));
  EXPECT_EQ(second.ahead, 1U);
  EXPECT_FALSE(second.someone_can_go) << "nothing is idle";
  EXPECT_THAT(line.look(situation, "", {}, kStart).spoken_for, ElementsAre(kA, kB)) << "without a ticket: behind all";
}

TEST(Line, WhoLetsItsTurnPassHoldsNobodyBack) {
  Situation situation{{}, {ticket("1", "mallory", 1, {kA}), ticket("2", "mallory", 1, {kA})}, {}};
  Line line;
  const auto first = line.look(situation, "", {kA}, kStart);
  EXPECT_THAT(first.spoken_for, ElementsAre(kA)) << "it may be about to go";
  EXPECT_TRUE(first.someone_can_go);
  EXPECT_THAT(line.look(situation, "", {kA}, kStart + kTurn - std::chrono::seconds(1)).spoken_for, ElementsAre(kA));
  EXPECT_THAT(line.look(situation, "", {kA}, kStart + kTurn).spoken_for, IsEmpty()) << "nor do the user's others";
  situation.waiting.insert(situation.waiting.begin(), ticket("0", "mallory", 1, {kA}));
  EXPECT_THAT(line.look(situation, "", {kA}, kStart + kTurn).spoken_for, IsEmpty()) << "a new one is no new turn";
}

TEST(Line, WhoCannotGoYetKeepsItsTurn) {
  const Situation situation{{}, {ticket("1", "ada", 2, {kA, kB})}, {}};
  Line line;
  for (int hour = 0; hour < 3; ++hour)
    EXPECT_THAT(line.look(situation, "", {kA}, kStart + std::chrono::hours(hour)).spoken_for, ElementsAre(kA, kB));
}

TEST(Line, WhoWaitsForItsOwnLeasesHoldsNobodyBack) {
  const facts::Lease own{kA, false, {{Pid{1}, "mallory", "", "", {}}}};
  const Situation situation{{own}, {ticket("1", "mallory", 2, {kA, kB})}, {}};
  EXPECT_THAT(Line().look(situation, "", {kB}, kStart).spoken_for, IsEmpty());
  const Situation of_others{{{kA, false, {{Pid{1}, "ada", "", "", {}}}}}, situation.waiting, {}};
  EXPECT_THAT(Line().look(of_others, "", {kB}, kStart).spoken_for, ElementsAre(kA, kB));
}

TEST(Line, WhoWaitsBehindAnotherIsNotLate) {
  // The second could have A but for the first, which waits for B.
  const Situation situation{{}, {ticket("1", "ada", 2, {kA, kB}), ticket("2", "bob", 1, {kA})}, {}};
  Line line;
  for (int hour = 0; hour < 3; ++hour) {
    const auto view = line.look(situation, "", {kA}, kStart + std::chrono::hours(hour));
    EXPECT_FALSE(view.someone_can_go);
  }
}

}  // namespace
}  // namespace gpuwarden::lease
