// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/line.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::lease {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Uuid kFirst("GPU-a");
const Uuid kSecond("GPU-b");
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
  const Situation situation{{}, {ticket("1", "ada", 2, {kFirst, kSecond}), ticket("2", "bob", 1, {kSecond})}, {}};
  Line line;
  EXPECT_THAT(line.look(situation, "1", {}, kStart).spoken_for, IsEmpty()) << "the first waits for nobody";
  const auto second = line.look(situation, "2", {}, kStart);
  EXPECT_THAT(second.spoken_for, ElementsAre(kFirst, kSecond));
  EXPECT_EQ(second.ahead, 1U);
  EXPECT_FALSE(second.someone_can_go) << "nothing is idle";
  EXPECT_THAT(line.look(situation, "", {}, kStart).spoken_for, ElementsAre(kFirst, kSecond))
      << "without a ticket: behind all";
}

TEST(Line, WhoLetsItsTurnPassHoldsNobodyBack) {
  Situation situation{{}, {ticket("1", "mallory", 1, {kFirst}), ticket("2", "mallory", 1, {kFirst})}, {}};
  Line line;
  const auto first = line.look(situation, "", {kFirst}, kStart);
  EXPECT_THAT(first.spoken_for, ElementsAre(kFirst)) << "it may be about to go";
  EXPECT_TRUE(first.someone_can_go);
  EXPECT_THAT(line.look(situation, "", {kFirst}, kStart + kTurn - std::chrono::seconds(1)).spoken_for,
              ElementsAre(kFirst));
  EXPECT_THAT(line.look(situation, "", {kFirst}, kStart + kTurn).spoken_for, IsEmpty()) << "nor do the user's others";
  situation.waiting.insert(situation.waiting.begin(), ticket("0", "mallory", 1, {kFirst}));
  EXPECT_THAT(line.look(situation, "", {kFirst}, kStart + kTurn).spoken_for, IsEmpty()) << "a new one is no new turn";
}

TEST(Line, WhoCannotGoYetKeepsItsTurn) {
  const Situation situation{{}, {ticket("1", "ada", 2, {kFirst, kSecond})}, {}};
  Line line;
  for (int hour = 0; hour < 3; ++hour)
    EXPECT_THAT(line.look(situation, "", {kFirst}, kStart + std::chrono::hours(hour)).spoken_for,
                ElementsAre(kFirst, kSecond));
}

TEST(Line, WhoWaitsForItsOwnLeasesHoldsNobodyBack) {
  const facts::Lease own{kFirst, false, {{Pid{1}, "mallory", "", "", {}}}};
  const Situation situation{{own}, {ticket("1", "mallory", 2, {kFirst, kSecond})}, {}};
  EXPECT_THAT(Line().look(situation, "", {kSecond}, kStart).spoken_for, IsEmpty());
  const Situation of_others{{{kFirst, false, {{Pid{1}, "ada", "", "", {}}}}}, situation.waiting, {}};
  EXPECT_THAT(Line().look(of_others, "", {kSecond}, kStart).spoken_for, ElementsAre(kFirst, kSecond));
}

TEST(Line, WhoWaitsBehindAnotherIsNotLate) {
  // The second could have A but for the first, which waits for B.
  const Situation situation{{}, {ticket("1", "ada", 2, {kFirst, kSecond}), ticket("2", "bob", 1, {kFirst})}, {}};
  Line line;
  for (int hour = 0; hour < 3; ++hour) {
    const auto view = line.look(situation, "", {kFirst}, kStart + std::chrono::hours(hour));
    EXPECT_FALSE(view.someone_can_go);
  }
}

}  // namespace
}  // namespace gpuwarden::lease
