// SPDX-License-Identifier: Apache-2.0
// What is read of a machine below a root, and what is wrong with its driver.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "driver/machines.hpp"
#include "gpuwarden/driver/json.hpp"
#include "gpuwarden/probe/survey.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using driver::DriverFacts;
using driver::PackageManager;
using driver::Packaging;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::put;
using testing::software;

std::string stanza(const std::string& name, const std::string& version, const std::string& status,
                   const std::string& maintainer = "Debian NVIDIA Maintainers <x@example.org>") {
  return "Package: " + name + "\nStatus: " + status + "\nMaintainer: " + maintainer + "\nVersion: " + version +
         "\nDescription: one\n two\n\n";
}

class DriverFactsBelowARoot : public ::testing::Test {
 protected:
  DriverFacts read() const {
    DriverFacts facts;
    facts.snapshot.environment =
        probe::survey({.root = dir_.path(), .deadline = testing::kSoon, .start_programs = false});
    driver::read_driver_facts(dir_.path(), facts);
    return facts;
  }
  void status(const std::string& text) const { put(dir_ / "var/lib/dpkg/status", text); }
  void device(const std::string& address, const std::string& vendor, const std::string& number,
              const std::string& kind) const {
    put(dir_ / ("sys/bus/pci/devices/" + address + "/vendor"), vendor + "\n");
    put(dir_ / ("sys/bus/pci/devices/" + address + "/device"), number + "\n");
    put(dir_ / ("sys/bus/pci/devices/" + address + "/class"), kind + "\n");
  }
  testing::TempDir dir_;
};

TEST_F(DriverFactsBelowARoot, TakeTheDriversPackagesFromDpkg) {
  status(stanza("libc6", "2.36", "install ok installed") +
         stanza("nvidia-driver", "535.183.01-1~deb12u1", "hold ok installed") +
         stanza("libcuda1", "535.183.01-1~deb12u1", "install ok half-configured") +
         stanza("nvidia-settings", "535.171.04-1", "deinstall ok config-files") +
         stanza("nvidia-container-toolkit", "1.16.1-1", "install ok installed", "cudatools@nvidia.com"));
  const DriverFacts facts = read();
  EXPECT_EQ(facts.manager, PackageManager::apt);
  EXPECT_EQ(facts.packaging, Packaging::distribution);
  EXPECT_THAT(facts.packages,
              ElementsAre(driver::InstalledPackage{"libcuda1", "535.183.01-1~deb12u1", false, true},
                          driver::InstalledPackage{"nvidia-driver", "535.183.01-1~deb12u1", true, false}));
  EXPECT_EQ(facts.snapshot.environment->driver.on_disk_version, "535.183.01");
}

TEST_F(DriverFactsBelowARoot, KnowNvidiasOwnPackagesByTheirMaker) {
  status(stanza("nvidia-open", "580.126.09-1", "install ok installed", "cudatools <cudatools@nvidia.com>"));
  const DriverFacts facts = read();
  EXPECT_EQ(facts.packaging, Packaging::cuda_repository);
  EXPECT_EQ(facts.snapshot.environment->driver.flavour, facts::ModuleFlavour::open);
  EXPECT_EQ(facts.cuda_repository, false);
}

TEST_F(DriverFactsBelowARoot, SeeNvidiasRepositoryAmongTheSources) {
  status("");
  put(dir_ / "etc/apt/sources.list.d/cuda.list",
      "deb https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /\n");
  EXPECT_EQ(read().cuda_repository, true);
}

