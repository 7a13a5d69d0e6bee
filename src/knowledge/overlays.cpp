// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/overlays.hpp"

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

namespace fs = std::filesystem;

/// One MiB more than an overlay may have, so that the reader of YAML says what is wrong.
constexpr std::size_t kLargestFile = std::size_t{2} << 20U;

std::vector<fs::path> folders(const Environment& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  std::vector<fs::path> result;
  if (const std::string own = value("GPUWARDEN_KNOWLEDGE_PATH"); !own.empty()) {
    for (const auto folder : split(own, ':')) result.emplace_back(folder);
    return result;
  }
  result.emplace_back("/etc/gpuwarden/knowledge");
  const std::string configuration = value("XDG_CONFIG_HOME");
  const std::string home = value("HOME");
  if (!configuration.empty())
    result.push_back(fs::path(configuration) / "gpuwarden/knowledge");
  else if (!home.empty())
    result.push_back(fs::path(home) / ".config/gpuwarden/knowledge");
  return result;
}

}  // namespace

std::vector<fs::path> overlay_files(const Environment& environment) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folders(environment)) {
    for (const fs::path& file : list_directory(folder)) {
      if (file.extension() == ".yaml" || file.extension() == ".yml") files.push_back(file);
    }
  }
  return files;
}

Result<Knowledge> read_knowledge(const std::vector<fs::path>& overlays) {
  Knowledge knowledge = Knowledge::built_in();
  for (const fs::path& file : overlays) {
    GPUWARDEN_TRY(const std::string text, read_file(file, kLargestFile));
    GPUWARDEN_TRY(knowledge, knowledge.with_overlay(text, file.string()));
  }
  return knowledge;
}

}  // namespace gpuwarden::knowledge
