// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/expression.hpp"

#include <gmock/gmock.h>

#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::telemetry {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;

/// A GPU at work: 80 °C, 350 of 700 W, 20 of 80 GiB, ann's and bob's processes, held back by its power limit.
class ExpressionTest : public ::testing::Test {
 protected:
  ExpressionTest() {
    record_.sample.temperature = 80_degC;
    record_.gpu.temperature_slowdown = 87_degC;
    record_.sample.power = 350_W;
    record_.sample.power_limit = 700_W;
    record_.sample.memory_used = 20_GiB;
    record_.sample.utilization_gpu = 97_pct;
    record_.sample.clock_sm = 1500_MHz;
    record_.sample.pcie_replays = Count(7);
    record_.sample.throttle_reasons = {facts::ThrottleReason::sw_power_cap};
    record_.processes = {process(7, "ann", "python train.py"), process(8, "bob", "vllm serve")};
    subject_ = {.gpu = &record_, .events = {}, .host = "node-7"};
  }

  static facts::GpuProcess process(std::int32_t pid, std::string user, std::string command) {
    facts::GpuProcess process;
    process.pid = Pid{pid};
    process.user = std::move(user);
    process.command = std::move(command);
    process.memory = Bytes(static_cast<std::uint64_t>(pid) << 30U);
    return process;
  }

  std::optional<bool> holds(std::string_view text) const {
    const auto expression = Expression::parse(text);
    EXPECT_THAT(expression, IsOk()) << text;
    return expression ? expression->holds(subject_) : std::nullopt;
  }

  facts::GpuRecord record_ = testing::gpu(3);
  Subject subject_;
};

TEST_F(ExpressionTest, ComparesNumbersWithOrWithoutTheirUnit) {
  for (const char* const text :
       {"temperature > 79",   "temp >= 80",    "temp == 80C",       "temp = 80",
        "temp != 81 °C",      "temp < 81",     "temp <= 80",        "80 == temp",
        "power > 0.3kW",      "power < 351 W", "utilization > 90%", "util > 90",
        "clock_sm >= 1.5GHz", "mem > 19GiB",   "mem > 20GB",        "memory_used < 20.5G",
        "mem == 21474836480", "gpu == 3",      "gpu in (1, 3)",     "not gpu in (1, 2)",
        "gpu not in (1, 2)",  "temp > -5",     "temp > 8e1 - 1",    "process_memory >= 8GiB"}) {
    EXPECT_EQ(holds(text), true) << text;
  }
  for (const char* const text : {"temp > 80", "power > 0.4kW", "gpu in (0, 1)", "mem > 21GiB", "temp != 80"}) {
    EXPECT_EQ(holds(text), false) << text;
  }
}

TEST_F(ExpressionTest, Calculates) {
  EXPECT_EQ(holds("temperature > slowdown - 5"), false);
  EXPECT_EQ(holds("temperature > slowdown - 8"), true);
  EXPECT_EQ(holds("slowdown - temperature == 7"), true);
  EXPECT_EQ(holds("power * 2 == power_limit"), true);
  EXPECT_EQ(holds("power / power_limit == 0.5"), true) << "watts by watts are a plain number";
  EXPECT_EQ(holds("power > 40% * power_limit"), true);
  EXPECT_EQ(holds("(temperature - 10) / 2 == 35"), true);
  EXPECT_EQ(holds("2 + 3 * 4 == 14"), true) << "products before sums";
  EXPECT_EQ(holds("-temperature == -80"), true);
  EXPECT_EQ(holds("10 - 4 - 3 == 3"), true) << "from the left";
}

TEST_F(ExpressionTest, TakesAPercentageForAShareOfTheWhole) {
  EXPECT_EQ(holds("memory_used > 24%"), true);
  EXPECT_EQ(holds("memory_used > 25%"), false);
  EXPECT_EQ(holds("25% == memory_used"), true);
  EXPECT_EQ(holds("power < 51%"), true);
  EXPECT_EQ(holds("mem% == 25"), true);
  EXPECT_EQ(holds("mem% > 24%"), true) << "a percentage is itself in percent";
  EXPECT_EQ(holds("clock_sm > 90%"), std::nullopt) << "the highest clock is not known";
}

