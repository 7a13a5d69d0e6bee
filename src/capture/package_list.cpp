// SPDX-License-Identifier: Apache-2.0
#include "capture/package_list.hpp"

#include <algorithm>
#include <cctype>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

bool is_version(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0 || !text.contains('.')) return false;
  return std::ranges::all_of(
      text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '+' || c == '!' || c == '-'; });
}

bool is_package_name(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
}

/// "2.1.0+cu121" of ".../torch-2.1.0%2Bcu121-cp310-cp310-linux_x86_64.whl".
std::string version_of_wheel(std::string_view url) {
  if (const std::size_t hash = url.find('#'); hash != std::string_view::npos) url = url.substr(0, hash);
  if (!url.ends_with(".whl")) return "";
  const auto parts = split(url.substr(url.rfind('/') + 1), '-');
  if (parts.size() < 5) return "";
  std::string version(parts[1]);
  if (const std::size_t plus = version.find("%2B"); plus != std::string::npos) version.replace(plus, 3, "+");
  return version;
}

/// conda's builds: "py310h5eee18b_0", "cuda126_py312h1234567_200", "0".
bool is_build(std::string_view text) {
  const std::size_t line = text.rfind('_');
  return line != std::string_view::npos && line + 1 < text.size() &&
         text.substr(line + 1).find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool PackageList::take(const Line& line) {
  const std::string_view text = trim(line.text);
  if (text.empty()) {
    table_ = Table::none;
    return false;
  }
  if (take_header(text) || take_shown(text, line.ended)) return true;
  // What was cut may go on.
  return line.ended && (take_frozen(text) || take_row(text));
}

bool PackageList::take_header(std::string_view text) {
  const auto words = split_words(text);
  const bool pip = words.size() >= 2 && words[0] == "Package" && words[1] == "Version";
  const bool conda = text.starts_with("# packages in environment at ") ||
                     (words.size() >= 4 && words[0] == "#" && words[1] == "Name" && words[2] == "Version");
  if (pip || conda) table_ = pip ? Table::pip : Table::conda;
  return pip || conda;
}

/// "Name: torch", then "Version: 2.5.1".
bool PackageList::take_shown(std::string_view text, bool ended) {
  constexpr std::string_view kName = "Name: ";
  constexpr std::string_view kVersion = "Version: ";
  if (text.starts_with(kName)) {
    shown_ = ended ? facts::normalised_package(text.substr(kName.size())) : "";
    return false;
  }
  const std::string name = std::exchange(shown_, "");
  if (name.empty() || !text.starts_with(kVersion) || !ended) return false;
  const bool kept = keep(name, text.substr(kVersion.size()), "pip");
  sure_ = sure_ || kept;
  return kept;
}

/// "torch==2.5.1+cu124", "torch @ file:///wheels/torch-2.5.1-cp311-cp311-linux_x86_64.whl#sha256=...".
bool PackageList::take_frozen(std::string_view text) {
  const auto words = split_words(text);
  if (words.size() == 3 && words[1] == "@") return keep(words[0], version_of_wheel(words[2]), "pip");
  const std::size_t equals = text.find("==");
  if (words.size() != 1 || equals == std::string_view::npos) return false;
  const bool kept = keep(text.substr(0, equals), text.substr(equals + 2), "pip");
  sure_ = sure_ || kept;
  return kept;
}

/// "torch    2.5.1+cu124" with a place or conda's build and channel behind it.
bool PackageList::take_row(std::string_view text) {
  const auto words = split_words(text);
  if (words.size() < 2 || words.size() > 4 || !is_version(words[1])) return false;
  const bool built = words.size() >= 3 && is_build(words[2]);
  const bool placed = words.size() == 3 && (words[2].starts_with('/') || words[2].contains("://"));
  const bool fits = words.size() == 2 || built || placed || table_ != Table::none;
  const bool conda = built || table_ == Table::conda;
  const bool torch = conda && words[0] == "pytorch";
  if (!fits || !keep(torch ? "torch" : words[0], words[1], conda ? "conda" : "pip")) return false;
  if (torch && built && !torch_cuda_) torch_cuda_ = facts::cuda_of_build(words[2]);
  // Prose has no gaps.
  sure_ = sure_ || table_ != Table::none || text.contains("  ");
  return true;
}

bool PackageList::keep(std::string_view name, std::string_view version, std::string_view manager) {
  const std::string normal = facts::normalised_package(name);
  if (!is_version(version) || !is_package_name(normal) || !facts::is_gathered_package(normal)) return false;
  const bool known = std::ranges::find(packages_, normal, &facts::PythonPackage::name) != packages_.end();
  constexpr std::size_t kMost = 2000;  // more are a hostile file's
  if (!known && packages_.size() < kMost) packages_.push_back({normal, std::string(version), std::string(manager)});
  return true;
}

std::optional<facts::PythonEnvironment> PackageList::python() const {
  if (packages_.empty()) return std::nullopt;
  facts::PythonEnvironment python;
  python.kind = "reported";
  python.active = true;
  python.packages = packages_;
  python.torch_cuda = torch_cuda_;
  return python;
}

}  // namespace gpuwarden::capture
