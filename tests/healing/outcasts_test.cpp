// SPDX-License-Identifier: Apache-2.0
#include "healing/outcasts.hpp"

#include <gmock/gmock.h>

#include "healing/checkpoint.hpp"
#include "support/fake_clock.hpp"
#include "support/fleet_builder.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::healing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Clock::SteadyTime kStart{1h};

telemetry::Reading reading_at(std::chrono::seconds time, facts::GpuState state = facts::GpuState::available) {
  telemetry::Reading reading;
  reading.snapshot = testing::fleet(2);
  reading.snapshot.gpus[0].state = state;
  reading.when = kStart + time;
  return reading;
}

const Uuid kGpu = testing::fleet(1).gpus[0].gpu.uuid;

TEST(Outcasts, AGpuComesBackWhenItHasBeenWellForAWhile) {
  Outcasts outcasts(60s);
  EXPECT_THAT(outcasts.at(kStart), IsEmpty());
  outcasts.add(kGpu);
  EXPECT_THAT(outcasts.at(kStart + 10h), ElementsAre(kGpu)) << "nobody has seen it well";
  outcasts.hear(reading_at(0s));
  EXPECT_THAT(outcasts.at(kStart + 59s), ElementsAre(kGpu));
  outcasts.hear(reading_at(30s, facts::GpuState::lost));
  outcasts.hear(reading_at(40s));
  EXPECT_THAT(outcasts.at(kStart + 99s), ElementsAre(kGpu)) << "it was ill in between";
  EXPECT_THAT(outcasts.at(kStart + 100s), IsEmpty());
}

TEST(Outcasts, ItIsTrustedLaterEachTime) {
  Outcasts outcasts(60s);
  for (int i = 0; i < 2; ++i) outcasts.add(kGpu);
  outcasts.hear(reading_at(0s));
  EXPECT_THAT(outcasts.at(kStart + 119s), ElementsAre(kGpu));
  EXPECT_THAT(outcasts.at(kStart + 120s), IsEmpty());
  for (int i = 0; i < 30; ++i) outcasts.add(kGpu);
  outcasts.hear(reading_at(0s));
  EXPECT_THAT(outcasts.at(kStart + 59min), ElementsAre(kGpu));
  EXPECT_THAT(outcasts.at(kStart + 1h), IsEmpty()) << "an hour is the longest";
}

TEST(Outcasts, AnXidThatKeepsItFromBeingUsedIsNoHealth) {
  Outcasts outcasts(60s);
  outcasts.add(kGpu);
  telemetry::Reading ill = reading_at(0s);
  ill.events.push_back({.kind = facts::GpuEventKind::xid, .uuid = kGpu, .data = 79});
  outcasts.hear(ill);
  EXPECT_THAT(outcasts.at(kStart + 1h), ElementsAre(kGpu));
}

TEST(Checkpoint, IsToldOnceWhenItIsWhole) {
  const testing::TempDir dir;
  testing::FakeClock clock;
  Checkpoint checkpoint(dir / "state", clock);
  checkpoint.begin();
  EXPECT_FALSE(checkpoint.was_written());
  testing::put(dir / "state", "1");
  EXPECT_FALSE(checkpoint.was_written());
  clock.advance(2s);
  EXPECT_FALSE(checkpoint.was_written()) << "it may still be written";
  testing::put(dir / "state", "123");
  clock.advance(2s);
  EXPECT_FALSE(checkpoint.was_written()) << "it was";
  clock.advance(3s);
  EXPECT_TRUE(checkpoint.was_written());
  clock.advance(3s);
  EXPECT_FALSE(checkpoint.was_written());
  testing::put(dir / "state", "12");
  checkpoint.begin();
  clock.advance(10s);
  EXPECT_FALSE(checkpoint.was_written()) << "written before the try began";
}

TEST(Checkpoint, AFolderIsWholeWhenTheFilesInItRest) {
  const testing::TempDir dir;
  testing::FakeClock clock;
  Checkpoint checkpoint(dir / "state", clock);
  testing::put(dir / "state/step-1/rank-0.pt", "1");
  checkpoint.begin();
  for (const char* grows : {"12", "123", "1234"}) {
    // Neither folder's own time changes.
    testing::put(dir / "state/step-1/rank-0.pt", grows);
    EXPECT_FALSE(checkpoint.was_written()) << grows;
    clock.advance(2s);
    EXPECT_FALSE(checkpoint.was_written()) << grows;
  }
  clock.advance(1s);
  EXPECT_TRUE(checkpoint.was_written());
  EXPECT_FALSE(checkpoint.was_written());
}

}  // namespace
}  // namespace gpuwarden::healing
