// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "memory/adapted.hpp"
#include "memory/metered_upstream.hpp"
#include "memory/own_pool.hpp"

namespace gpuwarden::bench {
namespace {

template <bool kHandles>
Contender contender(std::string name, const memory::Strategy& strategy) {
  return {std::move(name), Contender::Kind::ours, {}, [&strategy](const DeviceSpec& spec) {
            return std::make_unique<Adapted<OwnPool<MeteredUpstream, kHandles>>>(
                std::make_unique<MeteredUpstream>(Bytes(spec.capacity), spec.price_factor), strategy);
          }};
}

}  // namespace

std::vector<Contender> own_contenders() {
  std::vector<Contender> all;
  for (const auto& strategy : memory::strategies())
    all.push_back(contender<false>(fmt::format("gpuwarden {}", strategy.name), strategy));
  const auto& first = memory::strategies().front();
  all.push_back(contender<true>(fmt::format("gpuwarden {}, handles", first.name), first));
  return all;
}

}  // namespace gpuwarden::bench
