// SPDX-License-Identifier: Apache-2.0
#include "render/bundle_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

/// "2 access token, 1 PEM block"
std::string counts(const std::map<std::string, std::size_t>& removed) {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : removed) parts.push_back(fmt::format("{} x{}", kind, count));
  return join(parts, ", ");
}

}  // namespace

std::string bundle_text(const bundle::Manifest& manifest, const std::string& file) {
  std::string text =
      fmt::format("{}\n{}made by gpuwarden {} on {}{}\n\n", printable(file), manifest.simulated ? "SIMULATED, " : "",
                  manifest.program_version, manifest.created, manifest.anonymized ? ", names replaced" : "");
  std::size_t width = 0;
  for (const bundle::ManifestFile& entry : manifest.files) width = std::max(width, entry.name.size());
  for (const bundle::ManifestFile& entry : manifest.files) {
    text += fmt::format("  {:<{}} {:>9}  {}\n", entry.name, width, format_size(Bytes(entry.size)), entry.about);
    if (!entry.removed.empty())
      text += fmt::format("  {:<{}} {:>9}  removed: {}\n", "", width, "", counts(entry.removed));
  }
  if (!manifest.omitted.empty()) text += "\nnot inside:\n";
  for (const bundle::Omission& omission : manifest.omitted)
    text += fmt::format("  {}: {}\n", omission.what, omission.why);
  const auto removed = manifest.removed();
  text += fmt::format("\nremoved in all: {}\n", removed.empty() ? "nothing" : counts(removed));
  return text;
}

}  // namespace gpuwarden::cli
