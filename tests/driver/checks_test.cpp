// SPDX-License-Identifier: Apache-2.0
// The questions before a driver is changed, and what forbids it.
#include <algorithm>

#include "driver/machines.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using driver::DriverFacts;
using driver::DriverRequest;
using driver::PreCheck;
using ::testing::HasSubstr;
using testing::plan_for;
using testing::software;

PreCheck check_of(const DriverFacts& facts, std::string_view id, const DriverRequest& request = {}) {
  const auto plan = plan_for(facts, request);
  if (!plan) return {};
  const auto found = std::ranges::find(plan->checks, id, &PreCheck::id);
  return found == plan->checks.end() ? PreCheck{} : *found;
}

facts::GpuProcess process(std::string_view command) {
  facts::GpuProcess one;
  one.pid = Pid(4711);
  one.command = command;
  return one;
}

TEST(DriverPreChecks, SayYesOnAMachineInOrder) {
  const auto plan = plan_for(testing::debian_machine()).value();
  EXPECT_GE(plan.checks.size(), 10U);
  for (const auto& check : plan.checks) EXPECT_EQ(check.state, PreCheck::State::ok) << check.id << ": " << check.found;
  EXPECT_TRUE(refusals(plan.checks, {}).empty());
}

struct Row {
  const char* id;
  void (*change)(DriverFacts&);
  PreCheck::State state;
  const char* found;
};

constexpr auto kRows = std::to_array<Row>({
    {"root", [](DriverFacts& facts) { software(facts).host.root = false; }, PreCheck::State::warning, "not root"},
    {"processes", [](DriverFacts& facts) { facts.snapshot.gpus[0].processes->push_back(process("python train.py")); },
     PreCheck::State::failed, "pid 4711 python train.py"},
    {"processes", [](DriverFacts& facts) { facts.snapshot.gpus[0].processes.reset(); }, PreCheck::State::unknown,
     "did not say"},
    {"sessions", [](DriverFacts& facts) { facts.sessions.emplace_back("ada on :0"); }, PreCheck::State::failed,
     "ada on :0"},
    {"space", [](DriverFacts& facts) { software(facts).host.file_systems[1].free = Bytes(std::uint64_t{10} << 20U); },
     PreCheck::State::failed, "/boot has 10 MiB free"},
    {"headers", [](DriverFacts& facts) { software(facts).host.kernel_headers = false; }, PreCheck::State::failed,
     "no headers of 6.1.0-28-amd64"},
    {"headers", [](DriverFacts& facts) { software(facts).host.kernel_headers.reset(); }, PreCheck::State::unknown, ""},
    {"secure-boot", [](DriverFacts& facts) { software(facts).host.secure_boot = true; }, PreCheck::State::failed,
     "no signing key"},
    {"secure-boot",
     [](DriverFacts& facts) {
       software(facts).host.secure_boot = true;
       facts.machine_owner_key = true;
     },
     PreCheck::State::ok, "key is enrolled"},
    {"secure-boot", [](DriverFacts& facts) { software(facts).host.secure_boot.reset(); }, PreCheck::State::unknown,
     "cannot tell whether"},
    {"package-state", [](DriverFacts& facts) { facts.packages[0].broken = true; }, PreCheck::State::failed, "libcuda1"},
    {"holds", [](DriverFacts& facts) { facts.packages[0].held = true; }, PreCheck::State::warning, "libcuda1"},
});

TEST(DriverPreChecks, SpeakForTheirReasonAlone) {
  for (const Row& row : kRows) {
    auto machine = testing::debian_machine();
    row.change(machine);
    const auto check = check_of(machine, row.id);
    EXPECT_EQ(check.state, row.state) << row.id << ": " << check.found;
    EXPECT_THAT(check.found, HasSubstr(row.found)) << row.id;
    const auto plan = plan_for(machine).value();
    EXPECT_EQ(refusals(plan.checks, {}).size(), row.state == PreCheck::State::failed ? 1U : 0U) << row.id;
  }
}

