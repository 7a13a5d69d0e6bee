// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA CUDA installation guide for Linux, the machines that its network repositories serve; the
// distributions: knowledge/distributions.csv.
#include "driver/repositories.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "driver/distributions.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/distributions.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::driver {

namespace {

constexpr std::string_view kCudaRepository = "developer.download.nvidia.com/compute/cuda/repos";
constexpr std::string_view kRunfile = "use NVIDIA's .run installer: --runfile FILE";

constexpr auto kMachines = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"x86_64", "x86_64"}, {"aarch64", "sbsa"}, {"ppc64le", "ppc64le"}});

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
  // What is older has neither new packages of NVIDIA's nor its own distribution's support.
  const auto* const row = knowledge::find_distribution(host.distribution.value_or(""));
  const auto release = knowledge::Version::parse(release_of(host));
  if (row == nullptr || row->oldest_name.empty() || !release || *release >= row->oldest) return {};
  return fail(ErrorCode::unsatisfied,
              fmt::format("{} is no longer served: NVIDIA packages no drivers for it any more",
                          host.distribution_name.value_or(
                              fmt::format("{} {}", *host.distribution, printable(*host.distribution_version)))),
              fmt::format("upgrade the system to {} or newer; or use NVIDIA's .run installer: --runfile FILE",
                          row->oldest_name));
}

Result<Repository> repository_for(const facts::Host& host) {
  GPUWARDEN_CHECK(check_plain("distribution", host.distribution));
  const std::string version = release_of(host);
  GPUWARDEN_CHECK(check_plain("distribution's version", version));
  GPUWARDEN_CHECK(check_plain("machine", host.machine));
  const std::string distribution = host.distribution.value_or("");
  const std::string machine = host.machine.value_or("x86_64");
  const auto* const row = knowledge::find_distribution(distribution);
  const auto* const path = std::ranges::find(kMachines, machine, &decltype(kMachines)::value_type::first);
  if (row == nullptr || path == kMachines.end())
    return fail(ErrorCode::unsatisfied,
                fmt::format("no repository of NVIDIA is known for {} on {}",
                            distribution.empty() ? "a distribution without a name" : distribution, machine),
                std::string(kRunfile));
  const std::string folder = knowledge::repository_folder(*row, version);
  if (folder.empty())
    return fail(
        ErrorCode::unsatisfied,
        fmt::format("{} without a release's number ('{}') has no repository of NVIDIA's", distribution, version),
        std::string(kRunfile));
  Repository result;
  result.name = folder;
  result.machine = path->second;
  result.url = fmt::format("https://{}/{}/{}", kCudaRepository, result.name, result.machine);
  return result;
}

}  // namespace gpuwarden::driver
