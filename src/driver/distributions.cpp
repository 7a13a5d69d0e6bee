// SPDX-License-Identifier: Apache-2.0
// The distributions that plans are made for, as people name them.
#include "driver/distributions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/distributions.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::driver {

using knowledge::Distribution;
using knowledge::Version;

namespace {

/// Those whose package manager a plan can be written for: Azure Linux has one of its own, tdnf.
constexpr auto kManagers = std::to_array<std::pair<std::string_view, PackageManager>>(
    {{"apt", PackageManager::apt}, {"dnf", PackageManager::dnf}, {"zypper", PackageManager::zypper}});

PackageManager manager_of(const Distribution& one) {
  const auto* const found = std::ranges::find(kManagers, one.manager, &decltype(kManagers)::value_type::first);
  return found == kManagers.end() ? PackageManager::none : found->second;
}

/// Of a distribution that plans are made for.
const Distribution* find(std::string_view id) {
  const Distribution* const found = knowledge::find_distribution(id);
  return found == nullptr || manager_of(*found) == PackageManager::none ? nullptr : found;
}

/// "10" of "V10", as Kylin's os-release has it.
std::string_view without_letter(std::string_view release) {
  const bool lettered = release.size() > 1 && (release[0] == 'V' || release[0] == 'v');
  if (lettered && release[1] >= '0' && release[1] <= '9') release.remove_prefix(1);
  return release;
}

Error not_known(std::string_view text) {
  std::vector<std::string> names;
  for (const Distribution& one : knowledge::distributions()) {
    if (manager_of(one) != PackageManager::none) names.emplace_back(one.id);
  }
  const bool azure = contains_ignoring_case(text, "azurelinux") || contains_ignoring_case(text, "mariner");
  return {
      ErrorCode::invalid_argument,
      azure ? fmt::format("no plan can be made for '{}': its package manager, tdnf, is not known here", printable(text))
            : fmt::format("'{}' is not a known distribution", printable(text)),
      "one of " + join(names, ", ")};
}

/// "44", and "26.10" of Ubuntu, the one whose releases have two numbers.
std::string release_text(const Version& release) {
  return release.minor == 0 ? std::to_string(release.major) : knowledge::to_string(release);
}

/// "24.04" of Ubuntu's "24.4", which has the months in two digits; else a release that is served.
std::string nearest_release(const Distribution& known, std::string_view release) {
  const auto version = Version::parse(release);
  const bool has_one_digit = known.id == "ubuntu" && version && version->minor == 4 && !release.contains(".04");
  if (has_one_digit && *version <= known.newest) return fmt::format("{}.04", version->major);
  return version && version->major > known.newest.major ? release_text(known.newest) : std::string(known.example);
}

/// Fails where the release is beyond what is known, or of no number that the distribution gives out.
Result<void> check_release(const Distribution& known, const facts::Host& named) {
  const std::string& release = *named.distribution_version;
  std::string why = unknown_release(named);
  const bool one_digit = known.id == "ubuntu" && release.contains(".4") && !release.contains(".04");
  if (why.empty() && one_digit) why = fmt::format("ubuntu {} was never released", printable(release));
  if (why.empty()) return {};
  return fail(ErrorCode::invalid_argument, why,
              fmt::format("did you mean {}:{}?", known.id, nearest_release(known, release)));
}

}  // namespace

PackageManager manager_of(std::string_view distribution) {
  const Distribution* const known = find(distribution);
  return known == nullptr ? PackageManager::none : manager_of(*known);
}

std::string release_of(const facts::Host& host) {
  return std::string(without_letter(host.distribution_version.value_or("")));
}

std::string unknown_release(const facts::Host& host) {
  const Distribution* const known = find(host.distribution.value_or(""));
  const auto release = Version::parse(release_of(host));
  if (known == nullptr || !release) return "";
  const bool later = release->major > known->newest.major || (known->newest.minor != 0 && *release > known->newest);
  if (later)
    return fmt::format("{} {} is newer than what is known, or never released: the newest that is known is {}",
                       known->id, printable(*host.distribution_version), release_text(known->newest));
  if (known->id == "ubuntu" && release->minor != 4 && release->minor != 10)
    return fmt::format("ubuntu {} was never released: Ubuntu's releases are of April (.04) and October (.10)",
                       printable(*host.distribution_version));
  return "";
}

Result<void> name_distribution(std::string_view text, facts::Host& host) {
  const std::size_t end = text.find_first_of(": ");
  const std::string id = to_lower(trim(text.substr(0, end)));
  const std::string release(end == std::string_view::npos ? std::string_view() : trim(text.substr(end + 1)));
  const Distribution* const known = find(id);
  if (known == nullptr) return std::unexpected(not_known(text));
  if (!Version::parse(without_letter(release)))
    return fail(ErrorCode::invalid_argument,
                release.empty() ? fmt::format("'{}' names no release", printable(text))
                                : fmt::format("'{}' is not a release of {}", printable(release), known->id),
                fmt::format("write {}:{}", known->id, known->example));
  facts::Host named;
  named.distribution = id;
  named.distribution_version = release;
  GPUWARDEN_CHECK(check_release(*known, named));
  host.distribution = id;
  host.distribution_version = release;
  host.distribution_name = fmt::format("{}:{}", id, printable(release));
  return {};
}

}  // namespace gpuwarden::driver
