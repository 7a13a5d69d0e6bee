// SPDX-License-Identifier: Apache-2.0
// A folder of real captures, where there is one.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "support/source_folder.hpp"

namespace gpuwarden::testing {

/// $GPUWARDEN_CORPUS, else shared/corpus beside the checkout; nothing where neither exists.
inline std::optional<std::filesystem::path> corpus() {
  const char* given = std::getenv("GPUWARDEN_CORPUS");
  const std::filesystem::path folder = given != nullptr ? given : source_folder().parent_path() / "shared/corpus";
  std::error_code ignored;
  return std::filesystem::is_directory(folder, ignored) ? std::optional(folder) : std::nullopt;
}

}  // namespace gpuwarden::testing
