// SPDX-License-Identifier: Apache-2.0
#include "compat/tables.hpp"
#include "gpuwarden/compat/question.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::compat {
namespace {

using namespace gpuwarden::testing;
using knowledge::RunsOn;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Question> asked_by(Inquiry inquiry) { return read_question(inquiry, tables()); }

TEST(Inquiry, EachPartIsAQuestion) {
  EXPECT_EQ(asked_by({})->kind, "machine");
  EXPECT_EQ(asked_by({.text = " xid 79 "})->xid, 79);
  EXPECT_EQ(asked_by({.cuda = "cu128"})->cuda, (Version{12, 8}));
  EXPECT_EQ(asked_by({.cuda = "12.8"})->text, "CUDA 12.8");
  EXPECT_EQ(asked_by({.purpose = "torch==2.5.1"})->kind, "package");
  EXPECT_EQ(asked_by({.gpus = {"RTX 4090"}})->kind, "gpu");
  EXPECT_EQ(asked_by({.gpus = {"RTX 4090,H100"}})->kind, "machine") << "what both run";
  EXPECT_EQ(asked_by({.gpus = {"RTX 4090"}, .driver = "550"})->kind, "machine") << "what these run";
  EXPECT_EQ(asked_by({.purpose = "torch==2.5.1", .matrix = true})->kind, "matrix");
}

TEST(Inquiry, ADriverAmongTheWordsIsThePlaces) {
  Inquiry inquiry{.text = "driver 550.54"};
  const auto question = read_question(inquiry, tables());
  ASSERT_THAT(question, IsOk());
  EXPECT_EQ(question->kind, "machine");
  EXPECT_EQ(question->text, "driver 550.54");
  EXPECT_TRUE(inquiry.names_place());
  EXPECT_EQ(with_named(inquiry, {}, tables())->driver, (Version{550, 54}));
}

TEST(Inquiry, SeveralQuestionsAtOnceAreRefused) {
  EXPECT_THAT(asked_by({.text = "xid 79", .cuda = "12.8"}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("'xid 79' and what a CUDA version")));
  EXPECT_THAT(asked_by({.text = "xid 79", .purpose = "torch"}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("separate questions")));
}

TEST(WithNamed, WhatIsNamedReplacesWhatTheMachineToldOfIt) {
  Place place{.gpus = {{.name = "a card"}}, .driver = Version{535}, .machine = "aarch64", .cuda = "12.2"};
  place.torches.push_back({});
  const auto other_gpus = with_named({.gpus = {"H100"}}, place, tables());
  ASSERT_THAT(other_gpus, IsOk());
  EXPECT_TRUE(other_gpus->named);
  EXPECT_EQ(other_gpus->gpus[0].architecture, 90);
  EXPECT_EQ(other_gpus->machine, "") << "theirs is not this one's";
  EXPECT_THAT(other_gpus->torches, IsEmpty());
  EXPECT_EQ(other_gpus->driver, Version{535});
  const auto other_driver = with_named({.driver = "580"}, place, tables());
  ASSERT_THAT(other_driver, IsOk());
  EXPECT_EQ(other_driver->cuda, "") << "the old driver's word";
  EXPECT_EQ(other_driver->machine, "aarch64");
}

TEST(ParseDriver, DriversBeforeCudaAreNone) {
  EXPECT_EQ(parse_driver("550.54.15"), (Version{550, 54, 15}));
  for (const char* text : {"", "99", "12.8", "new"})
    EXPECT_THAT(parse_driver(text), FailsWith(ErrorCode::invalid_argument, HasSubstr("is not a driver version")))
        << text;
}

TEST(ParseDate, TakesMonthsAndDaysThatExist) {
  using std::chrono::sys_days, std::chrono::year;
  EXPECT_EQ(parse_date("2027-06"), sys_days(year(2027) / 6 / 1));
  EXPECT_EQ(parse_date("2028-02-29"), sys_days(year(2028) / 2 / 29));
  for (const char* text : {"", "2027", "2027-13", "2027-02-29", "1999-12", "2201-01", "2027-06-30-1", "tomorrow"})
    EXPECT_THAT(parse_date(text), FailsWith(ErrorCode::invalid_argument, HasSubstr("is not a date"))) << text;
}

TEST(SpansOf, ARowThatDoesNotBelongParts) {
  const auto row = [](int minor, RunsOn how) { return ToolkitRow{{13, minor}, true, how}; };
  const std::vector<ToolkitRow> rows{row(4, RunsOn::natively), row(3, RunsOn::natively), row(2, RunsOn::not_at_all),
                                     row(1, RunsOn::natively)};
  EXPECT_THAT(spans_of(rows, RunsOn::natively), ElementsAre("13.1", "13.3 to 13.4"));
  EXPECT_THAT(spans_of(rows, RunsOn::not_at_all), ElementsAre("13.2"));
  EXPECT_THAT(spans_of(rows, std::nullopt), IsEmpty());
}

TEST(ReleasesThatRun, AreTheNewestFirstWithTheWheelsThatFit) {
  const auto place = with_named({.gpus = {"H100"}, .driver = "550.54.15"}, {}, tables());
  ASSERT_THAT(place, IsOk());
  const Asked asked{tables(), *place, kToday};
  const auto releases = releases_that_run(asked, answer_machine(asked).torch);
  ASSERT_GT(releases.size(), 2U);
  for (std::size_t i = 0; i < releases.size(); ++i) {
    if (i > 0) {
      EXPECT_GT(releases[i - 1].torch, releases[i].torch);
    }
    ASSERT_FALSE(releases[i].builds.empty());
    for (const auto* build : releases[i].builds) {
      EXPECT_EQ(build->torch, releases[i].torch);
      EXPECT_TRUE(knowledge::is_fit(fit_here(asked, *build)));
    }
  }
}

TEST(CodeFor, AGenerationsCodeRunsOnItsLaterMembers) {
  EXPECT_EQ(code_for(86), "sm_80 to sm_86, and PTX up to compute_86");
  EXPECT_EQ(code_for(87), "sm_87, and PTX up to compute_87") << "a Jetson's";
  EXPECT_EQ(code_for(90), "sm_90, and PTX up to compute_90; of code for one architecture alone only sm_90a");
}

TEST(CompatQuestion, IsReadInManySpellings) {
  for (const char* text : {"cu128", "cuda 12.8", "cuda==12.8", "cuda12.8"}) {
    const auto question = parse_question(tables(), text);
    ASSERT_TRUE(question) << text;
    EXPECT_EQ(question->cuda, (Version{12, 8})) << text;
    EXPECT_EQ(question->kind, "cuda");
  }
  EXPECT_EQ(parse_question(tables(), "xid 79")->xid, 79);
  EXPECT_EQ(parse_question(tables(), "pytorch 2.5.1")->kind, "package");
  EXPECT_EQ(parse_question(tables(), "cudnn")->kind, "component");
  EXPECT_EQ(parse_question(tables(), "RTX 5090")->gpu, "RTX 5090");
  EXPECT_EQ(parse_question(tables(), "train llama-3-8b")->kind, "job");
  EXPECT_FALSE(parse_question(tables(), "xid many"));
  EXPECT_FALSE(parse_question(tables(), "torch==new"));
  EXPECT_EQ(parse_question(tables(), "flash-attn==3")->purpose->package->name, "flash-attn-3");
  EXPECT_EQ(parse_question(tables(), "flash_attn 2.8.3")->purpose->package->name, "flash-attn");
}

}  // namespace
}  // namespace gpuwarden::compat
