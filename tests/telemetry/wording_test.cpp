// SPDX-License-Identifier: Apache-2.0
// Alerts and health ask kinds: what a probe says in words may be worded anew at any time.
#include "gpuwarden/telemetry/alerts.hpp"
#include "gpuwarden/telemetry/health.hpp"
#include "support/fleet_builder.hpp"
#include "support/reword.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace std::chrono_literals;
using facts::GpuState;

/// What ten readings, one a second, of a GPU in this state lead to; `words`: all sentences are these, unless empty.
std::vector<std::string> judged(GpuState state, std::string_view words) {
  Reading reading{.snapshot = testing::fleet(1)};
  reading.snapshot.gpus[0].state = state;
  reading.snapshot.gpus[0].cause = "what the driver says";
  reading.snapshot.gpus[0].next_step = "what to do";
  if (!words.empty()) testing::reword(reading.snapshot, words);
  reading.snapshot.taken_at = std::chrono::system_clock::time_point(1'700'000'000s);
  AlertBook alerts(built_in_rules());
  HealthBook health;
  std::vector<std::string> all;
  for (int second = 0; second < 10; ++second) {
    reading.snapshot.taken_at += 1s;
    for (const HealthChange& change : health.judge(reading))
      all.emplace_back(fmt::format("{} {}", second, facts::to_string(change.now.state)));
    for (const AlertChange& change : alerts.judge(reading))
      all.push_back(fmt::format("{} {} {}", second, to_string(change.kind), change.alert.rule));
  }
  return all;
}

TEST(Wording, OfProbesChangesNoAlertAndNoHealth) {
  EXPECT_NE(judged(GpuState::lost, ""), judged(GpuState::available, "")) << "a GPU that is lost is told";
  for (const GpuState state :
       {GpuState::available, GpuState::busy, GpuState::lost, GpuState::needs_reset, GpuState::not_answering,
        GpuState::no_permission, GpuState::suspended, GpuState::disabled, GpuState::faulty}) {
    const auto before = judged(state, "");
    for (const std::string_view words : testing::kOtherWords) EXPECT_EQ(judged(state, words), before) << words;
  }
}

}  // namespace
}  // namespace gpuwarden::telemetry
