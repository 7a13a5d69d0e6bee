// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/bundle/gather.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/fake_clock.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/stand_in.hpp"

namespace gpuwarden::bundle {
namespace {

using testing::FailsWith;
using testing::FakeClock;
using ::testing::HasSubstr;
using testing::StandIn;

probe::ReaderOptions options(const StandIn& machine, const std::filesystem::path& program) {
  probe::ReaderOptions options;
  options.sys_root = machine.sys();
  options.driver_proc_root = machine.proc();
  options.proc_roots = {machine.proc()};
  options.probe = probe::ProbeChoice::nvidia_smi;
  options.nvidia_smi = program;
  options.pci_ids = {};
  return options;
}

TEST(GatherSamples, ReadsOnceASecond) {
  const StandIn machine;
  machine.h100();
  probe::MachineReader reader(options(machine, machine.program(testing::kSmiLog)));
  FakeClock clock;
  Contents contents;
  gather_samples(reader, clock, std::chrono::seconds(3), contents);
  ASSERT_EQ(contents.files.size(), 1U);
  EXPECT_EQ(contents.files[0].name, "samples.json");
  const auto samples = nlohmann::json::parse(contents.files[0].text);
  ASSERT_EQ(samples["readings"].size(), 3U);
  EXPECT_EQ(samples["readings"][0]["time"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(samples["readings"][2]["time"], "2023-11-14T22:13:22Z");
  EXPECT_EQ(samples["readings"][1]["gpus"][0]["metrics"]["memory_used"], 1024ULL << 20U);
}

TEST(GatherSamples, AreLeftOutWithTheirReasonWhereNothingAnswers) {
  const StandIn machine;
  machine.h100();
  probe::MachineReader reader(options(machine, "/no/such/nvidia-smi"));
  FakeClock clock;
  Contents contents;
  gather_samples(reader, clock, std::chrono::seconds(3), contents);
  gather_samples(reader, clock, std::chrono::seconds(0), contents);
  EXPECT_TRUE(contents.files.empty());
  ASSERT_EQ(contents.omitted.size(), 2U);
  EXPECT_FALSE(contents.omitted[0].why.empty());
  EXPECT_EQ(contents.omitted[1].why, "--seconds 0");
}

TEST(GatherNvidiaSmi, KeepsWhatTheProgramSaysEvenWhenItFails) {
  const StandIn machine;
  Contents contents;
  gather_nvidia_smi(machine.program("NVIDIA-SMI has failed\n", 9), std::chrono::seconds(10), contents);
  ASSERT_EQ(contents.files.size(), 3U);
  EXPECT_EQ(contents.files[1].name, "nvidia-smi/q.xml");
  EXPECT_EQ(contents.files[1].text, "NVIDIA-SMI has failed\n\n(exit code 9)\n");
  EXPECT_TRUE(contents.omitted.empty());
}

TEST(GatherNvidiaSmi, AHungOneIsAskedOnceAndAMissingOneIsSaid) {
  const StandIn machine;
  Contents contents;
  gather_nvidia_smi(machine.program("x", 0, 30), std::chrono::milliseconds(100), contents);
  gather_nvidia_smi("/no/such/nvidia-smi", std::chrono::seconds(1), contents);
  EXPECT_TRUE(contents.files.empty());
  ASSERT_EQ(contents.omitted.size(), 2U);
  EXPECT_EQ(contents.omitted[0].what, "nvidia-smi -q");
  EXPECT_THAT(contents.omitted[0].why, HasSubstr("did not end within 100 ms"));
  EXPECT_THAT(contents.omitted[1].why, HasSubstr("/no/such/nvidia-smi"));
}

TEST(GatherLog, KeepsTheEndFromTheBeginningOfALineOn) {
  const testing::TempDir dir;
  testing::put(dir / "train.log", "HF_TOKEN=hf_secret\nsecond line\nlast line\n");
  Contents contents;
  ASSERT_TRUE(gather_log(dir / "train.log", 15, contents));
  ASSERT_TRUE(gather_log(dir / "train.log", 1000, contents));
  EXPECT_EQ(contents.files[0].text, "last line\n");
  EXPECT_EQ(contents.files[0].name, "logs/train.log");
  EXPECT_THAT(contents.files[0].about, HasSubstr("the last 10 B of 41 B of "));
  EXPECT_EQ(contents.files[1].text, "HF_TOKEN=hf_secret\nsecond line\nlast line\n");
  testing::put(dir / "odd name\n.log", std::string(100, 'x'));
  ASSERT_TRUE(gather_log(dir / "odd name\n.log", 10, contents));
  EXPECT_EQ(contents.files[2].name, "logs/odd_name_.log");
  EXPECT_EQ(contents.files[2].text, "") << "half a line could be half a secret";
}

TEST(GatherLog, LinesThatJustFitAreWhole) {
  const testing::TempDir dir;
  testing::put(dir / "a.log", "one\ntwo\n");
  for (const auto& [cap, text] : std::vector<std::pair<std::size_t, std::string>>{
           {3, ""}, {4, "two\n"}, {5, "two\n"}, {7, "two\n"}, {8, "one\ntwo\n"}}) {
    Contents contents;
    ASSERT_TRUE(gather_log(dir / "a.log", cap, contents));
    EXPECT_EQ(contents.files[0].text, text) << cap;
  }
}

TEST(GatherLog, WhatIsNoTextOrNoFileIsRefused) {
  const testing::TempDir dir;
  testing::put(dir / "core", std::string("ELF\0\1", 5));
  testing::put(dir / "bad.gz", "no gzip");
  Contents contents;
  EXPECT_THAT(gather_log(dir / "core", 1000, contents),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("is not text")));
  EXPECT_THAT(gather_log(dir.path(), 1000, contents),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("not a regular file")));
  EXPECT_THAT(gather_log(dir / "missing", 1000, contents), FailsWith(ErrorCode::not_found, HasSubstr("missing")));
  EXPECT_THAT(gather_log(dir / "bad.gz", 1000, contents), FailsWith(ErrorCode::corrupt, HasSubstr("bad.gz")));
  EXPECT_TRUE(contents.files.empty());
}

TEST(Identities, AreThoseInTheFacts) {
  facts::Snapshot snapshot = testing::mig_fleet();
  snapshot.host = "node7";
  snapshot.gpus[1].gpu.serial = "1652922011245";
  snapshot.gpus[1].processes->push_back({});
  snapshot.gpus[1].processes->back().user = "jane";
  const redact::Identities names = identities_of(snapshot);
  EXPECT_EQ(names.hosts, std::vector<std::string>{"node7"});
  EXPECT_EQ(names.users, std::vector<std::string>{"jane"});
  EXPECT_EQ(names.serials, std::vector<std::string>{"1652922011245"});
  EXPECT_EQ(names.uuids.size(), 5U) << "two GPUs and three instances";
}

}  // namespace
}  // namespace gpuwarden::bundle
