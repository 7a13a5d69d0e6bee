// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/reservation.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using namespace gpuwarden::testing;

TEST(LeaseDevices, AGpuHasItsFileInSys) {
  auto snapshot = fleet(2);
  snapshot.gpus[1].gpu.uuid = Uuid();
  snapshot.gpus[1].gpu.pci_bus_id.clear();
  const auto devices = lease_devices(snapshot, "/sys", "/proc");
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0], (lease::Device{snapshot.gpus[0].gpu.uuid, "/sys/bus/pci/devices/0000:10:00.0/vendor"}));
  EXPECT_EQ(devices[1], (lease::Device{Uuid("index-1"), ""})) << "a Jetson's has neither UUID nor address";
}

TEST(LeaseDevices, AMigInstanceHasItsFileAmongTheCapabilities) {
  auto snapshot = mig_fleet();
  EXPECT_EQ(lease_devices(snapshot, "/sys", "/proc")[1].kernel_file, "") << "the GPU's number is not known";
  snapshot.gpus[0].gpu.minor_number = Count(3);
  snapshot.gpus[0].mig_devices[0].compute_instance = 1;
  const auto devices = lease_devices(snapshot, "/sys", "/x/proc");
  ASSERT_EQ(devices.size(), 5U);
  EXPECT_EQ(devices[1].uuid, snapshot.gpus[0].mig_devices[0].uuid);
  EXPECT_EQ(devices[1].kernel_file, "/x/proc/driver/nvidia/capabilities/gpu3/mig/gi7/ci1/access");
}

TEST(LeaseDevices, OtherMakersGpusAreNeverLeased) {
  auto snapshot = fleet(1);
  snapshot.gpus[0].gpu.vendor = "AMD";
  EXPECT_TRUE(lease_devices(snapshot, "/sys", "/proc").empty());
}

}  // namespace
}  // namespace gpuwarden::machine
