// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES from anywhere: selection must never crash, and never hand out what the variable hides.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gpuwarden/placement/select.hpp"
#include "tests/support/fleet_builder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden;
  static const facts::Snapshot kFleets[] = {testing::fleet(4), testing::mixed_fleet(), testing::mig_fleet()};
  placement::Visibility visibility;
  visibility.cuda_visible_devices = std::string(reinterpret_cast<const char*>(data), size);
  for (const auto& snapshot : kFleets) {
    for (const char* order : {"PCI_BUS_ID", "FASTEST_FIRST"}) {
      visibility.cuda_device_order = order;
      const auto decision = placement::select({}, {snapshot, {}, {}, visibility});
      if (decision && decision->satisfied && decision->selected.size() != 1) std::abort();
      if (!decision && decision.error().message.empty()) std::abort();
    }
  }
  return 0;
}
