// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::placement {
namespace {

/// How each shell sets a variable; the values hold nothing that it could misread.
struct ExportFormat {
  std::string_view shells;
  std::string_view before;
  std::string_view between;
  std::string_view after;
};
constexpr auto kExportFormats = std::to_array<ExportFormat>({{"sh bash zsh", "export ", "='", "'\n"},
                                                             {"fish", "set -gx ", " '", "'\n"},
                                                             {"powershell", "$env:", " = '", "'\n"},
                                                             {"csh tcsh", "setenv ", " '", "';\n"},
                                                             {"cmd", "set ", "=", "\n"}});

}  // namespace

std::string visible_indices(const Decision& decision) {
  std::vector<std::string> indices;
  for (const auto& device : decision.selected) indices.push_back(std::to_string(device.index.value));
  return join(indices, ",");
}

Result<std::string> export_commands(std::string_view shell, std::string_view value) {
  const auto* const found = std::ranges::find_if(kExportFormats, [&](const ExportFormat& format) {
    const auto shells = split_words(format.shells);
    return std::ranges::find(shells, shell) != shells.end();
  });
  if (found == kExportFormats.end())
    return fail(ErrorCode::invalid_argument, fmt::format("unknown shell '{}'", printable(shell)),
                "sh, csh, fish, powershell or cmd");
  const auto line = [&](std::string_view name, std::string_view of) {
    return fmt::format("{}{}{}{}{}", found->before, name, found->between, of, found->after);
  };
  return line("CUDA_DEVICE_ORDER", "PCI_BUS_ID") + line("CUDA_VISIBLE_DEVICES", value);
}

std::string in_words(const Decision& decision) {
  if (decision.cpu) return "the CPU";
  std::string text;
  const auto& all = decision.selected;
  for (auto device = all.begin(); device != all.end(); ++device) {
    const bool begins = device == all.begin() || std::prev(device)->name != device->name;
    const bool ends = std::next(device) == all.end() || std::next(device)->name != device->name;
    text += fmt::format("{}{}{}{}", device == all.begin() ? "" : ", ", begins ? "GPU " : "", device->index.value,
                        device->mig ? fmt::format(".{}", *device->mig) : "");
    if (ends) text += fmt::format(" ({})", device->name);
  }
  return text;
}

std::string models_in_words(const Decision& decision) {
  std::vector<std::string> models;
  for (const Device& device : decision.selected) {
    if (std::ranges::find(models, device.name) == models.end()) models.push_back(device.name);
  }
  return join(models, " and ");
}

}  // namespace gpuwarden::placement