TEST_F(DriverFactsBelowARoot, CountOnlySourcesThatAPackageManagerReads) {
  const std::string url = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/";
  const auto seen = [&](const char* name, const std::string& text) {
    const testing::TempDir root;
    put(root / "var/lib/dpkg/status", "");
    put(root / name, text);
    DriverFacts facts;
    driver::read_driver_facts(root.path(), facts);
    return facts.cuda_repository;
  };
  EXPECT_EQ(seen("etc/apt/sources.list", "deb http://deb.debian.org/debian bookworm main\ndeb " + url + " /\n"), true);
  EXPECT_EQ(seen("etc/apt/sources.list.d/cuda.list", "# deb " + url + " /\n"), false);
  EXPECT_EQ(seen("etc/apt/sources.list.d/cuda.list.save", "deb " + url + " /\n"), false);
  EXPECT_EQ(seen("etc/apt/sources.list.d/cuda.list.disabled", "deb " + url + " /\n"), false);
  const std::string stanza = "Types: deb\nURIs: " + url + "\nSuites: /\n";
  EXPECT_EQ(seen("etc/apt/sources.list.d/cuda.sources", stanza), true);
  EXPECT_EQ(seen("etc/apt/sources.list.d/cuda.sources", stanza + "Enabled: no\n"), false);
  EXPECT_EQ(seen("etc/apt/sources.list.d/cuda.sources", "Enabled: no\nURIs: http://x\n\n" + stanza), true);
  const std::string section = "[cuda]\nname=cuda\nbaseurl=" + url + "\n";
  EXPECT_EQ(seen("etc/yum.repos.d/cuda.repo", section + "enabled=1\n"), true);
  EXPECT_EQ(seen("etc/yum.repos.d/cuda.repo", section + "enabled = 0\n[other]\nenabled=1\n"), false);
  EXPECT_EQ(seen("etc/zypp/repos.d/cuda.repo", "[a]\nenabled=0\n" + section), true);
}

TEST_F(DriverFactsBelowARoot, SeeARunInstallersDriverByWhatItLeaves) {
  status("");
  EXPECT_EQ(read().packaging, std::nullopt);
  put(dir_ / "usr/bin/nvidia-uninstall", "");
  EXPECT_EQ(read().packaging, Packaging::runfile);
}

