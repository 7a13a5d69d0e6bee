// SPDX-License-Identifier: Apache-2.0
#include "knowledge_base.hpp"

#include <algorithm>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
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

Result<knowledge::Knowledge> open_knowledge(const Context& context) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folders(context.environment)) {
    for (const fs::path& file : list_directory(folder)) {
      if (file.extension() == ".yaml" || file.extension() == ".yml") files.push_back(file);
    }
  }
  for (const std::string& file : context.args.all("knowledge")) files.emplace_back(file);
  knowledge::Knowledge knowledge = knowledge::Knowledge::built_in();
  for (const fs::path& file : files) {
    GPUWARDEN_TRY(const std::string text, read_file(file, kLargestFile));
    GPUWARDEN_TRY(knowledge, knowledge.with_overlay(text, file.string()));
  }
  return knowledge;
}

Result<doctor::Purpose> read_purpose(const std::string& text, const knowledge::Knowledge& knowledge) {
  auto purpose = doctor::parse_purpose(text);
  const bool is_the_sites = std::ranges::any_of(knowledge.rules(), [&](const knowledge::SiteRule& rule) {
    return !rule.workload.empty() && contains_ignoring_case(text, rule.workload);
  });
  if (!purpose && is_the_sites) return doctor::Purpose{.text = text};
  return purpose;
}

}  // namespace gpuwarden::cli
