// SPDX-License-Identifier: Apache-2.0
#include "manager/gguf_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gguf_file.hpp"

namespace gpuwarden::manager {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder, bool deep) {
  std::vector<fs::path> paths;
  std::error_code failed;
  for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, failed);
       !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    if (!deep) entry.disable_recursion_pending();
    paths.push_back(entry->path());
  }
  std::ranges::sort(paths);
  return paths;
}

std::optional<fs::path> part_beside(const fs::path& path, std::uint32_t part) {
  std::string stem = path.stem().string();
  if (!planning::is_part_of_file(stem)) return std::nullopt;
  stem.resize(stem.size() - std::string_view("00001-of-00003").size());
  const std::string all = path.stem().string().substr(stem.size() + std::string_view("00001").size());
  return path.parent_path() / fmt::format("{}{:05}{}{}", stem, part, all, path.extension().string());
}

std::vector<fs::path> gguf_models_in(const fs::path& folder, bool deep) {
  std::vector<fs::path> models = files_in(folder, deep);
  std::erase_if(models, [](const fs::path& path) {
    const std::string name = to_lower(path.filename().string());
    return !name.ends_with(".gguf") || name.contains("mmproj") || part_beside(path, 1).value_or(path) != path;
  });
  return models;
}

}  // namespace gpuwarden::manager
