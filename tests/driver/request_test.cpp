// SPDX-License-Identifier: Apache-2.0
// What an administrator asks for in words, and of which machine.
#include "gpuwarden/driver/request.hpp"

#include <unistd.h>

#include "driver/machines.hpp"
#include "gpuwarden/driver/availability.hpp"
#include "gpuwarden/driver/run.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::driver {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;
using ::testing::HasSubstr;

NamedValues words(const Words& given) {
  NamedValues values;
  for (const auto& [name, value] : given) values.set(name, {value});
  return values;
}

Result<DriverRequest> request_of(const Words& given) {
  return read_request(words(given), knowledge::Knowledge::built_in());
}

TEST(DriverRequestInWords, IsReadWithItsVersionsAndNames) {
  const auto request = request_of({{"branch", "R580"},
                                   {"driver-version", "580.126.09"},
                                   {"packaging", "cuda-repository"},
                                   {"module", "proprietary"},
                                   {"cuda", "12.8"},
                                   {"for", "vllm"},
                                   {"force", "headers,sessions"}});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->branch, 580);
  EXPECT_EQ(request->version, "580.126.09");
  EXPECT_EQ(request->packaging, Packaging::cuda_repository);
  EXPECT_EQ(request->flavour, facts::ModuleFlavour::proprietary);
  EXPECT_EQ(request->cuda, (knowledge::Version{12, 8}));
  EXPECT_EQ(request->purpose.value_or(doctor::Purpose{}).text, "vllm");
  EXPECT_EQ(request->forced, (std::vector<std::string>{"headers", "sessions"}));
  EXPECT_FALSE(request->compute_only);
}

TEST(DriverRequestInWords, ARunFilesNameTellsTheVersionWhereNothingElseDoes) {
  EXPECT_EQ(request_of({{"runfile", "/x/NVIDIA-Linux-x86_64-580.65.06.run"}})->version, "580.65.06");
  EXPECT_EQ(request_of({{"runfile", "/x/NVIDIA-Linux-x86_64-580.65.06.run"}, {"branch", "580"}})->version, "");
}

TEST(DriverRequestInWords, WhatIsWrongIsNamed) {
  struct Case {
    Words given;
    std::string_view message;
  };
  for (const Case& one :
       {Case{{{"branch", "new"}}, "branch: 'new' is not a driver branch"},
        Case{{{"branch", "299"}}, "branch: '299' is not a driver branch"},
        Case{{{"driver-version", "580"}}, "driver-version: '580' is not a driver version"},
        Case{{{"branch", "570"}, {"driver-version", "580.65.06"}}, "driver-version 580.65.06 is not of the branch 570"},
        Case{{{"packaging", "snap"}}, "packaging: unknown value 'snap'"},
        Case{{{"module", "free"}}, "module: unknown value 'free'"},
        Case{{{"cuda", "12.8beta"}}, "cuda: '12.8beta' is not a version"}}) {
    const auto request = request_of(one.given);
    ASSERT_FALSE(request) << one.message;
    EXPECT_EQ(request.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(request.error().message, one.message);
  }
}

TEST(AskingARepository, IsLeftOutOfflineUnlessAMirrorIsNamed) {
  const Environment offline{{"GPUWARDEN_OFFLINE", "1"}};
  EXPECT_TRUE(read_asking(NamedValues(), offline)->offline);
  EXPECT_FALSE(read_asking(NamedValues(), {{"GPUWARDEN_OFFLINE", "0"}})->offline);
  EXPECT_FALSE(read_asking(words({{"mirror", "https://mirror.example.org/repos"}}), offline)->offline);
  EXPECT_TRUE(read_asking(words({{"offline", ""}, {"mirror", "http://x"}}), {})->offline);
  EXPECT_EQ(read_asking(words({{"mirror", "ftp://x"}}), {}).error().message, "mirror: 'ftp://x' is not a URL");
}

TEST(APlansBranch, IsInDoubtWhereNeitherTablesNorRepositoryHaveIt) {
  Plan plan{.target = {.branch = 999, .branch_known = false}};
  EXPECT_TRUE(is_in_doubt(plan)) << "nobody was asked";
  plan.checks.push_back({.id = "repository", .state = PreCheck::State::unknown});
  EXPECT_TRUE(is_in_doubt(plan));
  plan.checks.back().state = PreCheck::State::ok;
  EXPECT_FALSE(is_in_doubt(plan));
  EXPECT_FALSE(is_in_doubt({.target = {.branch = 580, .branch_known = true}}));
}

TEST(GatheringDriverFacts, ATellingOfAMachineIsOnPaperUnlessAnImageIsThere) {
  facts::Snapshot snapshot;
  snapshot.gpus = {testing::gpu("NVIDIA L4")};
  const auto told = gather_driver_facts(snapshot, "/", true, "ubuntu:22.04");
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->on_paper);
  EXPECT_EQ(told->manager, PackageManager::apt) << "of the distribution that was named";
  EXPECT_EQ(told->snapshot.gpus.size(), 1U);
  EXPECT_THAT(gather_driver_facts(snapshot, "/", true, "beos:5").error().message, HasSubstr("beos:5"));

  const testing::TempDir image;
  testing::put(image / "var/lib/dpkg/status", "");
  const auto read = gather_driver_facts(snapshot, image.path(), true, "");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->on_paper);
  EXPECT_EQ(read->root, image.path());
  EXPECT_TRUE(read->snapshot.gpus.empty()) << "an image does not have this machine's GPUs";
}

TEST(MakingAPlan, NamesItByTheTimeAndByWhatWasRunBefore) {
  auto machine = testing::debian_machine();
  machine.on_paper = true;
  const auto& known = knowledge::Knowledge::built_in();
  const auto plan = make_plan(machine, {}, known, testing::autumn_2026());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->id, run_id_at(testing::autumn_2026()));

  const testing::TempDir image;
  machine.on_paper = false;
  machine.root = image.path();
  testing::put(image / "var/lib/gpuwarden/driver/journal.jsonl", "nonsense\n{}\n");
  EXPECT_EQ(make_plan(machine, {}, known, testing::autumn_2026()).error().code, ErrorCode::corrupt);
  EXPECT_EQ(log_of(image.path(), {.plan = *plan}), image.path() / "var/lib/gpuwarden/driver" / plan->id / "log");
}

TEST(ChangingTheDriver, IsForRootAlone) {
  const testing::TempDir image;
  const auto user = ::geteuid();
  ASSERT_EQ(::seteuid(user == 0 ? 65534 : user), 0);
  const auto procedure = DriverProcedure::open_as_root(image.path(), Records::make);
  ASSERT_EQ(::seteuid(user), 0);
  ASSERT_FALSE(procedure);
  EXPECT_EQ(procedure.error().code, ErrorCode::permission_denied);
  EXPECT_FALSE(std::filesystem::exists(image / "var"));
}

}  // namespace
}  // namespace gpuwarden::driver
