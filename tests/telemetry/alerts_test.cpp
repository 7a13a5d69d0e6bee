// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/alerts.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using WallTime = std::chrono::system_clock::time_point;

std::vector<AlertRule> rules_of(const std::string& text) {
  auto config = parse_alert_rules("built_in: false\nrules:\n" + text, "test.yaml");
  EXPECT_THAT(config, IsOk());
  return config ? std::move(config->rules) : std::vector<AlertRule>();
}

/// One or more GPUs whose temperature is set, read second by second.
class AlertBookTest : public ::testing::Test {
 protected:
  /// The changes of a reading, each as "began hot".
  std::vector<std::string> read(AlertBook& book, std::optional<int> temperature = std::nullopt,
                                std::chrono::milliseconds later = 1s) {
    reading_.snapshot.taken_at += later;
    for (auto& record : reading_.snapshot.gpus) {
      record.sample.temperature = temperature ? std::optional(Celsius(*temperature)) : std::nullopt;
    }
    changes_ = book.judge(reading_);
    reading_.events.clear();
    std::vector<std::string> words;
    for (const AlertChange& change : changes_)
      words.push_back(
          fmt::format("{} {}{}", to_string(change.kind), change.alert.rule, change.silenced ? " silenced" : ""));
    return words;
  }
  /// The changes of `count` readings, one a second, each as "5 began hot" with the second at which it came.
  std::vector<std::string> read_for(AlertBook& book, int count, std::optional<int> temperature) {
    std::vector<std::string> all;
    for (int i = 1; i <= count; ++i) {
      for (const auto& word : read(book, temperature)) all.push_back(fmt::format("{} {}", i, word));
    }
    return all;
  }
  void xid(std::uint64_t code, std::uint32_t gpu = 0) {
    reading_.events.push_back({.kind = facts::GpuEventKind::xid,
                               .uuid = reading_.snapshot.gpus.at(gpu).gpu.uuid,
                               .data = code,
                               .time = reading_.snapshot.taken_at});
  }

