// SPDX-License-Identifier: Apache-2.0
// Plans as a whole, for each distribution and packaging. GPUWARDEN_UPDATE_GOLDEN=1 writes the goldens anew; read the
// difference before you commit it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "driver/machines.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"
#include "support/source_folder.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using driver::DriverFacts;
using driver::DriverRequest;
using driver::PackageManager;
using driver::Packaging;
using driver::Plan;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::ids_of;
using ::testing::Not;
using testing::plan_for;
using testing::software;
using testing::step_of;

const std::filesystem::path kGoldens = testing::source_folder() / "tests/driver/golden";

std::string text_of(const Plan& plan) {
  std::string text = fmt::format("{} -> {}\n", plan.from.empty() ? "none" : plan.from, plan.to);
  for (const auto& step : plan.steps) {
    text += fmt::format("\n== {}: {}{}\n{}", step.id, step.title, step.reboot ? " [reboot]" : "", step.commands);
    if (!step.check.empty()) text += "-- check\n" + step.check;
    if (!step.undo.empty()) text += "-- undo\n" + step.undo;
  }
  for (const auto& note : plan.notes) text += fmt::format("\nnote: {}", note);
  return text + (plan.notes.empty() ? "" : "\n");
}

struct Scene {
  std::string name;
  DriverFacts facts;
  DriverRequest request;
};

std::vector<Scene> scenes() {
  std::vector<Scene> all;
  all.push_back({"debian_to_cuda", testing::debian_machine(), {}});
  all.push_back({"debian_update", testing::debian_machine(), {.branch = 535}});
  all.back().facts.packages[1].held = true;
  all.push_back({"ubuntu_server_open", testing::ubuntu_machine(), {.compute_only = true}});
  testing::add_fabric(all.back().facts);
  all.push_back({"ubuntu_exact_reboot", testing::ubuntu_machine(), {.version = "580.126.09", .through_reboot = true}});
  all.push_back({"ubuntu_fresh_nouveau", testing::bare_machine("ubuntu", "24.04", PackageManager::apt), {}});
  software(all.back().facts).driver.loaded_modules = {"nouveau"};
  all.push_back({"rocky9", testing::bare_machine("rocky", "9.4", PackageManager::dnf), {}});
  all.push_back({"fedora", testing::bare_machine("fedora", "41", PackageManager::dnf), {.compute_only = true}});
  all.push_back({"sles15", testing::bare_machine("sles", "15.6", PackageManager::zypper), {.version = "580.126.09"}});
  all.push_back({"runfile", testing::debian_machine(), {.runfile = "/root/NVIDIA it's.run"}});
  all.push_back({"runfile_to_packages", testing::ubuntu_machine(), {}});
  all.back().facts.packages.clear();
  all.back().facts.packaging = Packaging::runfile;
  return all;
}

TEST(DriverPlan, IsForEachPackagingAsWritten) {
  for (const Scene& scene : scenes()) {
    const auto plan = plan_for(scene.facts, scene.request);
    ASSERT_TRUE(plan.has_value()) << scene.name << ": " << plan.error().message;
    const auto file = kGoldens / ("driver_" + scene.name + ".txt");
    if (std::getenv("GPUWARDEN_UPDATE_GOLDEN") != nullptr) {
      ASSERT_TRUE(write_file_atomically(file, text_of(*plan)).has_value());
    }
    EXPECT_EQ(text_of(*plan), read_file(file).value_or("")) << scene.name;
  }
}

TEST(DriverPlan, IsValidShellEveryWay) {
  const testing::TempDir dir;
  for (const Scene& scene : scenes()) {
    const auto plan = plan_for(scene.facts, scene.request);
    ASSERT_TRUE(plan.has_value()) << scene.name;
    testing::put(dir / "script", script_of(*plan));
    const auto done = testing::run_patiently({.argv = {"sh", "-n", (dir / "script").string()}});
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->exit_code, 0) << scene.name << ": " << done->standard_error;
    EXPECT_TRUE(script_of(*plan).starts_with("#!/bin/sh\n"));
    // The checks are not in the script.
    std::string checks = plan->prelude;
    for (const auto& step : plan->steps) checks += step.check;
    testing::put(dir / "checks", checks);
    EXPECT_EQ(testing::run_patiently({.argv = {"sh", "-n", (dir / "checks").string()}})->exit_code, 0) << scene.name;
  }
}

