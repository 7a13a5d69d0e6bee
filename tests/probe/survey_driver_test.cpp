// SPDX-License-Identifier: Apache-2.0
// The kernel driver of a machine made of files: loaded, on disk, configured, packaged; its device files and bridges.
#include <gmock/gmock.h>

#include "probe/machine_tree.hpp"

namespace gpuwarden {
namespace {

using namespace std::string_literals;
using facts::ModuleFlavour;
using facts::NotProbed;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MachineTree;

constexpr const char* kKernel = "6.1.0-28-amd64";

std::string module(const std::string& version, const std::string& license) {
  return "\x7f"s + "ELF" + "\0version="s + version + "\0license="s + license + "\0"s;
}

class SurveyDriver : public ::testing::Test {
 protected:
  SurveyDriver() { tree_.file("/proc/sys/kernel/osrelease", std::string(kKernel) + "\n"); }
  std::string modules(const std::string& rest) const { return "/lib/modules/"s + kKernel + rest; }
  facts::KernelDriver driver() const { return tree_.survey().driver; }

  MachineTree tree_;
};

TEST_F(SurveyDriver, TellsTheLoadedOneItsFlavourAndItsModules) {
  tree_.file("/sys/module/nvidia/version", "550.54.15\n");
  tree_.file("/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\nGCC version: 12\n");
  tree_.file("/proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 2 1 nvidia_uvm, Live 0x0\next4 3 1 - Live 0x0\n");
  const auto driver = this->driver();
  EXPECT_EQ(driver.loaded_version, "550.54.15");
  EXPECT_EQ(driver.flavour, ModuleFlavour::open);
  EXPECT_THAT(driver.loaded_modules, ElementsAre("nvidia_uvm", "nvidia"));
}

TEST_F(SurveyDriver, WithoutSysTheVersionComesFromProc) {
  tree_.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu\n");
  EXPECT_EQ(driver().loaded_version, "470.256.02");
  EXPECT_EQ(driver().flavour, ModuleFlavour::proprietary);
}

TEST_F(SurveyDriver, TheModuleOnDiskTellsItsVersionLicenceAndSignature) {
  tree_.file(modules("/updates/dkms/nvidia-uvm.ko"), module("1.1.1", "GPL"));
  tree_.file(modules("/updates/dkms/nvidia-current.ko"), module("535.183.01", "NVIDIA"));
  EXPECT_EQ(driver().on_disk_version, "535.183.01");
  EXPECT_EQ(driver().flavour, ModuleFlavour::proprietary);
  EXPECT_EQ(driver().signer, "");
}

TEST_F(SurveyDriver, UpdatesGoBeforeTheKernelsOwnFolders) {
  tree_.file(modules("/kernel/nvidia-535/nvidia.ko"), module("535.1.1", "NVIDIA") + "~Module signature appended~\n");
  EXPECT_EQ(driver().on_disk_version, "535.1.1");
  EXPECT_EQ(driver().signer, "signed");
  tree_.file(modules("/updates/dkms/nvidia.ko"), module("550.1.1", "Dual MIT/GPL"));
  EXPECT_EQ(driver().on_disk_version, "550.1.1");
  EXPECT_EQ(driver().flavour, ModuleFlavour::open);
}

TEST_F(SurveyDriver, ACompressedModuleElsewhereIsSaidToBeUnread) {
  tree_.file(modules("/updates/dkms/nvidia.ko.xz"), "\xfd"s + "7zXZ");
  const auto environment = tree_.survey();
  EXPECT_EQ(environment.driver.on_disk_version, std::nullopt);
  EXPECT_THAT(environment.not_probed, Contains(Field(&NotProbed::reason, HasSubstr("nvidia.ko.xz is compressed"))));
}

TEST_F(SurveyDriver, ReadsModprobeWithEtcHidingLib) {
  tree_.file("/etc/modprobe.d/nvidia.conf", "# blacklist nvidia\noptions nvidia NVreg_EnableGpuFirmware=0 NVreg_X=1\n");
  tree_.file("/lib/modprobe.d/nvidia.conf", "blacklist nvidia\n");
  tree_.file("/lib/modprobe.d/nouveau.conf",
             "blacklist nouveau\nblacklist nouveau\ninstall nvidia-current /bin/false\n");
  tree_.file("/etc/modprobe.d/readme", "blacklist nvidia\n");
  EXPECT_THAT(driver().parameters, ElementsAre("NVreg_EnableGpuFirmware=0", "NVreg_X=1"));
  EXPECT_THAT(driver().blacklisted, ElementsAre("nouveau", "nvidia-current"));
}

TEST_F(SurveyDriver, TheKernelsCommandLineCanKeepModulesAway) {
  tree_.file("/proc/cmdline", "quiet modprobe.blacklist=nouveau,nvidia\n");
  EXPECT_THAT(driver().blacklisted, ElementsAre("nouveau", "nvidia"));
}

TEST_F(SurveyDriver, DkmsTellsItsNewestVersionByNumberAndWhereItIsBuilt) {
  tree_.folder("/var/lib/dkms/nvidia/99.1/6.1.0-9-amd64/x86_64/module");
  tree_.folder("/var/lib/dkms/nvidia/535.54.03/6.1.0-9-amd64/x86_64/module");
  tree_.folder("/var/lib/dkms/nvidia/535.183.01/6.1.0-28-amd64/x86_64/module");
  tree_.folder("/var/lib/dkms/nvidia/535.183.01/6.1.0-9-amd64/x86_64/log");
  tree_.folder("/var/lib/dkms/nvidia/535.183.01/build");
  tree_.folder("/var/lib/dkms/zfs/600.1/6.1.0-28-amd64/x86_64/module");
  EXPECT_EQ(driver().dkms_version, "535.183.01");
  EXPECT_THAT(driver().dkms_built_for, ElementsAre("6.1.0-28-amd64"));
}

TEST_F(SurveyDriver, FirmwareIsThatOfTheLoadedDriverElseTheNewest) {
  tree_.file("/lib/firmware/nvidia/535.183.01/gsp_ga10x.bin");
  tree_.file("/lib/firmware/nvidia/535.54.03/gsp_ga10x.bin");
  tree_.file("/lib/firmware/nvidia/999.1.1/readme");
  tree_.file("/lib/firmware/nvidia/tu102/gsp.bin");
  EXPECT_EQ(driver().firmware_version, "535.183.01");
  tree_.file("/sys/module/nvidia/version", "535.54.03\n");
  EXPECT_EQ(driver().firmware_version, "535.54.03");
}

TEST_F(SurveyDriver, SaysWhichPackageOrInstallerBroughtIt) {
  tree_.file("/var/log/nvidia-installer.log",
             "nvidia-installer log file '/var/log/nvidia-installer.log'\ncreation time: Thu\n"
             "installer version: 550.54.15\n\nPATH: /bin\n");
  EXPECT_EQ(driver().package, "runfile 550.54.15");
  tree_.file("/var/lib/dpkg/status",
             "Package: nvidia-driver-550\nStatus: install ok installed\nVersion: 550.90.07-0ubuntu1\n");
  EXPECT_EQ(driver().package, "nvidia-driver-550 550.90.07-0ubuntu1");
}

TEST_F(SurveyDriver, ArchLinuxAndRpmAreKnownToo) {
  tree_.folder("/var/lib/pacman/local/nvidia-utils-550.54.14-1");
  EXPECT_EQ(driver().package, "nvidia-utils 550.54.14-1");
  const MachineTree rpm;
  rpm.file("/var/lib/rpm/rpmdb.sqlite");
  EXPECT_THAT(rpm.survey().not_probed, Contains(Field(&NotProbed::what, "packages")));
}

TEST_F(SurveyDriver, DeviceFilesAreListedButNotOpenedElsewhere) {
  EXPECT_THAT(tree_.survey().device_nodes, IsEmpty());
  tree_.file("/dev/nvidiactl");
  tree_.file("/dev/nvidia0");
  tree_.file("/dev/nvidia-caps/nvidia-cap1");
  tree_.link("/dev/nvidia1", "/../../../../dev/null");
  std::vector<std::string> paths;
  for (const auto& node : tree_.survey().device_nodes) {
    paths.push_back(node.path + (node.exists ? " yes" : " no"));
    EXPECT_EQ(node.openable, std::nullopt);
  }
  EXPECT_THAT(paths, ElementsAre("/dev/nvidiactl yes", "/dev/nvidia-uvm no", "/dev/nvidia0 yes", "/dev/nvidia1 no",
                                 "/dev/nvidia-caps/nvidia-cap1 yes"));
}

/// The extended configuration space of a bridge whose ACS control register is `control`.
std::string configuration(char control) {
  std::string bytes(4096, '\0');
  bytes[0x100] = 0x01;                       // advanced error reporting
  bytes[0x102] = 0x01, bytes[0x103] = 0x15;  // next: 0x150
  bytes[0x150] = 0x0d;                       // ACS
  bytes[0x156] = control;
  return bytes;
}

void add_gpu_behind(const MachineTree& tree, const std::string& bridge, const std::string& gpu,
                    const std::string& config) {
  const std::string folder = "/sys/devices/pci0000:00/" + bridge;
  tree.file(folder + "/class", "0x060400\n");
  tree.file(folder + "/config", config);
  tree.file(folder + "/" + gpu + "/class", "0x030200\n");
  tree.file(folder + "/" + gpu + "/vendor", "0x10de\n");
  tree.link("/sys/bus/pci/devices/" + bridge, "../../../devices/pci0000:00/" + bridge);
  tree.link("/sys/bus/pci/devices/" + gpu, "../../../devices/pci0000:00/" + bridge + "/" + gpu);
}

TEST_F(SurveyDriver, OnlyBridgesAboveGpusThatRedirectAreNamed) {
  add_gpu_behind(tree_, "0000:00:01.0", "0000:01:00.0", configuration(0x1d));
  add_gpu_behind(tree_, "0000:00:02.0", "0000:02:00.0", configuration(0x00));
  tree_.file("/sys/bus/pci/devices/0000:00:03.0/class", "0x060400\n");
  tree_.file("/sys/bus/pci/devices/0000:00:03.0/config", configuration(0x1d));
  EXPECT_THAT(tree_.survey().host.acs_bridges, ElementsAre("0000:00:01.0"));
  EXPECT_THAT(tree_.survey().not_probed, IsEmpty());
}

TEST_F(SurveyDriver, AConfigurationSpaceThatIsCutOrLoopsIsNotPermittedOrHarmless) {
  std::string loop = configuration(0x1d);
  loop[0x150] = 0x01, loop[0x152] = 0x01, loop[0x153] = 0x10;
  add_gpu_behind(tree_, "0000:00:01.0", "0000:01:00.0", loop);
  EXPECT_THAT(tree_.survey().host.acs_bridges, IsEmpty());
  tree_.file("/sys/devices/pci0000:00/0000:00:01.0/config", configuration(0x1d).substr(0, 64));
  EXPECT_THAT(tree_.survey().not_probed, ElementsAre(NotProbed{"ACS of PCIe bridges", "not permitted"}));
}

TEST_F(SurveyDriver, TheIommuTranslatesWhereTheGpusGroupSaysSo) {
  EXPECT_EQ(tree_.survey().host.iommu, std::nullopt);
  add_gpu_behind(tree_, "0000:00:01.0", "0000:01:00.0", "");
  tree_.folder("/sys/class/iommu/dmar0");
  tree_.file("/sys/kernel/iommu_groups/7/type", "DMA-FQ\n");
  const std::string group = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/iommu_group/type";
  tree_.file(group, "identity\n");
  EXPECT_EQ(tree_.survey().host.iommu, false);
  tree_.file(group, "DMA\n");
  EXPECT_EQ(tree_.survey().host.iommu, true);
}

}  // namespace
}  // namespace gpuwarden
