// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/first_drivers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gpuwarden/base/text.hpp"
#include "knowledge/names.hpp"

namespace gpuwarden::knowledge {
namespace {

struct FirstDriversRow {
  std::string_view name;
  std::string_view releases;  ///< "525.147.05;535.86.05"; a branch alone stands for its first release
  std::string_view source;
};
constexpr FirstDriversRow kFirstDrivers[] = {
#include "knowledge/gpu_first_drivers.inc"
};

/// "535.104.05", "branch 525".
std::string release_text(const Version& release) {
  return release.minor == 0 ? fmt::format("branch {}", release.major) : to_string(release);
}

}  // namespace

Version FirstDrivers::of_branch(int branch) const {
  const auto own = std::ranges::find(releases, branch, &Version::major);
  return own == releases.end() ? lowest() : *own;
}

bool FirstDrivers::serve(const Version& driver) const { return driver >= of_branch(driver.major); }

FirstDrivers first_drivers_of(std::string_view gpu_name, int generation_branch) {
  FirstDrivers generation;
  if (generation_branch != 0) generation.releases.push_back({.major = generation_branch});
  const std::string_view wanted = without_maker(gpu_name.substr(0, gpu_name.find(" MIG ")));
  const auto* const row = std::ranges::find_if(
      kFirstDrivers, [&](const FirstDriversRow& one) { return without_maker(one.name) == wanted; });
  if (row == std::end(kFirstDrivers)) return generation;
  FirstDrivers product{.source = row->source};
  for (const std::string_view release : split(row->releases, ';'))
    product.releases.push_back(Version::parse(release).value_or(Version{}));
  return generation.lowest() > product.releases.back() ? generation : product;
}

FirstDrivers first_drivers_of(const GpuModel& model) { return first_drivers_of(model.name, model.first_driver_branch); }

std::string text_of(const FirstDrivers& first) {
  if (first.releases.empty()) return "";
  std::vector<std::string> later;
  for (auto release = first.releases.begin() + 1; release != first.releases.end(); ++release)
    later.push_back(fmt::format("R{}: {}", release->major, to_string(*release)));
  return later.empty() ? release_text(first.lowest())
                       : fmt::format("{} ({})", release_text(first.lowest()), join(later, ", "));
}

std::string text_of(const FirstDrivers& first, int branch) {
  const Version own = first.of_branch(branch);
  if (own.major != branch) return text_of(first);
  return own.minor == 0 ? release_text(own) : fmt::format("{} of R{}", to_string(own), branch);
}

}  // namespace gpuwarden::knowledge
