// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/overlays.hpp"

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/users.hpp"

namespace gpuwarden::knowledge {
namespace {

namespace fs = std::filesystem;

/// One MiB more than an overlay may have, so that the reader of YAML says what is wrong.
constexpr std::size_t kLargestFile = std::size_t{2} << 20U;

std::vector<fs::path> folders(const Environment& environment) {
  std::vector<fs::path> result;
  const auto named = environment.find("GPUWARDEN_KNOWLEDGE_PATH");
  if (named != environment.end() && !named->second.empty()) {
    for (const auto folder : split(named->second, ':')) result.emplace_back(folder);
    return result;
  }
  result.emplace_back("/etc/gpuwarden/knowledge");
  if (const fs::path own = settings_folder(environment); !own.empty()) result.push_back(own / "knowledge");
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
