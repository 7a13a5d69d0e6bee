// SPDX-License-Identifier: Apache-2.0
// The manifest of a bundle and its JSON (docs/json.md).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/bundle/bundle.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::bundle {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kKind = "gpuwarden bundle";

std::unexpected<Error> wrong(std::string_view key) {
  return fail(ErrorCode::corrupt, fmt::format("{}: '{}' is missing or has the wrong type", kManifestFile, key));
}

Result<std::string> text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return wrong(key);
  // What others wrote is shown on a terminal.
  return printable(found->get<std::string>());
}

Result<bool> flag_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_boolean()) return wrong(key);
  return found->get<bool>();
}

Result<const Json*> list_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return wrong(key);
  for (const Json& element : *found) {
    if (!element.is_object()) return wrong(key);
  }
  return &*found;
}

Result<ManifestFile> file_from(const Json& json) {
  ManifestFile file;
  GPUWARDEN_TRY(file.name, text_of(json, "name"));
  GPUWARDEN_TRY(file.about, text_of(json, "about"));
  GPUWARDEN_TRY(file.sha256, text_of(json, "sha256"));
  const auto size = json.find("size_bytes");
  if (size == json.end() || !size->is_number_unsigned()) return wrong("size_bytes");
  file.size = size->get<std::uint64_t>();
  const auto removed = json.find("removed");
  if (removed == json.end() || !removed->is_object()) return wrong("removed");
  for (const auto& [kind, count] : removed->items()) {
    if (!count.is_number_unsigned()) return wrong("removed");
    file.removed[printable(kind)] = count.get<std::size_t>();
  }
  return file;
}

}  // namespace

std::map<std::string, std::size_t> Manifest::removed() const {
  std::map<std::string, std::size_t> all;
  for (const ManifestFile& file : files) {
    for (const auto& [kind, count] : file.removed) all[kind] += count;
  }
  return all;
}

Json to_json(const Manifest& manifest) {
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files)
    files.push_back({{"name", file.name},
                     {"about", file.about},
                     {"size_bytes", file.size},
                     {"sha256", file.sha256},
                     {"removed", Json(file.removed)}});
  Json omitted = Json::array();
  for (const Omission& omission : manifest.omitted) omitted.push_back({{"what", omission.what}, {"why", omission.why}});
  return facts::answer({{"kind", kKind},
                        {"program_version", manifest.program_version},
                        {"created", manifest.created},
                        {"anonymized", manifest.anonymized},
                        {"removed", Json(manifest.removed())},
                        {"files", std::move(files)},
                        {"omitted", std::move(omitted)}},
                       manifest.simulated);
}

Json to_json(const Manifest& manifest, const std::string& file) {
  Json json = to_json(manifest);
  json["file"] = file;
  return json;
}

Result<Manifest> manifest_from_json(const Json& json) {
  if (!json.is_object()) return wrong("kind");
  GPUWARDEN_TRY(const std::string kind, text_of(json, "kind"));
  if (kind != kKind) return fail(ErrorCode::corrupt, fmt::format("{}: this is not a {}", kManifestFile, kKind));
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_number_integer()) return wrong("schema");
  if (*schema != facts::kJsonSchema)
    return fail(ErrorCode::corrupt, fmt::format("{}: schema {} is not supported", kManifestFile, schema->dump()),
                "a newer gpuwarden made this bundle; read it with that one");
  Manifest manifest;
  GPUWARDEN_TRY(manifest.program_version, text_of(json, "program_version"));
  GPUWARDEN_TRY(manifest.created, text_of(json, "created"));
  GPUWARDEN_TRY(manifest.simulated, flag_of(json, "simulated"));
  GPUWARDEN_TRY(manifest.anonymized, flag_of(json, "anonymized"));
  GPUWARDEN_TRY(const Json* files, list_of(json, "files"));
  for (const Json& element : *files) {
    GPUWARDEN_TRY(ManifestFile file, file_from(element));
    manifest.files.push_back(std::move(file));
  }
  GPUWARDEN_TRY(const Json* omitted, list_of(json, "omitted"));
  for (const Json& element : *omitted) {
    Omission omission;
    GPUWARDEN_TRY(omission.what, text_of(element, "what"));
    GPUWARDEN_TRY(omission.why, text_of(element, "why"));
    manifest.omitted.push_back(std::move(omission));
  }
  return manifest;
}

}  // namespace gpuwarden::bundle
