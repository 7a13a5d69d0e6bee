// SPDX-License-Identifier: Apache-2.0
#include "probe/nics.hpp"

#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using facts::LinkLevel;
using namespace gpuwarden::testing;
namespace fs = std::filesystem;

TEST(PciDistance, FollowsNvidiaSmisLevels) {
  // Two ports of one switch; two switches below one root port; two root ports; two host bridges; two sockets.
  const fs::path gpu = "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0";
  EXPECT_EQ(level_between(gpu, 0, "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", 0),
            LinkLevel::single_switch);
  EXPECT_EQ(level_between(gpu, 0, "pci0000:16/0000:16:01.0/0000:17:01.0/0000:28:00.0/0000:2a:00.0", 0),
            LinkLevel::multiple_switches);
  EXPECT_EQ(level_between(gpu, 0, "pci0000:16/0000:16:02.0/0000:2a:00.0", 0), LinkLevel::host_bridge);
  EXPECT_EQ(level_between(gpu, 0, "pci0000:30/0000:30:01.0/0000:31:00.0", 0), LinkLevel::node);
  EXPECT_EQ(level_between(gpu, 0, "pci0000:80/0000:80:01.0/0000:81:00.0", 1), LinkLevel::system);
  EXPECT_EQ(level_between(gpu, -1, "pci0000:80/0000:80:01.0/0000:81:00.0", -1), LinkLevel::system) << "unknown is far";
}

TEST(Nics, AreReadWithTheirDistanceToEachGpu) {
  const TempDir dir;
  const auto device = [&](const std::string& path, const std::string& node) {
    put(dir / ("sys/devices/" + path + "/numa_node"), node + "\n");
    return dir / ("sys/devices/" + path);
  };
  const auto nic = device("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", "0");
  const auto near = device("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", "0");
  const auto far = device("pci0000:80/0000:80:01.0/0000:81:00.0", "1");
  fs::create_directories(dir / "sys/class/infiniband/mlx5_0");
  fs::create_directories(dir / "sys/bus/pci/devices");
  fs::create_directory_symlink(nic, dir / "sys/class/infiniband/mlx5_0/device");
  fs::create_directory_symlink(near, dir / "sys/bus/pci/devices/0000:19:00.0");
  fs::create_directory_symlink(far, dir / "sys/bus/pci/devices/0000:81:00.0");
  facts::GpuRecord one;
  one.gpu.pci_bus_id = "00000000:19:00.0";
  facts::GpuRecord two;
  two.gpu.index = GpuIndex{1};
  two.gpu.pci_bus_id = "00000000:81:00.0";
  const auto nics = read_nics(dir / "sys", {one, two});
  ASSERT_EQ(nics.size(), 1U);
  EXPECT_EQ(nics[0].name, "mlx5_0");
  EXPECT_EQ(nics[0].pci_bus_id, "0000:1a:00.0");
  EXPECT_EQ(nics[0].numa_node, 0);
  EXPECT_THAT(nics[0].distances, ::testing::ElementsAre(facts::Nic::Distance{GpuIndex{0}, LinkLevel::single_switch},
                                                        facts::Nic::Distance{GpuIndex{1}, LinkLevel::system}));
  EXPECT_TRUE(read_nics(dir / "nowhere", {one}).empty());
}

}  // namespace
}  // namespace gpuwarden::probe