  Reading reading_{.snapshot = testing::fleet(1)};
  std::vector<AlertChange> changes_;
  AlertBookTest() {
    reading_.snapshot.taken_at = WallTime(1'700'000'000s);
    reading_.snapshot.host = "node-7";
  }
};

TEST_F(AlertBookTest, BeginsWhenItsConditionHasHeldWithoutABreak) {
  AlertBook book(rules_of("- {id: hot, when: temperature > 80 for 3s}"));
  EXPECT_THAT(read_for(book, 3, 85), IsEmpty()) << "it has held for 2 s";
  EXPECT_THAT(read(book, 70), IsEmpty()) << "a break";
  EXPECT_THAT(read_for(book, 5, 85), ElementsAre("4 began hot"));
  EXPECT_THAT(read(book, 70), ElementsAre("ended hot"));
  EXPECT_THAT(book.active(), IsEmpty());
}

TEST_F(AlertBookTest, TellsWhatItIs) {
  reading_.snapshot.simulated = true;
  AlertBook book(
      rules_of("- {id: hot, when: temp > 80, level: error, message: 'GPU {gpu} of {host}: {value}, {fan}', "
               "next_step: 'cool GPU {gpu}'}"));
  read(book, 85);
  const auto active = book.active();
  ASSERT_EQ(active.size(), 1U);
  const Alert& alert = active[0];
  EXPECT_EQ(alert.message, "GPU 0 of node-7: 85 °C, -");
  EXPECT_EQ(alert.next_step, "cool GPU 0");
  EXPECT_EQ(alert.level, AlertLevel::error);
  EXPECT_EQ(alert.uuid, reading_.snapshot.gpus[0].gpu.uuid);
  EXPECT_EQ(alert.host, "node-7");
  EXPECT_EQ(alert.condition, "temp > 80");
  EXPECT_EQ(alert.since, reading_.snapshot.taken_at);
  EXPECT_EQ(alert.unit, "°C");
  EXPECT_TRUE(alert.simulated);
  read(book, 90);
  EXPECT_EQ(book.active()[0].value, 90);
  read(book);
  EXPECT_EQ(book.active()[0].value, 90) << "the last that was known";
}

TEST_F(AlertBookTest, HasHysteresis) {
  AlertBook book(rules_of("- {id: hot, when: temp > 80, until: temp < 75, clear_for: 2s}"));
  EXPECT_THAT(read(book, 81), ElementsAre("began hot"));
  EXPECT_THAT(read_for(book, 10, 78), IsEmpty()) << "between both";
  EXPECT_THAT(read_for(book, 2, 74), IsEmpty());
  EXPECT_THAT(read(book, 76), IsEmpty()) << "not cool for long enough";
  EXPECT_THAT(read_for(book, 5, 74), ElementsAre("3 ended hot"));
}

TEST_F(AlertBookTest, DoesNotEndWhileItsConditionHolds) {
  AlertBook book(rules_of("- {id: odd, when: temp > 80, until: temp < 90}"));
  EXPECT_THAT(read_for(book, 5, 85), ElementsAre("1 began odd"));
}

TEST_F(AlertBookTest, WhatIsNotKnownNeitherBeginsNorEnds) {
  AlertBook book(rules_of("- {id: hot, when: temp > 80 for 3s, clear_for: 3s}"));
  EXPECT_THAT(read_for(book, 10, std::nullopt), IsEmpty());
  EXPECT_THAT(read_for(book, 2, 85), IsEmpty());
  EXPECT_THAT(read_for(book, 60, std::nullopt), IsEmpty()) << "a minute of ignorance is no minute of heat";
  EXPECT_THAT(read_for(book, 3, 85), ElementsAre("2 began hot"));
  EXPECT_THAT(read_for(book, 2, 70), IsEmpty());
  EXPECT_THAT(read_for(book, 60, std::nullopt), IsEmpty()) << "nor of cold";
  EXPECT_THAT(read_for(book, 3, 70), ElementsAre("2 ended hot"));
}

TEST_F(AlertBookTest, RepeatsUntilItIsAcknowledged) {
  AlertBook book(rules_of("- {id: hot, when: temp > 80, repeat: 10s}"));
  EXPECT_THAT(read_for(book, 25, 85), ElementsAre("1 began hot", "11 repeated hot", "21 repeated hot"));
  const auto id = book.active()[0].id;
  EXPECT_THAT(book.acknowledge(id, "ann"), IsOk());
  EXPECT_THAT(read_for(book, 25, 85), IsEmpty());
  EXPECT_EQ(book.active()[0].acknowledged_by, "ann");
  EXPECT_THAT(read(book, 70), ElementsAre("ended hot"));
  EXPECT_THAT(book.acknowledge(id, "ann"), FailsWith(ErrorCode::not_found, HasSubstr("no alert 1 is active")));
  EXPECT_THAT(read(book, 85), ElementsAre("began hot"));
  EXPECT_NE(book.active()[0].id, id);
  EXPECT_EQ(book.active()[0].acknowledged_by, "");
}

TEST_F(AlertBookTest, IsSilentUntilASilenceEnds) {
  AlertBook book(rules_of("- {id: hot, when: temp > 80}\n- {id: hotter, when: temp > 84}"));
  book.silence({.rule = "hot", .until = reading_.snapshot.taken_at + 5s, .by = "ann"});
  EXPECT_THAT(read_for(book, 4, 85), ElementsAre("1 began hot silenced", "1 began hotter"));
  EXPECT_EQ(book.silences().size(), 1U);
  EXPECT_THAT(read_for(book, 4, 85), ElementsAre("1 repeated hot")) << "it lasts, and nobody was told";
  EXPECT_THAT(book.silences(), IsEmpty());
}

TEST_F(AlertBookTest, TellsTheEndOfWhatWasToldOnly) {
  AlertBook book(rules_of("- {id: hot, when: temp > 80}"));
  book.silence({.uuid = reading_.snapshot.gpus[0].gpu.uuid, .until = reading_.snapshot.taken_at + 1h});
  EXPECT_THAT(read(book, 85), ElementsAre("began hot silenced"));
  EXPECT_THAT(read(book, 70), ElementsAre("ended hot silenced"));
  book.silence({.uuid = reading_.snapshot.gpus[0].gpu.uuid, .until = reading_.snapshot.taken_at});
  EXPECT_EQ(book.silences().size(), 1U) << "the newer takes the older's place";
  EXPECT_THAT(read(book, 85), ElementsAre("began hot"));
  book.silence({.until = reading_.snapshot.taken_at + 1h});
  EXPECT_THAT(read(book, 70), ElementsAre("ended hot"));
}

TEST_F(AlertBookTest, CountsEventsAndEndsTenMinutesAfterTheLast) {
  AlertBook book(rules_of("- {id: died, when: 'xid in (48, 79)', message: 'Xid {value}'}"));
  EXPECT_THAT(read(book), IsEmpty());
  xid(31);
  EXPECT_THAT(read(book), IsEmpty());
  xid(79);
  EXPECT_THAT(read(book), ElementsAre("began died"));
  EXPECT_EQ(book.active()[0].message, "Xid 79");
  EXPECT_THAT(read_for(book, 300, std::nullopt), IsEmpty());
  xid(48);
  EXPECT_THAT(read(book), IsEmpty());
  EXPECT_EQ(book.active()[0].count, 2U);
  EXPECT_EQ(book.active()[0].message, "Xid 48");
  EXPECT_THAT(read_for(book, 700, std::nullopt), ElementsAre("601 ended died"));
  xid(79);
  EXPECT_THAT(read(book), ElementsAre("began died"));
  EXPECT_EQ(book.active()[0].count, 1U);
}

TEST_F(AlertBookTest, ComparesCountersFromReadingToReading) {
  AlertBook book(rules_of("- {id: ecc, when: increase(ecc_uncorrected_volatile) > 0, clear_for: 5s}"));
  auto& errors = reading_.snapshot.gpus[0].sample.ecc_uncorrected_volatile;
  errors = Count(7);
  EXPECT_THAT(read(book), IsEmpty()) << "those are old";
  EXPECT_THAT(read(book), IsEmpty());
  errors.reset();
  EXPECT_THAT(read(book), IsEmpty());
  errors = Count(8);
  EXPECT_THAT(read(book), ElementsAre("began ecc")) << "a reading without it hides no error";
  EXPECT_THAT(read_for(book, 9, std::nullopt), ElementsAre("6 ended ecc"));
}

TEST_F(AlertBookTest, JudgesEachGpuByItself) {
  reading_.snapshot = testing::fleet(3);
  reading_.snapshot.taken_at = WallTime(1'700'000'000s);
  AlertBook book(rules_of("- {id: full, when: mem > 50%}\n- {id: died, when: xid, level: critical}"));
  reading_.snapshot.gpus[1].sample.memory_used = 70_GiB;
  reading_.snapshot.gpus[2].sample.memory_used = 60_GiB;
  xid(79, 2);
  EXPECT_THAT(read(book), ElementsAre("began full", "began full", "began died"));
  std::vector<std::string> order;
  for (const Alert& alert : book.active()) order.push_back(fmt::format("{} {}", alert.rule, alert.gpu.value));
  EXPECT_THAT(order, ElementsAre("died 2", "full 1", "full 2")) << "the worst first, then the oldest";
}

TEST_F(AlertBookTest, UsesHealthAndLeases) {
  AlertBook book(rules_of("- {id: unfit, when: health == error}\n- {id: held, when: lease_user == ann}"));
  facts::Health health{.uuid = reading_.snapshot.gpus[0].gpu.uuid, .state = facts::HealthState::error};
  facts::Lease lease{.uuid = health.uuid, .shared = false, .holders = {}};
  lease.holders.push_back({.user = "ann"});
  reading_.leases = {lease};
  const auto changes = book.judge(reading_, {&health, 1});
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_THAT(book.judge(reading_), IsEmpty()) << "unknown health ends nothing";
}

constexpr const char* kFolding =
    "- {id: crash, when: xid == 48, level: CRITICAL}\n"
    "- {id: unfit, when: health == error, level: ERROR, part_of: '*'}\n"
    "- {id: worst, when: temp > 100, level: CRITICAL, part_of: hot}\n"
    "- {id: hot, when: temp > 80, level: ERROR}\n";

TEST_F(AlertBookTest, OneEventIsOneAlertWithWhatFollowsFromItFoldedIn) {
  AlertBook book(rules_of(kFolding));
  facts::Health health{.uuid = reading_.snapshot.gpus[0].gpu.uuid, .state = facts::HealthState::error};
  const auto judge = [&](std::chrono::milliseconds later) {
    reading_.snapshot.taken_at += later;
    changes_ = book.judge(reading_, {&health, 1});
    reading_.events.clear();
    return changes_.size();
  };
  xid(48);
  ASSERT_EQ(judge(1s), 1U) << "one of them is told";
  EXPECT_EQ(changes_[0].alert.rule, "crash");
  EXPECT_THAT(changes_[0].alert.also, ElementsAre("GPU 0: health == error"));
  ASSERT_EQ(book.active().size(), 1U);
  EXPECT_THAT(book.active()[0].also, ElementsAre("GPU 0: health == error"));
  EXPECT_EQ(judge(1s), 0U);
  EXPECT_EQ(judge(11min), 0U) << "it lasts as long as what follows from it";
  AlertBook restarted(rules_of(kFolding));
  ASSERT_THAT(restarted.restore(book.state()), IsOk());
  ASSERT_EQ(restarted.active().size(), 1U);
  EXPECT_THAT(restarted.active()[0].also, ElementsAre("GPU 0: health == error"));
  health.state = facts::HealthState::available;
  EXPECT_EQ(judge(1s), 0U) << "the folded one ends quietly";
  ASSERT_EQ(judge(1s), 1U);
  EXPECT_EQ(changes_[0].alert.rule, "crash");
  EXPECT_EQ(changes_[0].kind, AlertChange::Kind::ended);
  EXPECT_THAT(book.active(), IsEmpty());
}

TEST_F(AlertBookTest, WhatWasToldBeforeItsCauseEndsAsAnAlertOfItsOwn) {
  AlertBook book(rules_of(kFolding));
  facts::Health health{.uuid = reading_.snapshot.gpus[0].gpu.uuid, .state = facts::HealthState::error};
  ASSERT_EQ(book.judge(reading_, {&health, 1}).size(), 1U);
  reading_.snapshot.taken_at += 1s;
  xid(48);
  const auto changes = book.judge(reading_, {&health, 1});
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].alert.rule, "crash");
  EXPECT_EQ(changes[1].alert.rule, "unfit");
  EXPECT_EQ(changes[1].kind, AlertChange::Kind::ended);
  EXPECT_EQ(changes[1].alert.part_of, changes[0].alert.id);
  EXPECT_EQ(book.active().size(), 1U);
}

