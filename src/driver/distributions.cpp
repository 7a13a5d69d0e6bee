// SPDX-License-Identifier: Apache-2.0
// The distributions that plans are made for, as people name them.
#include "driver/distributions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::driver {

using knowledge::Version;

namespace {

struct Known {
  std::string_view id;  ///< of os-release
  PackageManager manager = PackageManager::none;
  std::string_view example;  ///< a release that is served today
  Version newest;            ///< release that is known
};

/// The releases are from memory (2026-11), to be held against the folders of
/// developer.download.nvidia.com/compute/cuda/ repos and the distributions' life cycles; they only warn. Azure Linux
/// has a package manager of its own, tdnf, which no plan is written for.
constexpr auto kKnown = std::to_array<Known>({{"debian", PackageManager::apt, "12", {13}},
                                              {"ubuntu", PackageManager::apt, "24.04", {26, 10}},
                                              {"rhel", PackageManager::dnf, "9", {10}},
                                              {"fedora", PackageManager::dnf, "42", {44}},
                                              {"rocky", PackageManager::dnf, "9", {10}},
                                              {"almalinux", PackageManager::dnf, "9", {10}},
                                              {"ol", PackageManager::dnf, "9", {10}},
                                              {"centos", PackageManager::dnf, "9", {10}},
                                              {"amzn", PackageManager::dnf, "2023", {2023}},
                                              {"kylin", PackageManager::dnf, "10", {11}},
                                              {"sles", PackageManager::zypper, "15", {16}},
                                              {"opensuse-leap", PackageManager::zypper, "15", {16}}});

const Known* find(std::string_view id) {
  const auto* const found = std::ranges::find(kKnown, id, &Known::id);
  return found == kKnown.end() ? nullptr : found;
}

Error not_known(std::string_view text) {
  std::vector<std::string> names;
  for (const Known& one : kKnown) names.emplace_back(one.id);
  const bool azure = contains_ignoring_case(text, "azurelinux") || contains_ignoring_case(text, "mariner");
  return {ErrorCode::invalid_argument,
          azure ? fmt::format("no plan can be made for '{}': its package manager, tdnf, is not known here",
                              printable(std::string(text)))
                : fmt::format("'{}' is not a known distribution", printable(std::string(text))),
          "one of " + join(names, ", ")};
}

}  // namespace

PackageManager manager_of(std::string_view distribution) {
  const Known* const known = find(distribution);
  return known == nullptr ? PackageManager::none : known->manager;
}

std::string unknown_release(const facts::Host& host) {
  const Known* const known = find(host.distribution.value_or(""));
  const auto release = Version::parse(host.distribution_version.value_or(""));
  if (known == nullptr || !release) return "";
  const bool later = release->major > known->newest.major || (known->newest.minor != 0 && *release > known->newest);
  if (later)
    return fmt::format("{} {} is newer than what is known, or never released: the newest that is known is {}",
                       known->id, printable(*host.distribution_version), knowledge::to_string(known->newest));
  if (known->id == "ubuntu" && release->minor != 4 && release->minor != 10)
    return fmt::format("ubuntu {} was never released: Ubuntu's releases are of April (.04) and October (.10)",
                       printable(*host.distribution_version));
  return "";
}

Result<void> name_distribution(std::string_view text, facts::Host& host) {
  const std::size_t end = text.find_first_of(": ");
  const std::string id = to_lower(trim(text.substr(0, end)));
  const std::string release(end == std::string_view::npos ? std::string_view() : trim(text.substr(end + 1)));
  const Known* const known = find(id);
  if (known == nullptr) return std::unexpected(not_known(text));
  if (!Version::parse(release))
    return fail(ErrorCode::invalid_argument,
                release.empty() ? fmt::format("'{}' names no release", printable(std::string(text)))
                                : fmt::format("'{}' is not a release of {}", printable(release), known->id),
                fmt::format("write {}:{}", known->id, known->example));
  host.distribution = id;
  host.distribution_version = release;
  host.distribution_name = fmt::format("{}:{}", id, printable(release));
  return {};
}

}  // namespace gpuwarden::driver
