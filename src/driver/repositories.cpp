// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA CUDA installation guide for Linux, the distributions and machines that its network repositories serve.
#include "driver/repositories.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::driver {

namespace {

constexpr std::string_view kCudaRepository = "developer.download.nvidia.com/compute/cuda/repos";
constexpr std::string_view kRunfile = "use NVIDIA's .run installer: --runfile FILE";

/// How a path names a release: by its major number, or by all of it without the dots.
enum class Release { major, whole };

struct Distribution {
  std::string_view distribution;  ///< ID of os-release
  std::string_view prefix;
  Release release = Release::major;
};

constexpr auto kDistributions = std::to_array<Distribution>({{"ubuntu", "ubuntu", Release::whole},
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

/// The oldest release of a distribution that NVIDIA's current drivers are packaged for. What is older has neither new
/// packages of NVIDIA's nor its own distribution's support (source: NVIDIA driver installation guide R580 and CUDA 13
/// installation guide, supported distributions; the distributions' own life cycles).
struct OldestServed {
  std::string_view distribution;
  knowledge::Version release;
  std::string_view name;
};

constexpr auto kOldestServed = std::to_array<OldestServed>({{"ubuntu", {22, 4}, "Ubuntu 22.04"},
                                                            {"debian", {12}, "Debian 12"},
                                                            {"rhel", {8}, "Red Hat Enterprise Linux 8"},
                                                            {"rocky", {8}, "Rocky Linux 8"},
                                                            {"almalinux", {8}, "AlmaLinux 8"},
                                                            {"centos", {9}, "Rocky Linux 8 or CentOS Stream 9"},
                                                            {"ol", {8}, "Oracle Linux 8"},
                                                            {"amzn", {2023}, "Amazon Linux 2023"},
                                                            {"sles", {15}, "SLES 15"},
                                                            {"opensuse-leap", {15}, "openSUSE Leap 15"}});

Result<void> check_plain(std::string_view what, const std::optional<std::string>& word) {
  if (!word || word->empty()) return {};
  if (word->find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string::npos) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("the {} '{}' is not a plain word", what, printable(*word)),
              "look at /etc/os-release of that machine, or at the capture");
}

bool equals_ignoring_case(std::string_view text, std::string_view other) {
  return text.size() == other.size() && contains_ignoring_case(text, other);
}

/// NAME=value, NAME: value, with whatever spaces: whether the value is one of those that mean no.
bool says_no(std::string_view line, std::string_view name) {
  const std::size_t end = line.find_first_of("=:");
  if (end == std::string_view::npos || !equals_ignoring_case(trim(line.substr(0, end)), name)) return false;
  const auto value = trim(line.substr(end + 1));
  return std::ranges::any_of(std::array{"0", "no", "false", "off", "without", "disable"},
                             [&](const char* word) { return equals_ignoring_case(value, word); });
}

/// One-line sources (*.list): each line stands for itself.
bool lists_repository(std::string_view text) {
  return std::ranges::any_of(split(text, '\n'), [](std::string_view line) {
    line = trim(line.substr(0, line.find('#')));
    return line.starts_with("deb") && line.contains(kCudaRepository);
  });
}

/// Stanzas (*.sources, behind empty lines) or sections (*.repo, behind [name]): one that names the repository and is
/// not switched off. `opens`: whether a line begins a new one.
bool describes_repository(std::string_view text, bool (*opens)(std::string_view line)) {
  bool named = false;
  bool enabled = true;
  for (auto line : split(text, '\n')) {
    line = trim(line);
    if (line.starts_with('#') || line.starts_with(';')) continue;
    if (opens(line)) {
      if (named && enabled) return true;
      named = false;
      enabled = true;
    }
    named = named || line.contains(kCudaRepository);
    enabled = enabled && !says_no(line, "enabled");
  }
  return named && enabled;
}

bool is_empty_line(std::string_view line) { return line.empty(); }
bool is_section(std::string_view line) { return line.starts_with('['); }

/// Other endings (*.list.save, *.disabled) are read by no package manager.
bool is_source_of_repository(const std::filesystem::path& file) {
  const auto ending = file.extension();
  if (ending != ".list" && ending != ".sources" && ending != ".repo") return false;
  const auto text = read_file(file, std::size_t{1} << 20U);
  if (!text) return false;
  if (ending == ".list") return lists_repository(*text);
  return describes_repository(*text, ending == ".sources" ? is_empty_line : is_section);
}

}  // namespace

bool has_cuda_repository(const std::filesystem::path& root) {
  if (is_source_of_repository(root / "etc/apt/sources.list")) return true;
  return std::ranges::any_of(
      std::array{"etc/apt/sources.list.d", "etc/yum.repos.d", "etc/zypp/repos.d"},
      [&](const char* folder) { return std::ranges::any_of(list_directory(root / folder), is_source_of_repository); });
}

Result<void> check_served(const facts::Host& host) {
  const auto* const row = std::ranges::find(kOldestServed, host.distribution.value_or(""), &OldestServed::distribution);
  const auto release = knowledge::Version::parse(host.distribution_version.value_or(""));
  if (row == kOldestServed.end() || !release || *release >= row->release) return {};
  return fail(
      ErrorCode::unsatisfied,
      fmt::format("{} is no longer served: NVIDIA packages no drivers for it any more",
                  host.distribution_name.value_or(
                      fmt::format("{} {}", *host.distribution, printable(*host.distribution_version)))),
      fmt::format("upgrade the system to {} or newer; or use NVIDIA's .run installer: --runfile FILE", row->name));
}

Result<Repository> repository_for(const facts::Host& host) {
  GPUWARDEN_CHECK(check_plain("distribution", host.distribution));
  GPUWARDEN_CHECK(check_plain("distribution's version", host.distribution_version));
  GPUWARDEN_CHECK(check_plain("machine", host.machine));
  const std::string distribution = host.distribution.value_or("");
  const std::string version = host.distribution_version.value_or("");
  const std::string machine = host.machine.value_or("x86_64");
  const auto* const row = std::ranges::find(kDistributions, distribution, &Distribution::distribution);
  const auto* const path = std::ranges::find(kMachines, machine, &decltype(kMachines)::value_type::first);
  if (row == kDistributions.end() || path == kMachines.end())
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
  result.url = fmt::format("https://{}/{}/{}", kCudaRepository, result.name, result.machine);
  return result;
}

}  // namespace gpuwarden::driver