DriverFacts captured(std::string_view gpu, std::size_t count) {
  auto machine = testing::bare_machine("ubuntu", "22.04", driver::PackageManager::apt, gpu);
  machine.packages.clear();
  while (machine.snapshot.gpus.size() < count)
    machine.snapshot.gpus.push_back(testing::gpu(gpu, static_cast<std::uint32_t>(machine.snapshot.gpus.size())));
  driver::assume_facts(machine);
  return machine;
}

TEST(DriverPreChecks, DoNotVouchForAMachineOfWhichThereIsACaptureAlone) {
  const auto machine = captured("Tesla T4", 2);
  for (const char* id : {"sessions", "package-state", "holds", "fabric-manager"}) {
    const auto check = check_of(machine, id);
    EXPECT_EQ(check.state, PreCheck::State::unknown) << id << ": " << check.found;
    EXPECT_THAT(check.found, ::testing::Not(::testing::IsEmpty())) << id;
  }
}

TEST(DriverPreChecks, ChangeTheFabricManagerOfGpusOnSwitchesWithTheDriver) {
  EXPECT_THAT(check_of(captured("NVIDIA H100 80GB HBM3", 8), "fabric-manager").found, HasSubstr("sit on NVSwitches"));
  for (const char* name :
       {"NVIDIA A800-SXM4-80GB", "NVIDIA H800", "NVIDIA H20-3e", "NVIDIA B100", "NVIDIA B300 SXM6 AC"})
    EXPECT_THAT(check_of(captured(name, 8), "fabric-manager").found, HasSubstr("sit on NVSwitches")) << name;
  EXPECT_EQ(check_of(captured("NVIDIA H100 80GB HBM3", 4), "fabric-manager").state, PreCheck::State::unknown)
      << "boards of four have none";
  EXPECT_EQ(check_of(captured("NVIDIA H100 PCIe", 8), "fabric-manager").state, PreCheck::State::unknown);
  auto told = captured("NVIDIA H100 80GB HBM3", 1);
  told.snapshot.gpus[0].gpu.fabric = facts::Fabric{.state = "completed"};
  driver::assume_facts(told);
  EXPECT_EQ(told.nvswitch, true);
  auto trays = captured("NVIDIA GB200", 1);
  trays.snapshot.gpus[0].gpu.fabric = facts::Fabric{.state = "completed"};
  driver::assume_facts(trays);
  EXPECT_NE(trays.nvswitch, true) << "the fabric manager runs in the switch trays";
}

TEST(DriverPreChecks, LeaveOutWhatThePlanStopsItself) {
  auto machine = testing::debian_machine();
  for (const char* command : {"/usr/lib/xorg/Xorg :0", "/usr/bin/nvidia-persistenced", "nv-hostengine -n"})
    machine.snapshot.gpus[0].processes->push_back(process(command));
  EXPECT_EQ(check_of(machine, "processes").state, PreCheck::State::ok);
}

TEST(DriverPreChecks, CountAProgramThatOnlySpeaksOfAScreen) {
  for (const char* command :
       {"python train.py --gdm", "/home/lightdm/bin/train", "python /opt/Xorg/x.py", "gdm-train"}) {
    auto machine = testing::debian_machine();
    machine.snapshot.gpus[0].processes->push_back(process(command));
    EXPECT_EQ(check_of(machine, "processes").state, PreCheck::State::failed) << command;
  }
}

TEST(DriverPreChecks, CanBeOverruledExceptForProgramsOnTheGpus) {
  auto machine = testing::debian_machine();
  software(machine).host.kernel_headers = false;
  machine.snapshot.gpus[0].processes->push_back(process("python"));
  const auto plan = plan_for(machine).value();
  ASSERT_EQ(refusals(plan.checks, {}).size(), 2U);
  const auto left = refusals(plan.checks, {.forced = {"headers", "processes"}});
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0]->id, "processes");
}