TEST_F(ExpressionTest, JoinsWithAllTheSpellings) {
  EXPECT_EQ(holds("temp > 85 | util > 90"), true);
  EXPECT_EQ(holds("temp > 85 || util > 90"), true);
  EXPECT_EQ(holds("temp > 85 OR util > 90"), true);
  EXPECT_EQ(holds("temp > 70 & util > 90"), true);
  EXPECT_EQ(holds("temp > 70 && util > 90"), true);
  EXPECT_EQ(holds("temp > 70 while memory_used > 10% and util > 90"), true);
  EXPECT_EQ(holds("!(temp > 70)"), false);
  EXPECT_EQ(holds("not temp > 90"), true) << "a comparison binds more than its 'not'";
  EXPECT_EQ(holds("temp > 90 and util > 90 or gpu == 3"), true) << "'and' before 'or'";
  EXPECT_EQ(holds("temp > 90 and (util > 90 or gpu == 3)"), false);
  EXPECT_EQ(holds("not not temp > 70"), true);
}

TEST_F(ExpressionTest, ComparesTexts) {
  for (const char* const text :
       {"user == ann", "user = 'bob'", "user != eve", "user in (eve, bob)", "user not in (eve, mallory)", "name ~ h100",
        "name ~ \"H100 80GB\"", "name !~ a100", "command ~ train.py", "host == node-7", "host ~ NODE",
        "state == available", "state == AVAILABLE", "user", "uuid ~ GPU-3", "cmd ~ 'vllm serve'"}) {
    EXPECT_EQ(holds(text), true) << text;
  }
  for (const char* const text : {"user == Ann", "user == ann & user == eve", "user != ann", "state == lost",
                                 "lease_user", "container == 12ab", "host == node-70"}) {
    EXPECT_EQ(holds(text), false) << text;
  }
}

TEST_F(ExpressionTest, AsksOneProcessWhereThereIsOne) {
  subject_.process = &record_.processes->back();
  EXPECT_EQ(holds("user == ann"), false);
  EXPECT_EQ(holds("user == bob and pid == 8"), true);
  EXPECT_EQ(holds("temp > 70 and command ~ vllm"), true);
}

TEST_F(ExpressionTest, NamesReasonsForThrottling) {
  EXPECT_EQ(holds("throttle"), true);
  EXPECT_EQ(holds("throttle power"), true);
  EXPECT_EQ(holds("throttle sw_power_cap"), true);
  EXPECT_EQ(holds("throttle == power"), true);
  EXPECT_EQ(holds("throttle thermal"), false);
  EXPECT_EQ(holds("throttle hw"), false);
  EXPECT_EQ(holds("not throttle thermal & temp > 70"), true);
  EXPECT_EQ(holds("throttle and temp > 70"), true) << "'and' is no reason";
  record_.sample.throttle_reasons = {facts::ThrottleReason::gpu_idle};
  EXPECT_EQ(holds("throttle"), false) << "an idle GPU is not held back";
  EXPECT_EQ(holds("throttle gpu_idle"), true);
  record_.sample.throttle_reasons.reset();
  EXPECT_EQ(holds("throttle thermal"), std::nullopt);
}

TEST_F(ExpressionTest, HearsOfXids) {
  EXPECT_EQ(holds("xid"), false);
  const std::vector<facts::GpuEvent> events{{.kind = facts::GpuEventKind::clock, .data = 48},
                                            {.kind = facts::GpuEventKind::xid, .data = 79}};
  subject_.events = events;
  EXPECT_EQ(holds("xid"), true);
  EXPECT_EQ(holds("xid == 79"), true);
  EXPECT_EQ(holds("xid in (48, 79)"), true);
  EXPECT_EQ(holds("79 <= xid"), true);
  EXPECT_EQ(holds("xid == 48"), false) << "that was another kind of event";
  EXPECT_EQ(holds("event == clock"), true);
  EXPECT_TRUE(Expression::parse("xid == 79")->about_events());
  EXPECT_FALSE(Expression::parse("temp > 79")->about_events());
}