TEST(DriverPlan, RecordsBeforeItChangesAndVerifiesAtTheEnd) {
  for (const Scene& scene : scenes()) {
    const auto plan = plan_for(scene.facts, scene.request).value();
    const auto ids = ids_of(plan);
    EXPECT_EQ(ids.front(), "record") << scene.name;
    EXPECT_EQ(ids.back(), "verify") << scene.name;
    auto sorted = ids;
    std::ranges::sort(sorted);
    EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end()) << scene.name;
    const auto place = [&](std::string_view id) { return std::ranges::find(ids, id) - ids.begin(); };
    EXPECT_LT(place("save"), place("stop-services")) << scene.name;
    EXPECT_LT(place("idle"), place("install")) << scene.name;
  }
}

TEST(DriverPlan, EveryStepThatChangesThePackagesLeadsBack) {
  for (const Scene& scene : scenes()) {
    const auto plan = plan_for(scene.facts, scene.request).value();
    for (const char* id : {"remove", "install"}) {
      const auto* const step = step_of(plan, id);
      if (step == nullptr) continue;
      EXPECT_THAT(step->undo, HasSubstr("restore_configuration")) << scene.name << ", " << id;
      EXPECT_THAT(step->undo, HasSubstr("restore_packages")) << scene.name << ", " << id;
    }
  }
}

TEST(DriverPlan, StopsTheDisplayManagerOnlyWhereThereIsOne) {
  auto machine = testing::debian_machine();
  EXPECT_THAT(ids_of(plan_for(machine).value()), AllOf(Contains("stop-display"), Contains("start-display")));
  machine.display_manager = "";
  EXPECT_THAT(ids_of(plan_for(machine).value()), Not(Contains("stop-display")));
  machine.display_manager = std::nullopt;
  EXPECT_THAT(ids_of(plan_for(machine).value()), Contains("stop-display"));
}

TEST(DriverPlan, RemovesFirstWhatCannotBeUpgraded) {
  auto machine = testing::debian_machine();
  EXPECT_EQ(step_of(plan_for(machine, {.branch = 535}).value(), "remove"), nullptr);
  EXPECT_NE(step_of(plan_for(machine).value(), "remove"), nullptr);
  // Another flavour of the same packaging.
  EXPECT_NE(step_of(plan_for(machine, {.branch = 535, .flavour = facts::ModuleFlavour::open}).value(), "remove"),
            nullptr);
  // Ubuntu's packages carry the branch in their names.
  EXPECT_NE(step_of(plan_for(testing::ubuntu_machine()).value(), "remove"), nullptr);
}

TEST(DriverPlan, BringsTheFabricManagerAlongWhereThereAreNvswitches) {
  auto machine = testing::debian_machine();
  EXPECT_THAT(step_of(plan_for(machine).value(), "install")->commands, Not(HasSubstr("fabricmanager")));
  machine.nvswitch = true;
  EXPECT_THAT(step_of(plan_for(machine).value(), "install")->commands, HasSubstr("nvidia-fabricmanager"));
}

TEST(DriverPlan, NamesTheFabricManagerAsItsRepositoryDoes) {
  struct Expected {
    std::string_view distribution;
    std::string_view version;
    driver::PackageManager manager;
    driver::Packaging packaging;
    int branch;
    std::string_view name;
  };
  using driver::PackageManager;
  using driver::Packaging;
  constexpr auto kExpected = std::to_array<Expected>({
      {"ubuntu", "24.04", PackageManager::apt, Packaging::distribution, 580, "'nvidia-fabricmanager-580'"},
      {"ubuntu", "24.04", PackageManager::apt, Packaging::cuda_repository, 580, "'nvidia-fabricmanager'"},
      {"ubuntu", "24.04", PackageManager::apt, Packaging::cuda_repository, 570, "'nvidia-fabricmanager-570'"},
      {"rocky", "9.4", PackageManager::dnf, Packaging::cuda_repository, 570, "'nvidia-fabric-manager'"},
      {"rocky", "9.4", PackageManager::dnf, Packaging::cuda_repository, 580, "'nvidia-fabricmanager'"},
  });
  for (const Expected& expected : kExpected) {
    auto machine = testing::bare_machine(expected.distribution, expected.version, expected.manager);
    machine.nvswitch = true;
    const auto plan = plan_for(machine, {.branch = expected.branch, .packaging = expected.packaging});
    ASSERT_TRUE(plan) << expected.distribution;
    EXPECT_THAT(step_of(*plan, "install")->commands, HasSubstr(expected.name)) << expected.branch;
  }
}

