// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/models.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/config.hpp"

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
  return fail(ErrorCode::not_found, fmt::format("{}: holds no config.json", printable(folder.string())),
              "give the folder into which the model was downloaded, or its config.json");
}

}  // namespace

Result<ModelShape> load_model(const std::string& what, const std::string& family) {
  if (what.empty())
    return fail(ErrorCode::invalid_argument, "no model is given", "give a name, a config.json or its folder");
  const fs::path path(what);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return load_folder(path, family);
  // The catalogue says of llama.cpp's files what to name instead.
  if (path.extension() == ".gguf") return planning::find_model(path.filename().string());
  // Names have a publisher and a slash, but do not begin with one.
  const bool meant_as_path = path.extension() == ".json" || what.starts_with('/') || what.starts_with('.');
  if (fs::exists(path, ignored) || meant_as_path) return load_config(path, family);
  if (!family.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is not a file, and a model of the catalogue has its own family", printable(what)),
                "a family is for reading a config.json");
  return planning::find_model(what);
}

}  // namespace gpuwarden::manager
