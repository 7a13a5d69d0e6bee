// SPDX-License-Identifier: Apache-2.0
// Formats of libraries, modules, toolkits and packages.
#include "probe/survey/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::probe {

namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kNumber = "0123456789.";

/// Like text.find(), but fast on binaries of many megabytes.
std::size_t position_of(std::string_view part, std::string_view text, std::size_t from) {
  if (from >= text.size()) return std::string_view::npos;
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

/// The beginning of `text` that is a dotted number, without a last dot.
std::string leading_number(std::string_view text) {
  text = text.substr(0, std::min(text.find_first_not_of(kNumber), std::size_t{32}));
  while (text.ends_with('.')) text.remove_suffix(1);
  return std::string(text);
}

std::optional<std::string> number_behind(std::string_view text, std::string_view label) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  std::string number = leading_number(text.substr(at + label.size()));
  return number.empty() ? std::nullopt : std::optional(std::move(number));
}

std::uint32_t word_at(std::string_view text, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4 && at + i < text.size(); ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
  return value;
}

/// The number of "#define NAME 12".
std::optional<std::int64_t> macro(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::string_view before = text.substr(0, at);
    const std::string_view line = before.substr(before.rfind('\n') + 1);
    const auto words = split_words(text.substr(at, std::min<std::size_t>(text.find('\n', at) - at, 128)));
    if (trim(line) == "#define" && words.size() >= 2 && words[0] == name) return parse_integer(words[1]);
  }
  return std::nullopt;
}

bool is_architecture(std::string_view word) {
  for (const std::string_view beginning : {"sm_", "compute_"}) {
    if (!word.starts_with(beginning)) continue;
    word.remove_prefix(beginning.size());
    const std::size_t digits = std::min(word.find_first_not_of(kDigits), word.size());
    return digits >= 2 && digits + 1 >= word.size();  // "90", "90a"
  }
  return word.starts_with("gfx") && word.size() >= 6 && word.size() <= 16;
}

}  // namespace

std::optional<std::string> version_of_library(std::string_view file_name) {
  const std::size_t at = file_name.rfind(".so.");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view version = file_name.substr(at + 4);
  if (!version.contains('.') || version.find_first_not_of(kNumber) != std::string_view::npos) return std::nullopt;
  return std::string(version);
}

std::optional<std::string> version_in(std::string_view text) {
  for (const auto word : split_words(text)) {
    const bool digits = word.find_first_not_of(kNumber) == std::string_view::npos;
    if (digits && word.contains('.') && word.size() >= 5 && word.front() != '.' && word.back() != '.')
      return std::string(word);
  }
  return std::nullopt;
}

std::vector<std::string> paths_in_loader_cache(std::string_view cache) {
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  constexpr std::size_t kHeader = 48;
  constexpr std::size_t kEntry = 24;
  constexpr std::uint32_t kMostEntries = 100'000;
  constexpr std::size_t kLongestPath = 4096;
  std::vector<std::string> paths;
  const std::size_t begin = cache.find(kMagic);
  if (begin == std::string_view::npos) return paths;
  cache.remove_prefix(begin);
  const std::uint32_t count = std::min(word_at(cache, 20), kMostEntries);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = kHeader + i * kEntry;
    const std::size_t value = word_at(cache, at + 8);
    if (at + kEntry > cache.size() || value >= cache.size()) break;
    // Bounded before it is searched: one entry's end must not cost a walk through the whole file.
    const std::string_view path = cache.substr(value, kLongestPath);
    const std::size_t end = path.find('\0');
    if (end != std::string_view::npos && path.starts_with('/')) paths.emplace_back(path.substr(0, end));
  }
  return paths;
}

std::optional<std::string> modinfo_field(std::string_view module, std::string_view key) {
  constexpr std::size_t kLongestField = 200;
  const std::string needle = std::string(key) + "=";
  for (std::size_t at = position_of(needle, module, 0); at != std::string_view::npos;
       at = position_of(needle, module, at + 1)) {
    // A field stands behind a zero or such; "srcversion=" and messages of the driver do not count.
    if (at == 0 || (module[at - 1] >= ' ' && module[at - 1] <= '~')) continue;
    const std::string_view value = module.substr(at + needle.size(), kLongestField);
    if (const std::size_t end = value.find('\0'); end != std::string_view::npos) return printable(value.substr(0, end));
  }
  return std::nullopt;
}

std::optional<std::string> version_in_toolkit_json(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  for (const char* part : {"cuda_nvcc", "cuda", "cuda_cudart"}) {
    const auto found = json.find(part);
    if (found == json.end() || !found->is_object()) continue;
    const auto version = found->find("version");
    if (version == found->end() || !version->is_string()) continue;
    std::string number = leading_number(version->get<std::string>());
    if (!number.empty()) return number;
  }
  return std::nullopt;
}

std::optional<std::string> version_in_nvcc_output(std::string_view text) { return number_behind(text, ", V"); }

