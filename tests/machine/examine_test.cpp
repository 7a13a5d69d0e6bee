// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/examine.hpp"

#include <algorithm>

#include "gpuwarden/machine/compat_place.hpp"
#include "machine/simulated.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using gpuwarden::testing::FailsWith;
using gpuwarden::testing::IsOk;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class Examined : public gpuwarden::testing::Machines {
 protected:
  Machine open() {
    auto machine = Machine::open(Simulated{"h100x8"}, options());
    EXPECT_THAT(machine, IsOk());
    return std::move(*machine);
  }
  static std::vector<std::string> ids_of(const machine::Examined& examined) {
    std::vector<std::string> ids;
    for (const doctor::Finding& finding : examined.examination.findings) ids.push_back(finding.id);
    return ids;
  }
};

TEST_F(Examined, ByAllThatIsKnownOfIt) {
  const Machine machine = open();
  const auto knowledge = machine.knowledge();
  NamedValues values("--");
  values.set("expect", {file("site.yaml", "gpus: {count: 3}\n")});
  const auto request = read_examination(values, *knowledge);
  ASSERT_THAT(request, IsOk());
  doctor::ToldFinding told;
  told.finding.id = "diagnose:something";
  told.finding.severity = doctor::Severity::error;
  bool tested = false;
  const auto test = [&](const facts::Snapshot& snapshot) -> Result<std::optional<facts::BurnInRun>> {
    tested = snapshot.gpus.size() == 8;
    return facts::BurnInRun{};
  };
  const auto done =
      examine(machine, *knowledge, *request, {.survey = {.software = false}, .told = {told}, .test = test});
  ASSERT_THAT(done, IsOk());
  EXPECT_TRUE(tested);
  EXPECT_THAT(ids_of(*done), Contains("diagnose:something"));
  EXPECT_THAT(ids_of(*done), Contains(HasSubstr("expected:")));
  EXPECT_EQ(report_of(*done, *request).burn_in, &*done->burn_in);
  const auto plain = examine(machine, *knowledge, {});
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(ids_of(*plain), Not(Contains(HasSubstr(":"))));
  EXPECT_EQ(report_of(*plain, {}).burn_in, nullptr);
}

TEST_F(Examined, ATestThatFailsIsTheAnswer) {
  const Machine machine = open();
  const auto test = [](const facts::Snapshot&) -> Result<std::optional<facts::BurnInRun>> {
    return fail(ErrorCode::unavailable, "no CUDA");
  };
  EXPECT_THAT(examine(machine, *machine.knowledge(), {}, {.test = test}),
              FailsWith(ErrorCode::unavailable, HasSubstr("no CUDA")));
}

TEST_F(Examined, AnInventoryThatCannotBeReadIsTold) {
  NamedValues values("--");
  values.set("expect", {"/nowhere/site.yaml"});
  EXPECT_THAT(read_examination(values, knowledge::Knowledge::built_in()),
              FailsWith(ErrorCode::not_found, HasSubstr("/nowhere/site.yaml")));
}

TEST_F(Examined, WhatIsNamedStandsOverTheMachine) {
  const Machine machine = open();
  const auto& known = knowledge::Knowledge::built_in();
  compat::Inquiry inquiry{.driver = "535"};
  const auto place = place_for(inquiry, &machine, known);
  ASSERT_THAT(place, IsOk());
  EXPECT_FALSE(place->gpus.empty()) << "the machine's";
  EXPECT_EQ(place->driver->major, 535);
  EXPECT_TRUE(place_for(inquiry, nullptr, known)->gpus.empty());
  const auto question = compat::read_question(inquiry, known);
  ASSERT_THAT(question, IsOk());
  EXPECT_TRUE(counts_for(inquiry, *question, true));
  EXPECT_FALSE(counts_for(inquiry, *question, false)) << "a place is named";
  compat::Inquiry nothing;
  EXPECT_TRUE(counts_for(nothing, *compat::read_question(nothing, known), false));
}

}  // namespace
}  // namespace gpuwarden::machine
