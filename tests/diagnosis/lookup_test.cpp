// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/lookup.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/diagnosis/causes.hpp"

namespace gpuwarden::diagnosis {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

const knowledge::Knowledge& known() {
  static const knowledge::Knowledge knowledge = knowledge::Knowledge::built_in();
  return knowledge;
}

TEST(Lookup, EveryCauseIsFoundByItsIdHoweverItIsTyped) {
  for (const auto& cause : knowledge::diagnosis_causes()) {
    std::string typed(cause.id);
    std::ranges::replace(typed, '_', '-');
    const Lookup lookup = look_up(typed, known());
    ASSERT_THAT(lookup.causes, Not(IsEmpty())) << typed;
    EXPECT_EQ(lookup.causes[0]->id, cause.id);
  }
}

TEST(Lookup, AnXidIsKnownByItsNumberInSeveralSpellings) {
  for (const char* typed : {"xid 79", "Xid=79", "xid79"}) {
    const Lookup lookup = look_up(typed, known());
    EXPECT_EQ(lookup.xid, 79) << typed;
    EXPECT_THAT(lookup.causes, Not(IsEmpty())) << typed;
  }
}

TEST(Lookup, ALineOfALogFitsARule) {
  const Lookup lookup = look_up("Failed to initialize NVML: Driver/library version mismatch", known());
  ASSERT_THAT(lookup.causes, Not(IsEmpty()));
  EXPECT_EQ(lookup.causes[0]->id, "driver_library_mismatch");
  EXPECT_THAT(lookup.rules, Not(IsEmpty()));
}

TEST(Lookup, WhatFitsNothingNamesTheNearestCause) {
  const Lookup lookup = look_up("driver_librari_mismatsch", known());
  EXPECT_THAT(lookup.causes, IsEmpty());
  EXPECT_EQ(lookup.nearest, "driver_library_mismatch");
}

TEST(Lookup, AShortWordThatOnlyStandsWithinOthersIsNotKnown) {
  for (const char* typed : {"foo", "bar"}) EXPECT_THAT(look_up(typed, known()).causes, IsEmpty()) << typed;
  EXPECT_THAT(look_up("BAR", known()).causes, Not(IsEmpty())) << "an abbreviation";
  for (const auto& [typed, id] : {std::pair{"ecc", "ecc_error"}, std::pair{"wsl", "wsl_driver"}}) {
    const Lookup lookup = look_up(typed, known());
    ASSERT_THAT(lookup.causes, Not(IsEmpty())) << typed;
    EXPECT_EQ(lookup.causes[0]->id, id);
  }
}

TEST(Lookup, OutOfMemoryIsTheGpusFirstAndThenTheHosts) {
  for (const char* typed : {"oom", "OOM", "out of memory"}) {
    const Lookup lookup = look_up(typed, known());
    ASSERT_GE(lookup.causes.size(), 2U) << typed;
    EXPECT_EQ(lookup.causes[0]->id, "oom_capacity") << typed;
    EXPECT_EQ(lookup.causes[1]->id, "oom_host") << typed;
  }
}

TEST(Lookup, TheJsonHasWhatWasFound) {
  const Lookup lookup = look_up("driver_library_mismatch", known());
  const Json json = Json::parse(to_json(lookup).dump());
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["cuda_code"], nullptr);
  EXPECT_EQ(json["nearest"], nullptr);
  ASSERT_THAT(json["causes"], SizeIs(lookup.causes.size()));
  const auto& cause = *lookup.causes[0];
  EXPECT_EQ(json["causes"][0]["id"], cause.id);
  EXPECT_EQ(json["causes"][0]["link"], cause.link);
  EXPECT_THAT(json["causes"][0]["fix"], SizeIs(cause.fix.size()));
  EXPECT_THAT(json["causes"][0]["rules"], SizeIs(rules_of(cause).size()));
}

TEST(Causes, TheListHasEachOnce) {
  const Json json = causes_json();
  ASSERT_THAT(json["causes"], SizeIs(knowledge::diagnosis_causes().size()));
  for (std::size_t i = 0; i < json["causes"].size(); ++i)
    EXPECT_EQ(json["causes"][i]["id"], knowledge::diagnosis_causes()[i].id);
}

TEST(Causes, WhatACauseExplainsFollowsFromIt) {
  for (const auto& cause : knowledge::diagnosis_causes()) {
    for (const auto consequence : cause.explains) {
      const auto* row = knowledge::diagnosis_cause(consequence);
      ASSERT_NE(row, nullptr) << consequence;
      EXPECT_THAT(follows_from(*row), Contains(std::string(cause.id)));
    }
  }
}

TEST(Causes, OfOneAreaStandTogether) {
  const auto causes = causes_by_area();
  ASSERT_THAT(causes, SizeIs(knowledge::diagnosis_causes().size()));
  EXPECT_EQ(causes.front(), &knowledge::diagnosis_causes().front()) << "areas in the order of the data";
  std::vector<std::string_view> begun;
  for (std::size_t i = 0; i < causes.size(); ++i) {
    if (i > 0 && causes[i]->area == causes[i - 1]->area) continue;
    EXPECT_THAT(begun, ::testing::Not(Contains(causes[i]->area)));
    begun.push_back(causes[i]->area);
  }
}

TEST(Causes, StepsForSomeProgramsAreTakenApart) {
  EXPECT_EQ(programs_and_step("[vllm,sglang] step"),
            (std::pair<std::string_view, std::string_view>("vllm,sglang", "step")));
  EXPECT_EQ(programs_and_step("[no blank]step").first, "");
  const std::vector<std::string_view> steps{"[vllm,sglang] lower it", "reboot"};
  EXPECT_EQ(steps_of_all_programs(steps), (std::vector<std::string>{"vllm,sglang: lower it", "reboot"}));
}

}  // namespace
}  // namespace gpuwarden::diagnosis
