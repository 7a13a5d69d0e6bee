// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA CUDA installation guide for Linux, the distributions and machines that its network repositories serve.
#include "setup/driver_repositories.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::setup {

namespace {

constexpr std::string_view kRunfile = "use NVIDIA's .run installer: --runfile FILE";

/// How a path names a release: by its major number, or by all of it without the dots.
enum class Release { major, whole };

struct Row {
  std::string_view distribution;  ///< ID of os-release
  std::string_view prefix;
  Release release = Release::major;
};

constexpr auto kRows = std::to_array<Row>({{"ubuntu", "ubuntu", Release::whole},
                                           {"debian", "debian"},
                                           {"fedora", "fedora"},
                                           {"rhel", "rhel"},
                                           {"rocky", "rhel"},
                                           {"almalinux", "rhel"},
                                           {"centos", "rhel"},
                                           {"ol", "rhel"},
                                           {"amzn", "amzn"},
                                           {"azurelinux", "azl"},
                                           {"mariner", "cm"},
                                           {"sles", "sles"},
                                           {"opensuse-leap", "opensuse"},
                                           {"kylin", "kylin"}});

constexpr auto kMachines = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"x86_64", "x86_64"}, {"aarch64", "sbsa"}, {"ppc64le", "ppc64le"}});

Result<void> check_plain(std::string_view what, const std::optional<std::string>& word) {
  if (!word || word->empty()) return {};
  if (word->find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string::npos) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("the {} '{}' is no plain word", what, printable(*word)),
              "look at /etc/os-release of that machine, or at the capture");
}

}  // namespace

Result<Repository> repository_for(const facts::Host& host) {
  GPUWARDEN_CHECK(check_plain("distribution", host.distribution));
  GPUWARDEN_CHECK(check_plain("distribution's version", host.distribution_version));
  GPUWARDEN_CHECK(check_plain("machine", host.machine));
  const std::string distribution = host.distribution.value_or("");
  const std::string version = host.distribution_version.value_or("");
  const std::string machine = host.machine.value_or("x86_64");
  const auto* const row = std::ranges::find(kRows, distribution, &Row::distribution);
  const auto* const path = std::ranges::find(kMachines, machine, &decltype(kMachines)::value_type::first);
  if (row == kRows.end() || path == kMachines.end())
    return fail(ErrorCode::unsatisfied,
                fmt::format("no repository of NVIDIA is known for {} on {}",
                            distribution.empty() ? "a distribution without a name" : distribution, machine),
                std::string(kRunfile));
  std::string release = row->release == Release::major ? version.substr(0, version.find('.')) : version;
  std::erase(release, '.');
  // A testing release has no number, and a candidate's is none: neither has a repository.
  if (!parse_integer(release))
    return fail(
        ErrorCode::unsatisfied,
        fmt::format("{} without a release's number ('{}') has no repository of NVIDIA's", distribution, version),
        std::string(kRunfile));
  Repository result;
  result.name = fmt::format("{}{}", row->prefix, release);
  result.machine = path->second;
  result.url =
      fmt::format("https://developer.download.nvidia.com/compute/cuda/repos/{}/{}", result.name, result.machine);
  return result;
}

}  // namespace gpuwarden::setup
