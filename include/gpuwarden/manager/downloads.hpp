// SPDX-License-Identifier: Apache-2.0
// Models that other programs downloaded: Hugging Face's cache and ollama's store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::manager {

/// Folders, the first of a kind that has a model holds it; they need not exist.
struct ModelDownloads {
  std::vector<std::filesystem::path> hubs;    ///< with models--OWNER--NAME/snapshots
  std::vector<std::filesystem::path> stores;  ///< with manifests/ and blobs/
};

/// As the programs look for them: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME of Hugging
/// Face's (huggingface_hub's constants.py), OLLAMA_MODELS, HOME and the service's own folder of ollama's (its
/// docs/faq.md).
ModelDownloads model_downloads(const Environment& environment);

/// Of a repository ("owner/name") the folder with its config.json, its only GGUF file, or that in Q4_K_M, which
/// llama.cpp takes where none is named; of the revision that `main` is, else of any. "owner/name:Q8_0" is the file of
/// that mix. Null where there is none.
std::optional<std::filesystem::path> find_in_hub(const ModelDownloads& downloads, std::string_view name);
/// A model of ollama's store.
struct StoredModel {
  std::filesystem::path file;
  std::uint32_t num_ctx = 0;  ///< of the parameters that its manifest names; 0: not there
};
/// That of a tag ("qwen3:8b", "user/model:tag", "hf.co/owner/name:Q4_K_M").
std::optional<StoredModel> find_in_store(const ModelDownloads& downloads, std::string_view tag);

}  // namespace gpuwarden::manager