TEST_F(AlertBookTest, WhatIsWorseThanItsCauseOrOnAnotherGpuStandsForItself) {
  AlertBook book(rules_of(kFolding));
  EXPECT_THAT(read(book, 85), ElementsAre("began hot"));
  EXPECT_THAT(read(book, 105), ElementsAre("began worst"));
  facts::Health health{.uuid = Uuid("GPU-elsewhere"), .state = facts::HealthState::error};
  EXPECT_THAT(book.judge(reading_, {&health, 1}), IsEmpty());
  EXPECT_EQ(book.active().size(), 2U);
}

TEST_F(AlertBookTest, WhatWasFoldedIntoARuleThatIsGoneStandsForItself) {
  AlertBook book(rules_of(kFolding));
  facts::Health health{.uuid = reading_.snapshot.gpus[0].gpu.uuid, .state = facts::HealthState::error};
  xid(48);
  book.judge(reading_, {&health, 1});
  book.set_rules(rules_of("- {id: unfit, when: health == error, level: ERROR}"));
  reading_.events.clear();
  std::vector<std::string> told;
  for (int i = 0; i < 2; ++i) {
    reading_.snapshot.taken_at += 1s;
    for (const auto& change : book.judge(reading_, {&health, 1}))
      told.push_back(fmt::format("{} {}", to_string(change.kind), change.alert.rule));
  }
  EXPECT_THAT(told, ElementsAre("ended crash", "repeated unfit"));
  AlertBook states(rules_of("- {id: hot, when: temp > 80}\n- {id: warm, when: temp > 60, part_of: hot}\n"));
  EXPECT_THAT(read(states, 85), ElementsAre("began hot"));
  EXPECT_THAT(read(states, 70), ElementsAre("ended hot")) << "a state that is over ends, whatever lasts of it";
}

