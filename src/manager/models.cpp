// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/gguf_file.hpp"
#include "manager/gguf_files.hpp"

namespace gpuwarden::manager {
namespace {

namespace fs = std::filesystem;
using planning::ModelShape;

Result<ModelShape> load_config(const fs::path& path, const std::string& family) {
  GPUWARDEN_TRY(const std::string text, read_file(path, planning::kLargestConfig));
  GPUWARDEN_TRY(ModelShape model, planning::read_config(text, printable(path.string()), family));
  std::error_code ignored;
  // A folder is named after its model; a file that is not called config.json, after itself.
  const fs::path whole = fs::absolute(path, ignored);
  const fs::path named = whole.filename() == "config.json" ? whole.parent_path().filename() : whole.stem();
  if (model.name.empty()) model.name = printable(named.string());
  return model;
}

Result<planning::GgufHeader> read_head(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  std::ifstream stream(path, std::ios::binary);
  if (failed || !stream)
    return fail(ErrorCode::failed, fmt::format("{}: cannot be read", printable(path.string())),
                "check the permissions");
  return planning::read_gguf(stream, bytes, printable(path.filename().string()));
}

/// A file of llama.cpp's, with its further parts.
Result<ModelShape> open_gguf(const fs::path& path) {
  const auto missing = [](const fs::path& part, std::uint32_t number) {
    return fail(ErrorCode::not_found, fmt::format("{}: part {} is not there", printable(part.string()), number),
                "download all parts into one folder");
  };
  std::error_code ignored;
  const fs::path first = part_beside(path, 1).value_or(path);
  if (!fs::exists(first, ignored)) return missing(first, 1);
  GPUWARDEN_TRY(auto header, read_head(first));
  for (std::uint32_t part = 2; part <= header.parts(); ++part) {
    const auto next = part_beside(path, part);
    if (!next)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: is one of {} parts", printable(path.string()), header.parts()),
                  "name it as it was published: ...-00001-of-0000N.gguf, with the others beside it");
    if (!fs::exists(*next, ignored)) return missing(*next, part);
    GPUWARDEN_TRY(auto more, read_head(*next));
    planning::add_part(header, std::move(more));
  }
  GPUWARDEN_TRY(ModelShape model, planning::model_of(header, printable(path.string())));
  model.name = printable(path.stem().string());
  return model;
}

bool is_gguf(const fs::path& path) {
  std::string magic(planning::kGgufMagic.size(), '\0');
  std::ifstream stream(path, std::ios::binary);
  return stream.read(magic.data(), static_cast<std::streamsize>(magic.size())) && magic == planning::kGgufMagic;
}

/// What a model's folder holds.
Result<ModelShape> load_folder(const fs::path& folder, const std::string& family) {
  std::error_code ignored;
  if (fs::is_regular_file(folder / "config.json", ignored)) return load_config(folder / "config.json", family);
  if (fs::is_regular_file(folder / "model_index.json", ignored))
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: holds a diffusion pipeline; only transformers are planned", printable(folder.string())),
        "give the folder of a language model, a BERT, a T5 or a ViT");
  if (fs::is_regular_file(folder / "adapter_config.json", ignored))
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: holds adapters alone, without the model beside which they stand", printable(folder.string())),
        "plan that model: adapter_config.json names it (base_model_name_or_path); --task lora --lora-rank N");
  const std::vector<fs::path> files = gguf_models_in(folder, false);
  if (files.size() == 1) return open_gguf(files.front());
  if (files.size() > 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: holds {} models' files", printable(folder.string()), files.size()),
                fmt::format("name one of them: {}", printable(files.front().string())));
  return fail(ErrorCode::not_found, fmt::format("{}: holds no config.json", printable(folder.string())),
              "give the folder into which the model was downloaded, or its config.json");
}

}  // namespace

namespace {

/// The file or folder that is meant by a path, if one is.
std::optional<Result<ModelShape>> load_path(const fs::path& path, const std::string& family) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return load_folder(path, family);
  // ollama keeps its files without an ending.
  if (fs::is_regular_file(path, ignored) && (path.extension() == ".gguf" || is_gguf(path))) return open_gguf(path);
  // Of llama.cpp's files one that is not here is planned by its name.
  if (path.extension() == ".gguf") return planning::find_model(path.filename().string());
  // Names have a publisher and a slash, but do not begin with one.
  const std::string text = path.string();
  const bool meant_as_path = path.extension() == ".json" || text.starts_with('/') || text.starts_with('.');
  if (fs::exists(path, ignored) || meant_as_path) return load_config(path, family);
  return std::nullopt;
}

/// What a program downloaded under this name.
Result<ModelShape> load_download(const fs::path& path, const std::string& name, const std::string& family) {
  GPUWARDEN_TRY(ModelShape model, *load_path(path, family));
  model.name = printable(name);
  model.notes.push_back(fmt::format("read from {}", printable(path.string())));
  return model;
}

}  // namespace

Result<ModelShape> load_model(const std::string& what, const std::string& family, const ModelDownloads& downloads) {
  if (what.empty())
    return fail(ErrorCode::invalid_argument, "no model is given", "give a name, a config.json or its folder");
  if (auto model = load_path(what, family)) return *std::move(model);
  // What a tag or a GGUF repository names is a file; a catalogue's row knows more than a config.json says.
  if (const auto stored = find_in_store(downloads, what)) {
    GPUWARDEN_TRY(ModelShape model, load_download(stored->file, what, family));
    model.tag = true;
    model.num_ctx = stored->num_ctx;
    return model;
  }
  const auto downloaded = find_in_hub(downloads, what);
  if (downloaded && (to_lower(what).contains("gguf") || !family.empty()))
    return load_download(*downloaded, what, family);
  if (!family.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is not a file, and a model of the catalogue has its own family", printable(what)),
                "a family is for reading a config.json");
  const auto model = planning::find_model(what);
  return !model && downloaded ? load_download(*downloaded, what, family) : model;
}

}  // namespace gpuwarden::manager