TEST(DriverPlan, BringsTheSubnetManagerOfSwitchesOfTheFourthGenerationInAVersionOfItsOwn) {
  auto machine = testing::bare_machine("ubuntu", "24.04", driver::PackageManager::apt);
  machine.nvswitch = true;
  const driver::DriverRequest exact{
      .branch = 580, .version = "580.95.05", .packaging = driver::Packaging::cuda_repository};
  for (auto& record : machine.snapshot.gpus) record.gpu.compute_capability = {9, 0};
  EXPECT_THAT(step_of(plan_for(machine, exact).value(), "install")->commands, Not(HasSubstr("nvlsm")));
  for (auto& record : machine.snapshot.gpus) record.gpu.compute_capability = {10, 0};
  EXPECT_THAT(step_of(plan_for(machine, exact).value(), "install")->commands,
              AllOf(HasSubstr("'nvidia-fabricmanager=580.95.05-*'"), HasSubstr(" 'nvlsm'")));
  EXPECT_THAT(
      step_of(plan_for(machine, {.branch = 580, .packaging = driver::Packaging::distribution}).value(), "install")
          ->commands,
      Not(HasSubstr("nvlsm")))
      << "Ubuntu's own archive has none";
}

TEST(DriverPlan, RefusesReleasesThatNobodyServesAnyMore) {
  const auto answer = [](std::string_view distribution, std::string_view version, driver::PackageManager manager) {
    return plan_for(testing::bare_machine(distribution, version, manager));
  };
  for (const auto& [distribution, version, manager] :
       {std::tuple("ubuntu", "18.04", driver::PackageManager::apt),
        std::tuple("debian", "10", driver::PackageManager::apt), std::tuple("centos", "7", driver::PackageManager::dnf),
        std::tuple("centos", "8", driver::PackageManager::dnf), std::tuple("amzn", "2", driver::PackageManager::dnf),
        std::tuple("sles", "12.5", driver::PackageManager::zypper)}) {
    const auto refused = answer(distribution, version, manager);
    ASSERT_FALSE(refused) << distribution << version;
    EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied);
    EXPECT_THAT(refused.error().message, HasSubstr("no longer served"));
    EXPECT_THAT(refused.error().hint, HasSubstr("upgrade the system"));
  }
  EXPECT_TRUE(answer("ubuntu", "22.04", driver::PackageManager::apt));
  EXPECT_TRUE(answer("centos", "9", driver::PackageManager::dnf));
  // The .run installer asks no repository.
  EXPECT_TRUE(plan_for(testing::bare_machine("ubuntu", "18.04", driver::PackageManager::apt),
                       {.packaging = driver::Packaging::runfile, .runfile = "/NVIDIA-Linux-x86_64-535.183.01.run"}));
}

TEST(DriverPlan, SetsTheHoldAgain) {
  auto machine = testing::debian_machine();
  EXPECT_THAT(ids_of(plan_for(machine).value()), Not(Contains("unhold")));
  machine.packages[1].held = true;
  EXPECT_THAT(ids_of(plan_for(machine).value()), AllOf(Contains("unhold"), Contains("hold")));
}

TEST(DriverPlan, RebootsWhereNouveauDrawsTheConsole) {
  auto machine = testing::bare_machine("debian", "12", PackageManager::apt);
  software(machine).driver.loaded_modules = {"nouveau"};
  const auto plan = plan_for(machine).value();
  ASSERT_NE(step_of(plan, "reboot"), nullptr);
  EXPECT_TRUE(step_of(plan, "reboot")->reboot);
  EXPECT_NE(step_of(plan, "nouveau"), nullptr);
  EXPECT_EQ(step_of(plan, "unload"), nullptr);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("after the reboot")));
}

TEST(DriverPlan, RefusesPlacesThatHaveNoDriverOfTheirOwn) {
  auto machine = testing::debian_machine();
  software(machine).containers.inside = "docker";
  EXPECT_THAT(plan_for(machine).error().message, HasSubstr("container (docker)"));
  software(machine).containers.inside = "";
  software(machine).host.wsl = 2;
  EXPECT_THAT(plan_for(machine).error().message, HasSubstr("WSL"));
}

