// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/downloads.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "manager/gguf_files.hpp"

namespace gpuwarden::manager {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 300;

/// "owner/name:Q4_K_M", taken apart.
struct Reference {
  std::vector<std::string> folders;  ///< what slashes part
  std::string tag;                   ///< behind the colon; may be empty
};

/// Null for what is no plain name: no folder is to be left by it.
std::optional<Reference> reference_of(std::string_view name) {
  if (name.size() > kLongestName) return std::nullopt;
  Reference reference;
  std::string_view rest = name;
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos && !name.substr(colon).contains('/')) {
    reference.tag = name.substr(colon + 1);
    rest = name.substr(0, colon);
  }
  for (const std::string_view part : split(rest, '/')) reference.folders.emplace_back(part);
  const auto is_plain = [](const std::string& part) {
    return !part.empty() && part.front() != '.' && std::ranges::all_of(part, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    });
  };
  const bool plain = std::ranges::all_of(reference.folders, is_plain) &&
                     (reference.tag.empty() ? !name.ends_with(':') : is_plain(reference.tag));
  return plain ? std::optional(std::move(reference)) : std::nullopt;
}

/// The revision that "main" is, else one that is there.
std::vector<fs::path> snapshots_of(const fs::path& repository) {
  std::vector<fs::path> folders;
  if (const auto main = read_file(repository / "refs/main", 200))
    folders.push_back(repository / "snapshots" / trim(*main));
  std::ranges::move(files_in(repository / "snapshots", false), std::back_inserter(folders));
  return folders;
}

/// Whether a file's name has the mix as a word of its own: "Q4_K_M" is none of "Q4_K", "BF16" none of "F16".
bool names_mix(std::string_view name, std::string_view mix) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = name.find(mix); at != std::string_view::npos; at = name.find(mix, at + 1)) {
    const std::size_t end = at + mix.size();
    if ((at == 0 || !is_letter(name[at - 1])) && (end == name.size() || !is_letter(name[end]))) return true;
  }
  return false;
}

/// A model's file of a mix, of several parts the first.
std::optional<fs::path> file_of_mix(const fs::path& snapshot, const std::string& mix) {
  for (const fs::path& path : gguf_models_in(snapshot, true)) {
    if (names_mix(to_lower(path.filename().string()), to_lower(mix))) return path;
  }
  return std::nullopt;
}

/// What of a repository is the model: its config.json's folder, its only GGUF file, or that of the mix that llama.cpp
/// takes where none is named.
std::optional<fs::path> model_in(const fs::path& snapshot) {
  std::error_code ignored;
  if (fs::exists(snapshot / "config.json", ignored)) return snapshot;
  const std::vector<fs::path> models = gguf_models_in(snapshot, true);
  return models.size() == 1 ? std::optional(models.front()) : file_of_mix(snapshot, "Q4_K_M");
}

constexpr std::size_t kLargestManifest = std::size_t{1} << 20U;

/// JSON of a small file; discarded where it is none.
nlohmann::json json_of(const fs::path& path) {
  const auto text = read_file(path, kLargestManifest);
  return text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json(nlohmann::json::value_t::discarded);
}

/// The blob of a layer that a manifest of ollama's names, by the end of its media type.
std::optional<fs::path> blob_of(const fs::path& store, const nlohmann::json& manifest, std::string_view kind) {
  for (const auto& layer : manifest["layers"]) {
    if (!layer.is_object() ||
        layer.value("mediaType", nlohmann::json()) != "application/vnd.ollama.image." + std::string(kind))
      continue;
    const auto digest = layer.value("digest", nlohmann::json());
    if (!digest.is_string()) return std::nullopt;
    std::string name = digest.get<std::string>();
    std::ranges::replace(name, ':', '-');
    std::error_code ignored;
    fs::path blob = store / "blobs" / fs::path(name).filename();
    if (fs::is_regular_file(blob, ignored)) return blob;
  }
  return std::nullopt;
}

/// Source: ollama server/images.go (GetModel: the layer image.params is a JSON object of options).
std::uint32_t context_of(const fs::path& parameters) {
  constexpr std::int64_t kMost = 1U << 27U;
  const auto json = json_of(parameters);
  if (!json.is_object() || !json.contains("num_ctx") || !json["num_ctx"].is_number_integer()) return 0;
  const auto tokens = json["num_ctx"].get<std::int64_t>();
  return tokens > 0 && tokens <= kMost ? static_cast<std::uint32_t>(tokens) : 0;
}

std::optional<StoredModel> stored_model(const fs::path& store, const fs::path& manifest) {
  const auto json = json_of(manifest);
  if (!json.is_object() || !json.contains("layers") || !json["layers"].is_array()) return std::nullopt;
  auto file = blob_of(store, json, "model");
  if (!file) return std::nullopt;
  const auto parameters = blob_of(store, json, "params");
  return StoredModel{*std::move(file), parameters ? context_of(*parameters) : 0};
}

}  // namespace

ModelDownloads model_downloads(const Environment& environment) {
  ModelDownloads downloads;
  const auto add = [&](std::vector<fs::path>& to, const char* variable, const char* below) {
    const auto found = environment.find(variable);
    if (found != environment.end() && !found->second.empty()) to.push_back(fs::path(found->second) / below);
  };
  add(downloads.hubs, "HF_HUB_CACHE", "");
  add(downloads.hubs, "HUGGINGFACE_HUB_CACHE", "");
  add(downloads.hubs, "HF_HOME", "hub");
  add(downloads.hubs, "XDG_CACHE_HOME", "huggingface/hub");
  add(downloads.hubs, "HOME", ".cache/huggingface/hub");
  add(downloads.stores, "OLLAMA_MODELS", "");
  add(downloads.stores, "HOME", ".ollama/models");
  downloads.stores.emplace_back("/usr/share/ollama/.ollama/models");
  return downloads;
}

std::optional<fs::path> find_in_hub(const ModelDownloads& downloads, std::string_view name) {
  const auto reference = reference_of(name);
  if (!reference || reference->folders.size() != 2) return std::nullopt;
  const std::string repository = "models--" + reference->folders[0] + "--" + reference->folders[1];
  for (const fs::path& hub : downloads.hubs) {
    for (const fs::path& snapshot : snapshots_of(hub / repository)) {
      auto found = reference->tag.empty() ? model_in(snapshot) : file_of_mix(snapshot, reference->tag);
      if (found) return found;
    }
  }
  return std::nullopt;
}

std::optional<StoredModel> find_in_store(const ModelDownloads& downloads, std::string_view tag) {
  const auto reference = reference_of(tag);
  if (!reference || reference->tag.empty() || reference->folders.size() > 3) return std::nullopt;
  // ollama's registry and its library are what a short name leaves out.
  fs::path below;
  if (reference->folders.size() < 3) below /= "registry.ollama.ai";
  if (reference->folders.size() < 2) below /= "library";
  for (const std::string& folder : reference->folders) below /= folder;
  below /= reference->tag;
  for (const fs::path& store : downloads.stores) {
    if (auto stored = stored_model(store, store / "manifests" / below)) return stored;
  }
  return std::nullopt;
}

}  // namespace gpuwarden::manager
