// SPDX-License-Identifier: Apache-2.0
#include "support/diagnosis_cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {
namespace {

using nlohmann::json;

Result<std::string> text_at(const json& row, const char* key) {
  if (!row.contains(key)) return fail(ErrorCode::invalid_argument, fmt::format("the key '{}' is missing", key));
  if (!row[key].is_string()) return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no text", key));
  return row[key].get<std::string>();
}

Result<std::vector<std::string>> texts_at(const json& row, const char* key) {
  std::vector<std::string> texts;
  if (!row.contains(key) || row[key].is_null()) return texts;
  const bool is_list =
      row[key].is_array() && std::ranges::all_of(row[key], [](const json& e) { return e.is_string(); });
  if (!is_list) return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no list of texts", key));
  for (const json& entry : row[key]) texts.push_back(entry.get<std::string>());
  return texts;
}

/// Short cases say in an object why the first match misleads, long ones just that it does.
Result<bool> composite_of(const json& row) {
  const auto found = row.find("composite");
  if (found == row.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  if (found->is_object()) return true;
  return fail(ErrorCode::invalid_argument, "'composite' is neither an object nor true, false or null");
}

Result<bool> decidable_of(const json& row) {
  const auto found = row.find("decidable_from_text");
  if (found == row.end() || found->is_null()) return true;
  if (found->is_boolean()) return found->get<bool>();
  return fail(ErrorCode::invalid_argument, "'decidable_from_text' is neither true nor false");
}

/// "owner/repository#17" of a corpus' `source` or of a thread's URL; a case without a thread is its own source.
std::string source_of(const json& row, const std::string& id) {
  static constexpr std::string_view kSite = "https://github.com/";
  const std::string source = row.contains("source") && row["source"].is_string() ? row["source"] : json("");
  const std::string url = row.contains("url") && row["url"].is_string() ? row["url"] : json("");
  if (url.starts_with(kSite)) {
    const auto parts = split(std::string_view(url).substr(kSite.size()), '/');
    if (parts.size() >= 4) return fmt::format("{}/{}#{}", parts[0], parts[1], parts[3]);
  }
  return source.contains('#') ? source : id;
}

Result<json> facts_of(const json& row) {
  const auto found = row.find("facts");
  if (found == row.end() || found->is_null()) return json::object();
  if (found->is_object()) return *found;
  return fail(ErrorCode::invalid_argument, "'facts' is not an object");
}

Result<json> object_of(std::string_view line) {
  try {
    json row = json::parse(line);
    if (row.is_object()) return row;
    return fail(ErrorCode::invalid_argument, "no JSON object");
  } catch (const json::parse_error& error) {
    return fail(ErrorCode::invalid_argument, fmt::format("no JSON: {}", error.what()));
  }
}

Result<DiagnosisCase> case_of(std::string_view line) {
  GPUWARDEN_TRY(const json row, object_of(line));
  DiagnosisCase one;
  GPUWARDEN_TRY(one.id, text_at(row, "id"));
  GPUWARDEN_TRY(one.text, text_at(row, "text"));
  GPUWARDEN_TRY(one.label, text_at(row, "label"));
  GPUWARDEN_TRY(one.kind, text_at(row, "kind"));
  GPUWARDEN_TRY(one.also, texts_at(row, "also"));
  GPUWARDEN_TRY(one.composite, composite_of(row));
  GPUWARDEN_TRY(one.decidable, decidable_of(row));
  GPUWARDEN_TRY(one.facts, facts_of(row));
  one.source = source_of(row, one.id);
  return one;
}

}  // namespace

bool DiagnosisCase::is_acceptable(std::string_view answer) const {
  return is_right(answer) || std::ranges::find(also, answer) != also.end();
}

Result<std::vector<DiagnosisCase>> read_diagnosis_cases(const std::filesystem::path& file) {
  GPUWARDEN_TRY(const std::string text, read_file(file));
  const bool kept_back = file.stem().string().ends_with("kept_back");
  std::vector<DiagnosisCase> cases;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    auto one = case_of(line);
    if (!one) return fail(one.error().code, fmt::format("{}:{}: {}", file.string(), number, one.error().message));
    one->kept_back = kept_back;
    cases.push_back(*std::move(one));
  }
  if (cases.empty()) return fail(ErrorCode::invalid_argument, file.string() + ": there is no case in it");
  return cases;
}

}  // namespace gpuwarden::testing