std::optional<std::string> version_in_cuda_header(std::string_view text) {
  const auto number = macro(text, "CUDA_VERSION");
  if (!number || *number < 1000 || *number > 999'999) return std::nullopt;
  return fmt::format("{}.{}", *number / 1000, *number % 1000 / 10);
}

std::optional<std::string> version_in_header(std::string_view text, std::string_view prefix) {
  const auto part = [&](std::string_view name) { return macro(text, std::string(prefix) + std::string(name)); };
  const auto major = part("_MAJOR");
  const auto minor = part("_MINOR");
  const auto patch = part("_PATCHLEVEL") ? part("_PATCHLEVEL") : part("_PATCH");
  if (!major || !minor) return std::nullopt;
  return patch ? fmt::format("{}.{}.{}", *major, *minor, *patch) : fmt::format("{}.{}", *major, *minor);
}

std::optional<std::string> version_in_nccl_library(std::string_view library) {
  // The same words stand in messages, with a place holder behind them.
  constexpr std::string_view kLabel = "NCCL version ";
  for (std::size_t at = position_of(kLabel, library, 0); at != std::string_view::npos;
       at = position_of(kLabel, library, at + 1)) {
    std::string number = leading_number(library.substr(at + kLabel.size(), 32));
    const bool whole = at + kLabel.size() + number.size() < library.size();
    if (whole && number.contains('.')) return number;
  }
  return std::nullopt;
}

std::optional<std::string> python_assignment(std::string_view text, std::string_view name) {
  for (const auto line : split(text, '\n')) {
    if (!line.starts_with(name) || line.substr(name.size()).find_first_of(":= ") != 0) continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view value = trim(line.substr(equals + 1));
    if (value == "None") return "";
    if (value == "True" || value == "False") return std::string(value);
    const bool quoted = value.starts_with('\'') || value.starts_with('"');
    const std::size_t end = quoted ? value.find(value[0], 1) : std::string_view::npos;
    if (end != std::string_view::npos) return printable(value.substr(1, end - 1));
  }
  return std::nullopt;
}

std::vector<std::string> torch_architectures_in(std::string_view library, bool rocm) {
  const std::string needle = std::string(1, '\0') + (rocm ? "gfx" : "sm_");
  std::vector<std::string> best;
  for (std::size_t at = position_of(needle, library, 0); at != std::string_view::npos;
       at = position_of(needle, library, at + 1)) {
    const std::string_view rest = library.substr(at + 1, kLongestArchitectures);
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) continue;
    const auto words = split_words(rest.substr(0, end));
    if (words.size() > best.size() && std::ranges::all_of(words, is_architecture))
      best.assign(words.begin(), words.end());
  }
  return best;
}

std::optional<NamedVersion> of_dist_info(std::string_view folder_name) {
  constexpr std::string_view kWheel = ".dist-info";
  constexpr std::string_view kEgg = ".egg-info";
  const bool wheel = folder_name.ends_with(kWheel);
  if (!wheel && !folder_name.ends_with(kEgg)) return std::nullopt;
  folder_name.remove_suffix(wheel ? kWheel.size() : kEgg.size());
  const std::size_t dash = folder_name.find('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  std::string_view version = folder_name.substr(dash + 1);
  if (!wheel) version = version.substr(0, version.find("-py"));
  if (version.empty()) return std::nullopt;
  return NamedVersion{std::string(folder_name.substr(0, dash)), printable(version)};
}

std::optional<NamedVersion> of_conda_meta(std::string_view file_name) {
  if (!file_name.ends_with(".json")) return std::nullopt;
  const std::string_view stem = file_name.substr(0, file_name.size() - 5);
  const std::size_t build = stem.rfind('-');
  if (build == std::string_view::npos || build == 0) return std::nullopt;
  const std::size_t version = stem.rfind('-', build - 1);
  if (version == std::string_view::npos || version == 0 || version + 1 == build) return std::nullopt;
  return NamedVersion{std::string(stem.substr(0, version)), printable(stem.substr(version + 1, build - version - 1))};
}

std::optional<std::string> cuda_of_conda_build(std::string_view file_name) {
  const std::string_view build = file_name.substr(std::min(file_name.rfind('-'), file_name.size()));
  return facts::cuda_of_build(build);
}

std::vector<NamedVersion> packages_in_dpkg_status(std::string_view text) {
  std::vector<NamedVersion> packages;
  std::string_view name;
  bool installed = false;
  for (const auto line : split(text, '\n')) {
    if (line.starts_with("Package: ")) {
      name = trim(line.substr(9));
      installed = false;
    } else if (line.starts_with("Status: ")) {
      installed = line.ends_with(" installed");
    } else if (installed && !name.empty() && line.starts_with("Version: ")) {
      packages.push_back({printable(name), printable(trim(line.substr(9)))});
      installed = false;
    }
  }
  return packages;
}

}  // namespace gpuwarden::probe
