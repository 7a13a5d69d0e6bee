// SPDX-License-Identifier: Apache-2.0
#include "capture/toolkit_output.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "capture/package_list.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

std::string number_at(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string_view number = text.substr(0, end);
  while (number.ends_with('.')) number.remove_suffix(1);
  return std::string(number);
}

std::string number_after(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  return at == std::string_view::npos ? "" : number_at(line.substr(at + label.size()));
}

/// "Cuda compilation tools, release 12.4, V12.4.131"; nvcc 4 and older have no V. With the line cut, its last number
/// is not to be trusted.
bool take_nvcc(const Line& line, ToolkitOutput& output) {
  if (!line.text.contains("Cuda compilation tools, release ")) return false;
  if (!output.nvcc_release.empty()) return true;
  const bool whole = line.ended || line.text.contains(", V");
  if (whole) output.nvcc_release = number_after(line.text, "release ");
  if (line.ended) output.nvcc_version = number_after(line.text, ", V");
  return true;
}

/// "compute_90", "sm_90a" alone on their lines.
bool take_architecture(const Line& line, ToolkitOutput& output) {
  const std::string_view text = trim(line.text);
  const std::size_t digits = text.starts_with("compute_") ? 8 : text.starts_with("sm_") ? 3 : 0;
  if (digits == 0 || text.size() < digits + 2 || text.size() > digits + 4) return false;
  const std::string_view number = text.substr(digits);
  if (number.substr(0, number.size() - 1).find_first_not_of("0123456789") != std::string_view::npos) return false;
  // The digits of a cut line may go on.
  if (line.ended && std::isalnum(static_cast<unsigned char>(text.back())) != 0) output.architectures.emplace_back(text);
  return true;
}

/// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build ...".
bool take_module(const Line& line, ToolkitOutput& output) {
  if (!line.text.contains("NVRM version:")) return false;
  for (const auto word : split_words(line.text)) {
    const bool number = number_at(word) == word && word.contains('.');
    const bool whole = line.ended || !line.text.ends_with(word);
    if (number && whole && output.driver.empty()) output.driver = word;
  }
  if (!output.driver.empty() && line.text.contains("Kernel Module")) {
    output.flavour =
        line.text.contains("Open Kernel Module") ? facts::ModuleFlavour::open : facts::ModuleFlavour::proprietary;
  }
  return true;
}

/// "	libcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1".
bool take_cached_library(const Line& line, ToolkitOutput& output) {
  const std::string_view text = trim(line.text);
  const std::size_t arrow = text.find(") => /");
  const std::size_t paren = text.find(" (");
  if (arrow == std::string_view::npos || paren == std::string_view::npos || !text.starts_with("lib")) return false;
  if (!text.substr(paren).starts_with(" (libc6")) return false;
  ++output.cached_libraries;
  if (!line.ended) return true;
  const std::string path = printable(text.substr(arrow + 5));
  facts::Library library{printable(text.substr(0, paren)), std::nullopt, path, "ldconfig"};
  if (path.contains("/compat/")) library.origin = "compat";
  if (path.contains("/stubs/")) library.origin = "stubs";
  if (path.contains("/wsl/")) library.origin = "wsl";
  const std::size_t so = path.rfind(".so.");
  if (so != std::string::npos && path.substr(so + 4).contains('.')) library.version = path.substr(so + 4);
  output.libraries.push_back(std::move(library));
  return true;
}

}  // namespace

std::optional<ToolkitOutput> read_toolkit_output(std::span<const Line> lines) {
  ToolkitOutput output;
  PackageList packages;
  for (const Line& line : lines) {
    const bool taken = take_nvcc(line, output) || take_module(line, output) || take_architecture(line, output) ||
                       take_cached_library(line, output) || packages.take(line);
    if (taken && output.line == 0) output.line = line.number;
  }
  if (packages.sure()) output.python = packages.python();
  const bool told = !output.nvcc_release.empty() || !output.driver.empty() || !output.architectures.empty() ||
                    output.cached_libraries > 0 || output.python;
  return told ? std::optional(std::move(output)) : std::nullopt;
}

facts::Snapshot snapshot_of_toolkit_output(const ToolkitOutput& output) {
  facts::Snapshot snapshot;
  snapshot.source = "report";
  facts::Environment& environment = snapshot.environment.emplace();
  if (!output.nvcc_release.empty() || !output.architectures.empty()) {
    facts::Toolkit& toolkit = environment.toolkits.emplace_back();
    toolkit.version = output.nvcc_version.empty() ? output.nvcc_release : output.nvcc_version;
    toolkit.origin = "reported";
    toolkit.active = true;
    toolkit.architectures = output.architectures;
    if (toolkit.version.empty()) environment.toolkits.pop_back();
  }
  if (!output.driver.empty()) {
    environment.driver.loaded_version = output.driver;
    environment.driver.flavour = output.flavour;
    snapshot.kernel_module_version = output.driver;
  }
  environment.libraries = output.libraries;
  if (output.python) environment.pythons.push_back(*output.python);
  return snapshot;
}

}  // namespace gpuwarden::capture