TEST_F(ExpressionTest, ComparesCountersWithTheReadingBefore) {
  EXPECT_EQ(holds("increase(pcie_replays) > 0"), std::nullopt) << "there was none";
  facts::GpuSample before;
  subject_.before = &before;
  EXPECT_EQ(holds("increase(pcie_replays) > 0"), std::nullopt) << "it was not known then";
  before.pcie_replays = Count(5);
  EXPECT_EQ(holds("increase(pcie_replays) == 2"), true);
  EXPECT_EQ(holds("increase(pcie_replays)"), true);
  before.pcie_replays = Count(7);
  EXPECT_EQ(holds("increase(pcie_replays)"), false);
  before.pcie_replays = Count(100);
  EXPECT_EQ(holds("increase(pcie_replays) == 7"), true) << "a counter that was set back counts from 0";
  EXPECT_TRUE(Expression::parse("increase(pcie_replays) > 0")->about_increases());
  EXPECT_THAT(Expression::parse("increase(temperature) > 0"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("'temperature' is no counter")));
}

TEST_F(ExpressionTest, WhatIsNotKnownMakesNeitherItNorItsOppositeTrue) {
  EXPECT_EQ(holds("fan > 50"), std::nullopt);
  EXPECT_EQ(holds("not fan > 50"), std::nullopt);
  EXPECT_EQ(holds("fan > 50 and temp > 70"), std::nullopt);
  EXPECT_EQ(holds("fan > 50 and temp > 90"), false);
  EXPECT_EQ(holds("fan > 50 or temp > 70"), true);
  EXPECT_EQ(holds("fan > 50 or temp > 90"), std::nullopt);
  EXPECT_EQ(holds("fan - fan == 0"), std::nullopt);
  EXPECT_EQ(holds("temp / (gpu - 3) > 5"), std::nullopt) << "divided by nothing";
  EXPECT_EQ(holds("health == error"), std::nullopt);
  EXPECT_EQ(holds("serial != 5"), std::nullopt);
}

TEST_F(ExpressionTest, OneKnownUserIsEnoughToFindHimButNotToMissAnother) {
  record_.processes->back().user.reset();
  EXPECT_EQ(holds("user == ann"), true);
  EXPECT_EQ(holds("user == bob"), std::nullopt);
  EXPECT_EQ(holds("user != ann"), false);
  EXPECT_EQ(holds("user != eve"), std::nullopt);
  record_.processes.reset();
  EXPECT_EQ(holds("user == ann"), std::nullopt);
}

TEST_F(ExpressionTest, TakesFlagsAloneForConditions) {
  record_.sample.remapped_rows_failed = Count(0);
  EXPECT_EQ(holds("remapped_rows_failed"), false);
  record_.sample.remapped_rows_failed = Count(1);
  EXPECT_EQ(holds("remapped_rows_failed"), true);
  EXPECT_EQ(holds("leased"), false);
}

struct Wrong {
  const char* text;
  const char* message;
  const char* hint;
};

