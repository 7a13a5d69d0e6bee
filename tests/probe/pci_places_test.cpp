// SPDX-License-Identifier: Apache-2.0
#include "probe/pci_places.hpp"

namespace gpuwarden::probe {
namespace {

using facts::GpuRecord;
using facts::GpuState;
using ::testing::ElementsAre;

std::vector<PciGpu> pci(const std::vector<std::string>& buses) {
  std::vector<PciGpu> gpus;
  for (const std::string& bus : buses) {
    PciGpu gpu;
    gpu.bus_id = bus;
    gpu.name = "NVIDIA H100 PCIe";
    gpus.push_back(gpu);
  }
  return gpus;
}

/// Records in index order; "" is one that fell silent before it said where it is.
std::vector<GpuRecord> records(const std::vector<std::string>& buses) {
  std::vector<GpuRecord> list;
  for (const std::string& bus : buses) {
    GpuRecord record;
    record.gpu.index = GpuIndex{static_cast<std::uint32_t>(list.size())};
    record.gpu.pci_bus_id = bus;
    if (bus.empty()) record.state = GpuState::not_answering;
    list.push_back(record);
  }
  return list;
}

std::vector<std::string> placed(const std::vector<PciGpu>& gpus, std::vector<GpuRecord> list) {
  place_by_pci(gpus, list);
  std::vector<std::string> buses;
  for (const GpuRecord& record : list) buses.push_back(record.gpu.pci_bus_id);
  return buses;
}

TEST(PciPlaces, ASilentGpuLiesBetweenItsNeighbours) {
  EXPECT_THAT(placed(pci({"01", "02", "03", "04"}), records({"01", "", "03", "04"})),
              ElementsAre("01", "02", "03", "04"));
  EXPECT_THAT(placed(pci({"01", "02", "03", "04"}), records({"", "", "", ""})), ElementsAre("01", "02", "03", "04"));
  EXPECT_THAT(placed(pci({"01", "02", "03", "04", "05"}), records({"02", "", "04"})), ElementsAre("02", "03", "04"))
      << "of a container's three";
}

TEST(PciPlaces, WhereSeveralMayBeMeantNoneIsNamed) {
  EXPECT_THAT(placed(pci({"01", "02", "03", "04"}), records({"01", ""})), ElementsAre("01", ""));
  EXPECT_THAT(placed(pci({"01", "02", "03", "04"}), records({"01", "", "04"})), ElementsAre("01", "", "04"));
  EXPECT_THAT(placed(pci({}), records({"01", "", "04"})), ElementsAre("01", "", "04"));
  EXPECT_THAT(placed(pci({"01", "02", "03"}), records({"03", "", "01"})), ElementsAre("03", "", "01"))
      << "no order to conclude from";
}

TEST(PciPlaces, GpusOfVirtualMachinesAreNotMeant) {
  auto gpus = pci({"01", "02", "03"});
  gpus[0].driver = "nvidia";
  gpus[1].driver = "vfio-pci";
  gpus[2].driver = "nvidia";
  EXPECT_THAT(placed(gpus, records({"01", ""})), ElementsAre("01", "03"));
}

TEST(PciPlaces, WhoSleepsIsOneOfThoseThatSleep) {
  auto gpus = pci({"01", "02", "03", "04"});
  gpus[2].suspended = true;
  auto list = records({"01", "", "04"});
  list[1].state = GpuState::suspended;
  place_by_pci(gpus, list);
  EXPECT_EQ(list[1].gpu.pci_bus_id, "03");
  EXPECT_EQ(list[1].gpu.name, "NVIDIA H100 PCIe");
  EXPECT_FALSE(list[1].cause.empty());
}

}  // namespace
}  // namespace gpuwarden::probe