TEST(DriverPreChecks, ProtectPeopleAndProgramsOnTheWayBackToo) {
  auto machine = testing::debian_machine();
  software(machine).host.kernel_headers = false;
  EXPECT_TRUE(refusals(driver::way_back_checks(machine), {}).empty()) << "headers are no question of the way back";
  machine.sessions.emplace_back("ada on :0");
  machine.snapshot.gpus[0].processes->push_back(process("python train.py"));
  const auto checks = driver::way_back_checks(machine);
  ASSERT_EQ(refusals(checks, {}).size(), 2U);
  const auto left = refusals(checks, {.forced = {"sessions", "processes"}});
  ASSERT_EQ(left.size(), 1U);
  EXPECT_THAT(left[0]->found, HasSubstr("python train.py"));
}

TEST(DriverPreChecks, TheRunInstallerNeedsACompilerAndBringsNoFabricManager) {
  auto machine = testing::debian_machine();
  testing::add_fabric(machine);
  software(machine).compilers.clear();
  EXPECT_EQ(check_of(machine, "compiler").state, PreCheck::State::ok);
  EXPECT_EQ(check_of(machine, "fabric-manager").state, PreCheck::State::ok);
  EXPECT_EQ(check_of(machine, "compiler", {.runfile = "/x.run"}).state, PreCheck::State::failed);
  EXPECT_EQ(check_of(machine, "fabric-manager", {.runfile = "/x.run"}).state, PreCheck::State::failed);
}

TEST(DriverPreChecks, NameTheHeadersOfTheDistribution) {
  for (const auto& [manager, command] :
       {std::pair(driver::PackageManager::apt, "apt-get install linux-headers-6.1.0"),
        std::pair(driver::PackageManager::dnf, "dnf install kernel-devel-6.1.0"),
        std::pair(driver::PackageManager::zypper, "zypper install kernel-default-devel")}) {
    auto machine = testing::bare_machine("x", "1", manager);
    machine.cuda_repository = true;
    software(machine).host.kernel_headers = false;
    EXPECT_THAT(check_of(machine, "headers", {.packaging = driver::Packaging::cuda_repository}).remedy,
                HasSubstr(command));
  }
}

// The script looks anew; a full /var alone must stop it too, not only the last of the file systems.
TEST(DriverPreChecks, TheScriptsQuestionOfSpaceHeedsEveryFileSystem) {
  const auto space = check_of(testing::debian_machine(), "space");
  const testing::TempDir dir;
  testing::put(dir / "df", "#!/bin/sh\necho Filesystem\necho \"x 1 1 $(cat \"$(dirname \"$0\")\"/free) 1% $2\"\n");
  std::filesystem::permissions(dir / "df", std::filesystem::perms::owner_all);
  for (const auto& [free, code] : {std::pair("9999999", 0), std::pair("2500000", 1), std::pair("10", 1)}) {
    testing::put(dir / "free", free);
    const auto done = testing::run_patiently(
        {.argv = {"sh", "-euc", "PATH=" + dir.path().string() + ":$PATH\n( " + space.command + "\n)"}});
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->exit_code, code) << free << done->standard_error;
  }
}

TEST(ForcedChecks, AreThoseOfThePlanThatCanBeOverruled) {
  const std::vector<PreCheck> checks{{.id = "disk"}, {.id = "root", .can_be_forced = false}};
  EXPECT_TRUE(driver::check_forced(checks, {.forced = {"disk", "way-back"}}, {"way-back"}).has_value());
  for (const char* name : {"root", "weather"}) {
    const auto refused = driver::check_forced(checks, {.forced = {"disk", name}}, {"way-back"});
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(refused.error().message, "'" + std::string(name) + "' cannot be forced");
    EXPECT_EQ(refused.error().hint, "one of: way-back, disk");
  }
}

TEST(RunfileVersion, StandsInItsName) {
  EXPECT_EQ(driver::version_of_runfile("/tmp/NVIDIA-Linux-x86_64-580.126.09.run"), "580.126.09");
  EXPECT_EQ(driver::version_of_runfile("NVIDIA-Linux-x86_64-580.126.09-no-compat32.run"), "580.126.09");
  EXPECT_EQ(driver::version_of_runfile("driver.run"), "");
  EXPECT_EQ(driver::version_of_runfile(""), "");
}

}  // namespace
}  // namespace gpuwarden