TEST(DriverPlan, SaysWhatIsMissingWherePackagesAreNotKnown) {
  const auto machine = testing::bare_machine("gentoo", "2.15", PackageManager::none);
  EXPECT_THAT(plan_for(machine).error().hint, HasSubstr("--runfile"));
  EXPECT_THAT(plan_for(machine, {.packaging = Packaging::runfile}).error().message, HasSubstr("no file was given"));
  EXPECT_TRUE(plan_for(machine, {.runfile = "/root/x.run"}).has_value());
  const auto rocky = testing::bare_machine("rocky", "9.4", PackageManager::dnf);
  EXPECT_EQ(plan_for(rocky, {.packaging = Packaging::distribution}).error().code, ErrorCode::unsatisfied);
}

TEST(DriverPlan, KnowsTheRepositoriesOfDistributionsAndMachines) {
  struct Row {
    const char* distribution;
    const char* version;
    PackageManager manager;
    const char* machine;
    const char* path;
  };
  for (const auto& [distribution, version, manager, machine, path] :
       {Row{"debian", "12", PackageManager::apt, "x86_64", "repos/debian12/x86_64"},
        Row{"ubuntu", "22.04", PackageManager::apt, "aarch64", "repos/ubuntu2204/sbsa"},
        Row{"almalinux", "8.10", PackageManager::dnf, "x86_64", "repos/rhel8/x86_64"},
        Row{"amzn", "2023", PackageManager::dnf, "x86_64", "repos/amzn2023/x86_64"},
        Row{"azurelinux", "3.0", PackageManager::dnf, "x86_64", "repos/azl3/x86_64"},
        Row{"opensuse-leap", "15.6", PackageManager::zypper, "x86_64", "repos/opensuse15/x86_64"},
        Row{"opensuse-leap", "16.0", PackageManager::zypper, "x86_64", "repos/suse16/x86_64"},
        Row{"sles", "16.0", PackageManager::zypper, "aarch64", "repos/suse16/sbsa"},
        Row{"kylin", "V10", PackageManager::dnf, "x86_64", "repos/kylin10/x86_64"},
        Row{"kylin", "V11", PackageManager::dnf, "x86_64", "repos/kylin11/x86_64"}}) {
    auto facts = testing::bare_machine(distribution, version, manager);
    software(facts).host.machine = machine;
    const auto plan = plan_for(facts, {.packaging = Packaging::cuda_repository});
    ASSERT_TRUE(plan.has_value()) << distribution;
    ASSERT_NE(step_of(*plan, "repository"), nullptr) << distribution;
    EXPECT_THAT(step_of(*plan, "repository")->commands, HasSubstr(path));
    facts.cuda_repository = true;
    EXPECT_EQ(step_of(*plan_for(facts, {.packaging = Packaging::cuda_repository}), "repository"), nullptr);
  }
}

TEST(DriverPlan, InventsNoRepository) {
  struct Row {
    const char* distribution;
    const char* version;
    PackageManager manager;
    const char* machine = "x86_64";
  };
  for (const auto& [distribution, version, manager, machine] :
       {Row{"pop", "22.04", PackageManager::apt}, Row{"linuxmint", "21.3", PackageManager::apt},
        Row{"opensuse-tumbleweed", "20251010", PackageManager::zypper}, Row{"debian", "", PackageManager::apt},
        Row{"fedora", "rawhide", PackageManager::dnf}, Row{"debian", "12", PackageManager::apt, "riscv64"}}) {
    auto facts = testing::bare_machine(distribution, version, manager);
    software(facts).host.machine = machine;
    const auto plan = plan_for(facts, {.packaging = Packaging::cuda_repository});
    ASSERT_FALSE(plan.has_value()) << distribution;
    EXPECT_EQ(plan.error().code, ErrorCode::unsatisfied) << distribution;
    EXPECT_THAT(plan.error().hint, HasSubstr("--runfile")) << distribution;
    facts.cuda_repository = true;
    EXPECT_TRUE(plan_for(facts, {.packaging = Packaging::cuda_repository}).has_value()) << "it is there already";
  }
  const auto mint = testing::bare_machine("linuxmint", "21.3", PackageManager::apt);
  EXPECT_EQ(plan_for(mint, {.packaging = Packaging::distribution}).error().code, ErrorCode::unsatisfied);
}

