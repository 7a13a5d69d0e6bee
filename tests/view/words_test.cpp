// SPDX-License-Identifier: Apache-2.0
#include "view/words.hpp"

#include "support/reword.hpp"
#include "view/scenes.hpp"

namespace gpuwarden::view {
namespace {

TEST(Words, MemoryIsInTheUnitOfTheWhole) {
  EXPECT_EQ(memory_words(Bytes(33'500'000'000), 80_GiB), "31.2/80.0G");
  EXPECT_EQ(memory_words(0_GiB, 80_GiB), "0.0/80.0G");
  EXPECT_EQ(memory_words(std::nullopt, 80_GiB), "-/80.0G");
  EXPECT_EQ(memory_words(std::nullopt, std::nullopt), "-");
  EXPECT_EQ(memory_words(512_GiB, 1536_GiB), "0.50/1.50T");
  EXPECT_EQ(memory_words(200_GiB, 288_GiB), "200/288G");
}

TEST(Words, NeverOutgrowTheirColumns) {
  for (std::uint64_t shift = 0; shift < 63; ++shift) {
    for (const std::uint64_t less : {0U, 1U}) {
      const Bytes bytes((std::uint64_t{1} << shift) - less);
      EXPECT_LE(display_width(size_words(bytes)), 5) << bytes.value;
      EXPECT_LE(display_width(memory_words(bytes, bytes)), 12) << bytes.value;
      EXPECT_LE(display_width(rate_words(BytesPerSecond(bytes.value))), 5) << bytes.value;
    }
  }
  EXPECT_EQ(power_words(1'400_W, 1'400_W), "1400/1400W");
  EXPECT_EQ(power_words(std::nullopt, 700_W), "-");
  EXPECT_EQ(power_words(300_W, std::nullopt), "300W");
}

TEST(Words, AgesAreReadAsClocksAndDays) {
  EXPECT_EQ(age_words(std::chrono::seconds(65)), "1:05");
  EXPECT_EQ(age_words(std::chrono::seconds(3 * 3600 + 65)), "3:01:05");
  EXPECT_EQ(age_words(std::chrono::hours(99)), "4d03h");
}

TEST(Words, ValuesHaveTheUnitOfTheirMetric) {
  EXPECT_EQ(value_words(*facts::find_metric("power"), 312.4), "312.4 W");
  EXPECT_EQ(value_words(*facts::find_metric("memory_used"), 80e9), "74.5 GiB");
  EXPECT_EQ(value_words(*facts::find_metric("utilization"), 43), "43 %");
  EXPECT_EQ(value_words(*facts::find_metric("pcie_sent"), 1.23e9), "1.23G/s");
  EXPECT_EQ(value_words(*facts::find_metric("pcie_width"), 16), "16");
}

std::string remarks_text(const facts::GpuRecord& record, const facts::Lease* lease = nullptr) {
  cluster::Node node;
  const Scene scene;
  std::string text;
  for (const Remark& remark :
       remarks_on({.node = &node, .record = &record, .lease = lease, .key = {}, .label = {}}, scene))
    text += (text.empty() ? "" : "; ") + remark.text;
  return text;
}

TEST(Remarks, SayWhatHoldsTheClocksBackInWords) {
  facts::GpuRecord record = testing::gpu(0);
  EXPECT_EQ(remarks_text(record), "free");
  record.sample.throttle_reasons = {facts::ThrottleReason::gpu_idle, facts::ThrottleReason::sw_power_cap};
  EXPECT_EQ(remarks_text(record), "power cap");
  record.sample.throttle_reasons = {facts::ThrottleReason::hw_slowdown, facts::ThrottleReason::hw_thermal_slowdown};
  EXPECT_EQ(remarks_text(record), "too hot (hardware)") << "one cause, not two";
  record.sample.throttle_reasons.reset();
  EXPECT_EQ(remarks_text(record), "free");
}

TEST(Remarks, AFaultIsToldFromAWarningByTheReason) {
  using facts::ThrottleReason;
  const auto tone = [](ThrottleReason reason) {
    facts::GpuRecord record = testing::gpu(0);
    record.sample.throttle_reasons = {reason};
    cluster::Node node;
    return remarks_on({.node = &node, .record = &record, .lease = nullptr, .key = {}, .label = {}}, Scene{})
        .front()
        .tone;
  };
  for (const ThrottleReason reason : {ThrottleReason::hw_thermal_slowdown, ThrottleReason::sw_thermal_slowdown,
                                      ThrottleReason::hw_power_brake, ThrottleReason::hw_slowdown})
    EXPECT_EQ(tone(reason), Tone::fault);
  for (const ThrottleReason reason :
       {ThrottleReason::sw_power_cap, ThrottleReason::sync_boost, ThrottleReason::display_clock_setting})
    EXPECT_EQ(tone(reason), Tone::warning);
}

TEST(Remarks, HaveTheSameToneWhateverIsSaid) {
  using facts::GpuState;
  for (const GpuState state : {GpuState::available, GpuState::lost, GpuState::suspended, GpuState::not_answering}) {
    facts::Snapshot snapshot;
    snapshot.gpus = {testing::gpu(0)};
    snapshot.gpus[0].state = state;
    snapshot.gpus[0].cause = "what the driver says";
    snapshot.gpus[0].sample.throttle_reasons = {facts::ThrottleReason::sw_power_cap};
    const auto tones = [&] {
      cluster::Node node;
      std::vector<Tone> all;
      const GpuRow row{.node = &node, .record = &snapshot.gpus[0], .lease = nullptr, .key = {}, .label = {}};
      for (const Remark& remark : remarks_on(row, Scene{})) all.push_back(remark.tone);
      return all;
    };
    const auto before = tones();
    for (const std::string_view words : testing::kOtherWords) {
      testing::reword(snapshot, words);
      EXPECT_EQ(tones(), before) << words;
    }
  }
}

TEST(Remarks, TroubleComesFirstThenWhoHoldsIt) {
  facts::GpuRecord record = testing::gpu(0);
  record.processes->push_back(testing::process(7, "ann", "python", 1_GiB));
  record.sample.ecc_uncorrected_volatile = Count(3);
  EXPECT_EQ(remarks_text(record), "3 uncorrected ECC; ann");
  record.state = facts::GpuState::not_answering;
  record.cause = "no answer within 5 s";
  EXPECT_TRUE(remarks_text(record).starts_with("not answering: no answer within 5 s"));
  facts::Lease lease;
  lease.holders.resize(1);
  lease.holders[0].user = "bob";
  EXPECT_THAT(remarks_text(testing::gpu(1), &lease), ::testing::HasSubstr("lease: bob (idle)"));
}

}  // namespace
}  // namespace gpuwarden::view
