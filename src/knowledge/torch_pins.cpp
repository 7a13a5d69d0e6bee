// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/torch_pins.hpp"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr TritonPin kTritonPins[] = {
#include "knowledge/torch_triton.inc"
};
constexpr BitsandbytesBuild kBitsandbytes[] = {
#include "knowledge/bitsandbytes.inc"
};

}  // namespace

const TritonPin* triton_for(const Version& torch) {
  const auto* const found =
      std::ranges::find_if(kTritonPins, [&](const TritonPin& pin) { return pin.torch == release_of(torch); });
  return found == std::end(kTritonPins) ? nullptr : found;
}

bool goes_with(const TritonPin& pin, const Version& triton) {
  return release_of(Version::parse(pin.triton).value_or(Version{})) == release_of(triton);
}

const BitsandbytesBuild* bitsandbytes_build(const Version& version) {
  const auto* const found = std::ranges::find_if(kBitsandbytes, [&](const BitsandbytesBuild& build) {
    return version >= build.first && (build.last == Version{} || version <= build.last);
  });
  return found == std::end(kBitsandbytes) ? nullptr : found;
}

bool has_code_for(const BitsandbytesBuild& build, const Version& cuda) {
  return std::ranges::any_of(split_words(build.cuda), [&](std::string_view word) {
    const Version own = Version::parse(word).value_or(Version{});
    return own == release_of(cuda) || (build.major && own.major == cuda.major);
  });
}

const BitsandbytesBuild* bitsandbytes_for(const Version& torch, const Version& cuda) {
  const BitsandbytesBuild* newest = nullptr;
  for (const BitsandbytesBuild& build : kBitsandbytes) {
    if (has_code_for(build, cuda) && torch >= build.torch) newest = &build;
  }
  return newest;
}

}  // namespace gpuwarden::knowledge
