// SPDX-License-Identifier: Apache-2.0
// GGUF files in folders: which of them are models, and which belong together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace gpuwarden::manager {

/// What is in a folder and, of `deep`, below it, in order; folders that may not be read are passed over.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, bool deep);
/// The path of a part, by that of another: "X-00002-of-00003.gguf"; null for a file that is whole.
std::optional<std::filesystem::path> part_beside(const std::filesystem::path& path, std::uint32_t part);
/// The models' files among those of files_in(): each once, by its first part, without towers (mmproj).
std::vector<std::filesystem::path> gguf_models_in(const std::filesystem::path& folder, bool deep);

}  // namespace gpuwarden::manager