TEST_F(DriverFactsBelowARoot, ListGpusAndSwitchesOnTheBusWithoutAnyDriver) {
  device("0000:18:00.0", "0x10de", "0x2330", "0x030200");
  device("0000:18:00.1", "0x10de", "0x22bc", "0x040300");
  device("0000:00:02.0", "0x8086", "0x46a6", "0x030000");
  DriverFacts facts = read();
  ASSERT_EQ(facts.snapshot.gpus.size(), 1U);
  EXPECT_EQ(facts.snapshot.gpus[0].gpu.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(facts.snapshot.gpus[0].gpu.pci_device_id, 0x233010deU);
  EXPECT_NE(facts.nvswitch, true);
  device("0000:05:00.0", "0x10de", "0x22a3", "0x068000");
  device("0000:99:00.0", "garbage", "0xzz", "");
  EXPECT_EQ(read().nvswitch, true);
}

TEST_F(DriverFactsBelowARoot, SeeWhoIsAtAGraphicalScreen) {
  put(dir_ / "run/systemd/sessions/1", "USER=ada\nCLASS=user\nTYPE=wayland\nSTATE=active\nDISPLAY=:1\n");
  put(dir_ / "run/systemd/sessions/2", "USER=bob\nCLASS=user\nTYPE=tty\nSTATE=active\n");
  put(dir_ / "run/systemd/sessions/3", "USER=gdm\nCLASS=greeter\nTYPE=x11\nSTATE=active\n");
  put(dir_ / "run/systemd/sessions/4", "USER=eve\nCLASS=user\nTYPE=x11\nSTATE=closing\n");
  put(dir_ / "etc/X11/default-display-manager", "/usr/sbin/lightdm\n");
  const DriverFacts facts = read();
  EXPECT_THAT(facts.sessions, ElementsAre("ada on :1"));
  EXPECT_EQ(facts.display_manager, "lightdm");
}

TEST_F(DriverFactsBelowARoot, AreEmptyButWholeForAnEmptyFolder) {
  const DriverFacts facts = read();
  EXPECT_EQ(facts.manager, PackageManager::none);
  EXPECT_THAT(facts.packages, IsEmpty());
  EXPECT_EQ(facts.display_manager, "");
  EXPECT_THAT(facts.snapshot.gpus, IsEmpty());
  EXPECT_FALSE(facts.snapshot.environment->host.file_systems.empty());
}

TEST_F(DriverFactsBelowARoot, SurviveADamagedPackageList) {
  for (const std::string& text : {std::string("Package"), std::string("Package: nvidia-driver\n\n\n\n"),
                                  std::string("\0\0\0\n\nStatus: x", 14), std::string(100000, ':')}) {
    status(text);
    EXPECT_EQ(read().manager, PackageManager::apt);
  }
}

TEST(DriverFactsOfACapture, AssumeTheDistributionsPackageManager) {
  for (const auto& [distribution, manager] :
       {std::pair("ubuntu", PackageManager::apt), std::pair("rocky", PackageManager::dnf),
        std::pair("sles", PackageManager::zypper), std::pair("nixos", PackageManager::none)}) {
    DriverFacts facts;
    software(facts).host.distribution = distribution;
    driver::assume_facts(facts);
    EXPECT_EQ(facts.manager, manager) << distribution;
  }
}

driver::DriverStatus status_of(const DriverFacts& facts) {
  return driver::driver_status(facts, knowledge::Knowledge::built_in(), testing::autumn_2026());
}

TEST(DriverStatus, FindsNothingWrongWithADriverInOrder) {
  auto machine = testing::debian_machine();
  for (auto* version : {&software(machine).driver.loaded_version, &software(machine).driver.on_disk_version,
                        &software(machine).driver.library_version})
    *version = "580.126.09";
  const auto status = status_of(machine);
  EXPECT_EQ(status.branch, 580);
  EXPECT_EQ(status.branch_type, "LTSB");
  EXPECT_FALSE(status.past_end_of_life);
  EXPECT_THAT(status.problems, IsEmpty());
}

struct Wrong {
  void (*change)(DriverFacts&);
  const char* says;
};

TEST(DriverStatus, SaysWhatIsWrong) {
  for (const auto& [change, says] :
       {Wrong{[](DriverFacts& facts) { software(facts).driver.on_disk_version = "580.65.06"; },
              "driver 580.126.09 is loaded, 580.65.06 is on disk"},
        Wrong{[](DriverFacts& facts) { software(facts).driver.library_version = "580.65.06"; },
              "the libraries are of 580.65.06"},
        Wrong{[](DriverFacts& facts) { software(facts).driver.firmware_version = "570.1"; }, "GSP firmware"},
        Wrong{[](DriverFacts& facts) {
                software(facts).services.push_back({"nvidia-fabricmanager", "running", "570.133.20"});
              },
              "the fabric manager is of 570.133.20"},
        Wrong{[](DriverFacts& facts) { facts.nvswitch = true; }, "no fabric manager is installed"},
        Wrong{[](DriverFacts& facts) { software(facts).host.installed_kernels.emplace_back("6.1.0-30-amd64"); },
              "DKMS has no module for 6.1.0-30-amd64"},
        Wrong{[](DriverFacts& facts) { software(facts).driver.loaded_modules.emplace_back("nouveau"); }, "nouveau"},
        Wrong{[](DriverFacts& facts) { facts.packages[0].broken = true; }, "half installed: libcuda1"},
        Wrong{[](DriverFacts& facts) { software(facts).driver.loaded_version.reset(); },
              "installed, but not loaded"}}) {
    auto machine = testing::debian_machine();
    for (auto* version : {&software(machine).driver.loaded_version, &software(machine).driver.on_disk_version,
                          &software(machine).driver.library_version})
      *version = "580.126.09";
    change(machine);
    EXPECT_THAT(status_of(machine).problems, ElementsAre(HasSubstr(says))) << says;
  }
}

TEST(DriverStatus, TellsOfABranchPastItsEnd) {
  const auto status = status_of(testing::debian_machine());
  EXPECT_EQ(status.branch, 535);
  EXPECT_TRUE(status.past_end_of_life);
  EXPECT_THAT(status.problems, Contains(HasSubstr("R535 is past its end of life")));
}

TEST(DriverStatus, SaysThatThereIsNoDriver) {
  const auto status = status_of(testing::bare_machine("debian", "12", PackageManager::apt));
  EXPECT_THAT(status.problems, ElementsAre("no NVIDIA driver is installed"));
  const auto json = driver::to_json(status);
  EXPECT_TRUE(json["loaded"].is_null());
  EXPECT_TRUE(json["branch"].is_null());
}

}  // namespace
}  // namespace gpuwarden
