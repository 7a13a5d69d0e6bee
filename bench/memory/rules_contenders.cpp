// SPDX-License-Identifier: Apache-2.0
#include "memory/adapted.hpp"
#include "memory/bfc_rules.hpp"
#include "memory/pytorch_rules.hpp"
#include "memory/rmm_arena_rules.hpp"
#include "memory/rmm_binning_rules.hpp"
#include "memory/rmm_rules.hpp"

namespace gpuwarden::bench {
namespace {

template <class Rules>
class RulesOnDevice {
 public:
  template <class... Arguments>
  explicit RulesOnDevice(const DeviceSpec& spec, Arguments... arguments)
      : device_(spec.capacity, spec.price_factor), rules_(device_, arguments...) {}

  void allocate(Slot& slot, std::uint64_t size, std::uint32_t stream) {
    slot.address = rules_.allocate(size, stream);
    slot.size = size;
  }
  void free(Slot& slot, std::uint32_t stream) { rules_.free(slot.address, slot.size, stream); }
  Footprint footprint() { return {device_.reserved, device_.peak_reserved, device_.driver.counts(), std::nullopt}; }
  Driver* driver() { return &device_.driver; }

 private:
  CountingDevice device_;
  Rules rules_;
};

template <class Rules, class... Arguments>
Contender contender(std::string name, Abilities abilities, Arguments... arguments) {
  return {std::move(name), Contender::Kind::rules, abilities,
          [=](const DeviceSpec& spec) { return std::make_unique<Adapted<RulesOnDevice<Rules>>>(spec, arguments...); }};
}

}  // namespace

std::vector<Contender> rules_contenders() {
  return {contender<PyTorchRules>("PyTorch rules", {}, false),
          contender<PyTorchRules>("PyTorch rules, expandable", {}, true),
          contender<BfcRules>("BFC rules", {.streams = false}),
          contender<RmmPoolRules>("RMM pool rules", {}),
          contender<RmmBinningRules>("RMM binning rules", {}),
          contender<RmmArenaRules>("RMM arena rules", {})};
}

std::vector<Contender> contenders() {
  std::vector<Contender> all;
  for (auto list : {own_contenders(), rules_contenders(), vma_contenders(), cub_contenders(), host_contenders()})
    std::ranges::move(list, std::back_inserter(all));
  return all;
}

}  // namespace gpuwarden::bench