TEST_F(ExpressionTest, SaysWhereAndWhatIsWrong) {
  for (const auto& [text, message, hint] : std::vector<Wrong>{
           {"", "column 1: it ends where a name or a number is expected", ""},
           {"temp >", "column 7: it ends where a name or a number is expected", ""},
           {"gpu == 3 & temprature > 80", "column 12: unknown name 'temprature'", "did you mean 'temperature'?"},
           {"temp > 80 util > 3", "column 11: 'util' stands where the end or 'and' is expected", ""},
           {"temp", "column 1: 'temperature' alone is no condition", "compare it: temperature > 85C"},
           {"temp > 300W", "column 8: the units do not go together: the left side is in °C, the right side in W",
            "for example 85C"},
           {"power > 50°C", "column 9: the units do not go together", "300W"},
           {"power > temp", "column 9: the units do not go together", ""},
           {"temp > 50%", "column 8: a percentage makes no sense beside 'temperature', which is in °C", "85C"},
           {"mem > 1000", "column 7: 1000 bytes are meant? a unit is missing", "20GiB"},
           {"temp > 80foo", "column 8: unknown unit 'foo'", "300W"},
           {"60 < temp < 80", "column 11: two comparisons in a row", "join them"},
           {"name > 5", "column 6: 'name' is a text", "compare it with"},
           {"temp ~ 5", "column 6: '~' is for texts", ""},
           {"temp > user", "column 8: 'user' is a text, not a number", ""},
           {"pid + 1 == 5", "column 1: 'pid' has several values", ""},
           {"state == losst", "column 10: unknown state 'losst'", "did you mean 'lost'?"},
           {"throttle thermall", "column 10: unknown throttle reason 'thermall'", "did you mean 'thermal'?"},
           {"user == 'ann", "column 9: the quote is not closed", ""},
           {"user in ann", "column 9: 'ann' stands where '(' is expected", ""},
           {"user in (ann", "column 13: it ends where ')' is expected", ""},
           {"(temp > 80", "column 11: it ends where ')' is expected", ""},
           {"temp > 80 for", "column 11: 'for' stands where", ""},
           {"temp > 80 #", "column 11: '#' stands where", ""},
           {"(temp > 80) > 5", "column 13: '>' stands where the end or 'and' is expected", ""},
           {"temp > 1.2.3", "column 8: '1.2.3' stands where", ""},
           {"power * power > 5", "column 9: W cannot be multiplied by W", ""},
           {"5 / power > 5", "column 5: a plain number cannot be divided by W", ""},
           {"'ann' == user", "column 1: a text can only stand behind a comparison", ""},
           {"\x1b[1m > 5", "column 1: '?' stands where", ""}}) {
    const auto expression = Expression::parse(text);
    ASSERT_THAT(expression, FailsWith(ErrorCode::invalid_argument, HasSubstr(message))) << text;
    EXPECT_THAT(expression.error().hint, HasSubstr(hint)) << text;
  }
}

TEST_F(ExpressionTest, IsBoundInLengthAndDepth) {
  const std::string deep = std::string(100, '(') + "temp > 5" + std::string(100, ')');
  EXPECT_THAT(Expression::parse(deep), FailsWith(ErrorCode::invalid_argument, HasSubstr("nested more than 32 deep")));
  EXPECT_THAT(Expression::parse(std::string(100, '!') + "user"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("nested")));
  EXPECT_THAT(Expression::parse(std::string(100, '-') + "5 > 4"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("nested")));
  std::string longest = "temp > 5";
  while (longest.size() < 4085) longest += " & temp > 5";
  EXPECT_THAT(Expression::parse(longest), IsOk());
  EXPECT_THAT(Expression::parse(longest + longest), FailsWith(ErrorCode::invalid_argument, HasSubstr("longer than")));
  std::string sum = "temp > 1";
  while (sum.size() < 4094) sum += "+1";
  EXPECT_EQ(holds(sum), false);
}

TEST_F(ExpressionTest, TellsWhatItSpeaksOf) {
  const auto expression = Expression::parse(" temp > slowdown - 5 and temperature < 200 and user == ann ");
  ASSERT_THAT(expression, IsOk());
  EXPECT_EQ(expression->text(), "temp > slowdown - 5 and temperature < 200 and user == ann");
  std::vector<std::string_view> names;
  for (const Variable* variable : expression->variables()) names.push_back(variable->name);
  EXPECT_THAT(names, ::testing::ElementsAre("temperature", "slowdown", "user"));
  EXPECT_TRUE(expression->about_processes());
  EXPECT_FALSE(Expression::parse("temp > 5")->about_processes());
  EXPECT_EQ(Expression().holds(subject_), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::telemetry