TEST(DriverPlan, TakesNoCommandFromACapture) {
  for (const auto manager : {PackageManager::apt, PackageManager::dnf, PackageManager::zypper}) {
    for (auto facts::Host::* const field :
         {&facts::Host::distribution, &facts::Host::distribution_version, &facts::Host::machine}) {
      auto machine = testing::bare_machine("debian", "12", manager);
      software(machine).host.*field = "12;touch$IFS/tmp/x";
      const auto plan = plan_for(machine, {.packaging = Packaging::cuda_repository});
      ASSERT_FALSE(plan.has_value());
      EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
    }
  }
  auto machine = testing::debian_machine();
  software(machine).driver.loaded_version = "535\ntouch OWNED";
  machine.display_manager = "gdm3\ntouch OWNED";
  software(machine).host.kernel = "6.1\ntouch OWNED";
  software(machine).host.kernel_headers = false;
  for (const auto line : split(script_of(plan_for(machine).value()), '\n'))
    EXPECT_FALSE(trim(line).starts_with("touch OWNED")) << line;
}

TEST(DriverPlan, ItsScriptUndoesNothingThatItNeverDid) {
  const testing::TempDir dir;
  std::string script = script_of(plan_for(testing::debian_machine()).value());
  const std::string records = "B=" + std::string(driver::kDriverFolder) + "/test\n";
  ASSERT_TRUE(script.contains(records));
  script.replace(script.find(records), records.size(), "B=" + (dir / "records").string() + "\n");
  testing::put(dir / "plan.sh", script);
  const auto done = testing::run_patiently({.argv = {"sh", (dir / "plan.sh").string(), "undo"}});
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->exit_code, 1);
  EXPECT_THAT(done->standard_error, HasSubstr("nothing was recorded"));
  EXPECT_EQ(done->standard_output, "");
  EXPECT_FALSE(std::filesystem::exists(dir / "records"));
}

TEST(DriverPlan, ItsScriptDoesNotAskWhatWasOverruled) {
  const auto plan = plan_for(testing::debian_machine()).value();
  EXPECT_THAT(script_of(plan), HasSubstr("refuse 'kernel headers'"));
  const std::string forced = script_of(plan, {.forced = {"headers", "root"}});
  EXPECT_THAT(forced, AllOf(Not(HasSubstr("refuse 'kernel headers'")), HasSubstr("# overruled: --force headers")));
  EXPECT_THAT(forced, HasSubstr("refuse 'administrator'")) << "root cannot be forced";
}

// The shell's list of driver packages and the program's must be one.
TEST(DriverPlan, ItsShellKnowsTheSamePackagesAsTheProgram) {
  const std::vector<std::string> names{"nvidia-driver",
                                       "nvidia-driver-580-server",
                                       "libnvidia-compute-535",
                                       "libcuda1",
                                       "cuda-drivers-580",
                                       "nvidia-fabricmanager",
                                       "nvidia-open",
                                       "kmod-nvidia-open-dkms",
                                       "xserver-xorg-video-nvidia",
                                       "linux-modules-nvidia-580-generic",
                                       "nvidia-container-toolkit",
                                       "nvidia-cuda-toolkit",
                                       "libnvidia-container1",
                                       "libnvidia-ml-dev",
                                       "nvidia-nsight",
                                       "cuda-toolkit-12-4",
                                       "python3",
                                       "libc6"};
  std::string input;
  std::string expected;
  for (const auto& name : names) {
    input += name + ":amd64 1.0 ii\n";
    if (driver::is_driver_package(name)) expected += name + ":amd64 1.0 ii\n";
  }
  EXPECT_TRUE(driver::is_driver_package("nvidia-open"));
  EXPECT_FALSE(driver::is_driver_package("nvidia-container-toolkit"));
  const auto plan = plan_for(testing::debian_machine()).value();
  const auto done =
      testing::run_patiently({.argv = {"sh", "-euc", plan.prelude + "driver_packages\n"}, .standard_input = input});
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->standard_output, expected) << done->standard_error;
}

}  // namespace
}  // namespace gpuwarden