TEST_F(AlertBookTest, ASilenceIsForARuleAndAGpuThatThereAre) {
  AlertBook book(rules_of(kFolding));
  EXPECT_THAT(book.check({.uuid = Uuid("GPU-any")}), IsOk()) << "no GPU is known yet";
  read(book, 20);
  EXPECT_THAT(book.check({.rule = "hot", .uuid = reading_.snapshot.gpus[0].gpu.uuid}), IsOk());
  EXPECT_THAT(book.check({}), IsOk());
  const auto rule = book.check({.rule = "hoot"});
  EXPECT_THAT(rule, FailsWith(ErrorCode::not_found, HasSubstr("no alert rule 'hoot'")));
  EXPECT_EQ(rule.error().hint, "did you mean 'hot'?");
  EXPECT_THAT(book.check({.uuid = Uuid("GPU-any")}), FailsWith(ErrorCode::not_found, HasSubstr("no GPU 'GPU-any'")));
}

TEST_F(AlertBookTest, TakesAMissingGpuForLostAndEndsNothingOfIt) {
  reading_.snapshot = testing::fleet(2);
  reading_.snapshot.taken_at = WallTime(1'700'000'000s);
  AlertBook book(rules_of("- {id: hot, when: temp > 80}\n- {id: lost, when: state == lost}\n- {id: died, when: xid}"));
  xid(79, 1);
  EXPECT_THAT(read(book, 85), ElementsAre("began hot", "began hot", "began died"));
  const auto gone = reading_.snapshot.gpus.back();
  reading_.snapshot.gpus.pop_back();
  EXPECT_THAT(read(book, 70), ElementsAre("ended hot", "began lost")) << "GPU 0 is cool, GPU 1 lost";
  EXPECT_EQ(changes_[1].alert.gpu, GpuIndex{1});
  EXPECT_THAT(read_for(book, 1000, 70), IsEmpty());
  EXPECT_EQ(book.active().size(), 3U);
  reading_.snapshot.gpus.push_back(gone);
  EXPECT_THAT(read(book, 70), ElementsAre("ended hot", "ended lost"));
}

TEST_F(AlertBookTest, TakesNoGpuForMissingWhileTheDriverDoesNotAnswer) {
  AlertBook book(rules_of("- {id: lost, when: state == lost}\n- {id: hot, when: temp > 80}"));
  read(book, 85);
  reading_.snapshot.problem.emplace();
  reading_.snapshot.gpus.clear();
  EXPECT_THAT(read_for(book, 100, 70), IsEmpty());
  EXPECT_EQ(book.active().size(), 1U);
}

TEST_F(AlertBookTest, KnowsAGpuByItsPlaceWhileItsUuidCannotBeRead) {
  AlertBook book(rules_of("- {id: stuck, when: state == not_answering}\n- {id: lost, when: state == lost}"));
  const auto healthy = reading_.snapshot.gpus[0];
  read(book, 50);
  reading_.snapshot.gpus[0].gpu.uuid = {};
  reading_.snapshot.gpus[0].state = facts::GpuState::not_answering;
  EXPECT_THAT(read(book, 50), ElementsAre("began stuck"));
  EXPECT_EQ(book.active()[0].uuid, healthy.gpu.uuid);
  reading_.snapshot.gpus[0] = healthy;
  EXPECT_THAT(read(book, 50), ElementsAre("ended stuck"));
}

TEST_F(AlertBookTest, RenamesWhatItKeptOfAGpuWhoseUuidWasNeverRead) {
  AlertBook book(rules_of("- {id: stuck, when: state == not_answering}\n- {id: lost, when: state == lost}"));
  const auto healthy = reading_.snapshot.gpus[0];
  reading_.snapshot.gpus[0].gpu.uuid = {};
  reading_.snapshot.gpus[0].state = facts::GpuState::not_answering;
  EXPECT_THAT(read(book, 50), ElementsAre("began stuck"));
  reading_.snapshot.gpus[0] = healthy;
  EXPECT_THAT(read(book, 50), ElementsAre("ended stuck"));
  EXPECT_EQ(changes_[0].alert.uuid, healthy.gpu.uuid);
}

TEST_F(AlertBookTest, TakesAClockThatIsSetBackForStandingStill) {
  AlertBook book(rules_of("- {id: hot, when: temp > 80 for 10s}"));
  EXPECT_THAT(read_for(book, 6, 85), IsEmpty()) << "5 s";
  EXPECT_THAT(read(book, 85, -24h), IsEmpty());
  EXPECT_THAT(read_for(book, 6, 85), ElementsAre("5 began hot")) << "5 s more";
}

TEST_F(AlertBookTest, EndsWhatARuleThatIsGoneHadBegun) {
  AlertBook book(rules_of("- {id: hot, when: temp > 80}\n- {id: hotter, when: temp > 84}"));
  read(book, 85);
  book.set_rules(rules_of("- {id: hotter, when: temp > 70}"));
  EXPECT_THAT(read(book, 75), ElementsAre("ended hot")) << "hotter goes on by its new condition";
  EXPECT_EQ(book.active().size(), 1U);
}

TEST_F(AlertBookTest, SurvivesARestart) {
  const std::string rules =
      "- {id: hot, when: temp > 80, repeat: 10s}\n- {id: slow, when: temp > 80 for 10s}\n"
      "- {id: ecc, when: increase(ecc_uncorrected_volatile)}";
  AlertBook book(rules_of(rules));
  auto& errors = reading_.snapshot.gpus[0].sample.ecc_uncorrected_volatile;
  errors = Count(5);
  read_for(book, 5, 85);
  book.silence({.rule = "x", .uuid = {}, .until = reading_.snapshot.taken_at + 2h, .by = "ann", .comment = "why"});
  EXPECT_THAT(book.acknowledge(1, "bob"), IsOk());
  const auto text = book.state().dump();
  AlertBook next(rules_of(rules));
  ASSERT_THAT(next.restore(nlohmann::json::parse(text)), IsOk());
  EXPECT_EQ(next.active(), book.active());
  EXPECT_EQ(next.silences(), book.silences());
  EXPECT_EQ(next.state(), book.state());
  errors = Count(6);
  EXPECT_THAT(read(next, 85, 1h), ElementsAre("began ecc")) << "an hour in which nobody looked is no hour of heat";
  EXPECT_THAT(read_for(next, 8, 85), ElementsAre("6 began slow"));
  EXPECT_EQ(next.active().size(), 3U);
}

TEST_F(AlertBookTest, DropsWhatWasAcknowledgedOfAGpuThatWasTakenOut) {
  const auto rules = rules_of("- {id: lost, when: state == lost, level: critical}");
  reading_.snapshot = testing::fleet(2);
  reading_.snapshot.taken_at = WallTime(1'700'000'000s);
  AlertBook book(rules);
  read(book, 50);
  reading_.snapshot.gpus.pop_back();
  EXPECT_THAT(read(book, 50), ElementsAre("began lost"));
  AlertBook unread(rules);
  ASSERT_THAT(unread.restore(book.state()), IsOk());
  EXPECT_THAT(read(unread, 50), IsEmpty());
  EXPECT_EQ(unread.active().size(), 1U) << "a restart alone ends nothing";
  EXPECT_THAT(book.acknowledge(1, "ann"), IsOk());
  AlertBook next(rules);
  ASSERT_THAT(next.restore(book.state()), IsOk());
  EXPECT_THAT(read_for(next, 5, 50), IsEmpty());
  EXPECT_THAT(next.active(), IsEmpty());
}

TEST_F(AlertBookTest, RefusesAStateThatIsBrokenAndKeepsItsOwn) {
  AlertBook book(rules_of("- {id: hot, when: temp > 80}"));
  read(book, 85);
  const nlohmann::json good = book.state();
  const auto broken = [&](const char* pointer, nlohmann::json value) {
    nlohmann::json state = good;
    state[nlohmann::json::json_pointer(pointer)] = std::move(value);
    return book.restore(state);
  };
  EXPECT_THAT(book.restore(nlohmann::json::array()), FailsWith(ErrorCode::corrupt, HasSubstr("'state'")));
  EXPECT_THAT(broken("/version", 2), FailsWith(ErrorCode::corrupt, HasSubstr("'state.version' should be 1")));
  EXPECT_THAT(broken("/tracks", 5), FailsWith(ErrorCode::corrupt, HasSubstr("'state.tracks' should be a list")));
  EXPECT_THAT(broken("/tracks/0/rule", 5), FailsWith(ErrorCode::corrupt, HasSubstr("'state.tracks[0].rule'")));
  EXPECT_THAT(broken("/tracks/0/told_unix_ms", -5), FailsWith(ErrorCode::corrupt, HasSubstr("told_unix_ms")));
  EXPECT_THAT(broken("/tracks/0/told_unix_ms", UINT64_MAX), FailsWith(ErrorCode::corrupt, HasSubstr("told")));
  EXPECT_THAT(broken("/tracks/0/alert/level", "BAD"),
              FailsWith(ErrorCode::corrupt, HasSubstr("'state.tracks[0].alert.level'")));
  EXPECT_THAT(broken("/gpus/0/index", 1e30), FailsWith(ErrorCode::corrupt, HasSubstr("'state.gpus[0].index'")));
  EXPECT_THAT(broken("/gpus/0/counters", 7), FailsWith(ErrorCode::corrupt, HasSubstr("counters")));
  EXPECT_THAT(broken("/gpus/0/counters/energy", 1e300), FailsWith(ErrorCode::corrupt, HasSubstr("counters.energy")));
  EXPECT_EQ(book.state(), good);
}

/// The same rule written down as simply as can be: it looks back over all that was read.
struct Naive {
  std::vector<std::pair<WallTime, std::optional<int>>> past;
  bool active = false;

  static std::optional<bool> above(std::optional<int> t, int limit) {
    return t ? std::optional(*t > limit) : std::nullopt;
  }
  /// How long, up to now, a condition has held, times of ignorance left out; nothing where it does not hold now.
  template <class Holds>
  std::optional<std::chrono::nanoseconds> held(Holds holds) const {
    if (holds(past.back().second) != true) return std::nullopt;
    // What lies before the first reading at which it held is no time of holding.
    std::size_t first = past.size() - 1;
    for (std::size_t i = past.size(); i-- > 0;) {
      const auto then = holds(past[i].second);
      if (then == false) break;
      if (then == true) first = i;
    }
    std::chrono::nanoseconds known{0};
    for (std::size_t i = first + 1; i < past.size(); ++i) {
      if (holds(past[i].second).has_value()) known += past[i].first - past[i - 1].first;
    }
    return known;
  }
};

TEST_F(AlertBookTest, AgreesWithANaiveModelOverRandomReadings) {
  for (unsigned seed = 1; seed <= testing::repetitions(40); ++seed) {
    std::minstd_rand random(seed);
    AlertBook book(rules_of("- {id: hot, when: temp > 80 for 5s, until: temp < 75, clear_for: 7s}"));
    Naive model;
    std::size_t began = 0;
    for (int i = 0; i < 400; ++i) {
      const auto kind = random() % 10;
      const std::optional<int> temperature = kind == 0  ? std::nullopt
                                             : kind < 5 ? std::optional(81 + static_cast<int>(random() % 3))
                                             : kind < 6 ? std::optional(77)
                                                        : std::optional(60);
      // Long stretches of the same, so that times are reached.
      const int count = 1 + static_cast<int>(random() % 6);
      for (int j = 0; j < count; ++j) {
        const auto changes = read(book, temperature, std::chrono::milliseconds(500 + random() % 1500));
        model.past.emplace_back(reading_.snapshot.taken_at, temperature);
        const auto hot = [](std::optional<int> t) { return Naive::above(t, 80); };
        const auto cool = [](std::optional<int> t) { return t ? std::optional(*t < 75) : std::nullopt; };
        const auto held = model.active ? model.held(cool) : model.held(hot);
        const bool turns = held && *held >= (model.active ? 7s : 5s);
        if (turns) {
          model.active = !model.active;
          began += model.active ? 1 : 0;
          model.past.erase(model.past.begin(), model.past.end() - 1);
        }
        ASSERT_EQ(changes.size(), turns ? 1U : 0U) << "seed " << seed << ", reading " << i;
        ASSERT_EQ(!book.active().empty(), model.active) << "seed " << seed << ", reading " << i;
      }
    }
    EXPECT_GT(began, 3U) << "the readings must reach both ends";
  }
}

}  // namespace
}  // namespace gpuwarden::telemetry
