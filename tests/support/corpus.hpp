// SPDX-License-Identifier: Apache-2.0
// Real captures, published measurements and recorded allocations.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "support/source_folder.hpp"

namespace gpuwarden::testing {

/// $GPUWARDEN_CORPUS, else shared/corpus beside the checkout, else the reduced corpus of the checkout itself.
inline std::filesystem::path corpus() {
  const char* given = std::getenv("GPUWARDEN_CORPUS");
  const std::filesystem::path folder = given != nullptr ? given : source_folder().parent_path() / "shared/corpus";
  std::error_code ignored;
  return std::filesystem::is_directory(folder, ignored) ? folder : source_folder() / "tests/corpus";
}

/// Whether corpus() holds every kind of material, not only what is small enough to be kept with the tests.
inline bool corpus_is_whole() { return corpus() != source_folder() / "tests/corpus"; }

/// A file of the corpus; nothing where the reduced one lacks it.
inline std::optional<std::filesystem::path> corpus_file(const std::filesystem::path& name) {
  const std::filesystem::path file = corpus() / name;
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) ? std::optional(file) : std::nullopt;
}

}  // namespace gpuwarden::testing
