// SPDX-License-Identifier: Apache-2.0
#include "support/selection.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/manager/plan_question.hpp"
#include "gpuwarden/placement/names.hpp"
#include "support/support.hpp"

namespace gpuwarden::python {
namespace {

using nlohmann::json;
using placement::Request;

std::unexpected<Error> wrong(const std::string& key, const std::string& what, const std::string& hint = "") {
  return fail(ErrorCode::invalid_argument, key + ": " + what, hint);
}

Result<void> read_count(const std::string& key, const json& value, std::optional<std::uint32_t>& into) {
  constexpr std::int64_t kMost = 4096;
  if (!is_a<std::uint32_t>(value) || value.get<std::int64_t>() > kMost)
    return wrong(key, "'" + value.dump() + "' is not a whole number from 0 to 4096");
  into = static_cast<std::uint32_t>(value.get<std::int64_t>());
  return {};
}

/// A number is bytes, a text has its unit.
Result<void> read_size(const std::string& key, const json& value, std::optional<Bytes>& into) {
  if (value.is_number_unsigned()) {
    into = Bytes{value.get<std::uint64_t>()};
    return {};
  }
  if (!value.is_string())
    return wrong(key, "'" + value.dump() + "' is not a size", "bytes, or a text such as \"40GiB\"");
  const auto size = parse_size(value.get<std::string>());
  if (!size) return wrong(key, size.error().message, size.error().hint);
  into = *size;
  return {};
}

Result<void> read_names(const std::string& key, const json& value, std::vector<placement::GpuName>& into) {
  const auto words = words_of(value);
  if (words.empty() || std::ranges::any_of(words, &std::string::empty)) return wrong(key, "no GPU is given");
  into = placement::expand_ranges(words);
  return {};
}

Result<void> read_capability(const std::string& key, const json& value, Request& request) {
  const auto words = words_of(value);
  const std::string text = words.empty() ? "" : words[0];
  request.min_compute_capability = facts::compute_capability_from(text.contains('.') ? text : text + ".0");
  if (!request.min_compute_capability)
    return wrong(key, "'" + printable(text) + "' is not a compute capability", "for example \"8.0\"");
  return {};
}

Result<void> read_percent(const std::string& key, const json& value, Request& request) {
  if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > 100)
    return wrong(key, "'" + value.dump() + "' is not a percentage from 0 to 100");
  request.max_utilization = Percent(static_cast<std::uint32_t>(value.get<double>()));
  return {};
}

Result<void> read_flag(const std::string& key, const json& value, bool& into) {
  if (!value.is_boolean()) return wrong(key, "'" + value.dump() + "' is neither True nor False");
  into = value.get<bool>();
  return {};
}

/// A row for each key that is not about a model.
struct Key {
  const char* name;
  Result<void> (*read)(const std::string& key, const json& value, Request& request);
};
constexpr auto kKeys = std::to_array<Key>({
    {"gpu_ids", [](const std::string& k, const json& v, Request& r) { return read_names(k, v, r.gpu_ids); }},
    {"count", [](const std::string& k, const json& v, Request& r) { return read_count(k, v, r.count); }},
    {"all", [](const std::string& k, const json& v, Request& r) { return read_flag(k, v, r.all); }},
    {"min_memory", [](const std::string& k, const json& v, Request& r) { return read_size(k, v, r.min_memory); }},
    {"min_free_memory",
     [](const std::string& k, const json& v, Request& r) { return read_size(k, v, r.min_free_memory); }},
    {"max_utilization_percent", read_percent},
    {"min_compute_capability", read_capability},
    {"name",
     [](const std::string& k, const json& v, Request& r) -> Result<void> {
       if (!v.is_string()) return wrong(k, "'" + v.dump() + "' is not a text");
       r.name_contains = v.get<std::string>();
       return {};
     }},
    {"mig", [](const std::string& k, const json& v, Request& r) { return read_flag(k, v, r.mig); }},
    {"mig_profile",
     [](const std::string& k, const json& v, Request& r) -> Result<void> {
       if (!v.is_string()) return wrong(k, "'" + v.dump() + "' is not a text");
       r.mig_profile = v.get<std::string>();
       return {};
     }},
    {"prefer", [](const std::string& k, const json& v, Request& r) { return read_names(k, v, r.prefer); }},
    {"exclude", [](const std::string& k, const json& v, Request& r) { return read_names(k, v, r.exclude); }},
    {"share", [](const std::string& k, const json& v, Request& r) { return read_flag(k, v, r.shared); }},
    {"allow_busy", [](const std::string& k, const json& v, Request& r) { return read_flag(k, v, r.allow_busy); }},
    {"cpu", [](const std::string& k, const json& v, Request& r) { return read_flag(k, v, r.force_cpu); }},
});

Result<void> read_model(const json& options, Request& request) {
  const planning::Words words = workload_words(options, {});
  const auto names = words.names();
  const auto known = planning::workload_names();
  const bool about_model = words.has("model") || words.has("model-size");
  if (!about_model && !names.empty() && std::ranges::find(known, names.front()) == known.end())
    return wrong(names.front(), "there is no such argument");
  if (options.contains("model")) option<std::string>(options, "model");
  GPUWARDEN_TRY(request.work, manager::read_work(words, manager::model_downloads(current_environment())));
  return {};
}

}  // namespace

std::vector<std::string> words_of(const json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) return {value.dump()};
  std::vector<std::string> words;
  for (const json& one : value) words.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  return words;
}

planning::Words workload_words(const json& options, const std::vector<std::string>& besides) {
  planning::Words words;
  for (const auto& [key, value] : options.items()) {
    if (value.is_null() || (value.is_boolean() && !value.get<bool>())) continue;
    if (std::ranges::find(kKeys, key, &Key::name) != kKeys.end()) continue;
    if (std::ranges::find(besides, key) == besides.end()) words.set(key, words_of(value));
  }
  return words;
}

Result<Request> selection_from(const json& options) {
  Request request;
  for (const Key& key : kKeys) {
    const auto found = options.find(key.name);
    if (found != options.end() && !found->is_null()) GPUWARDEN_CHECK(key.read(key.name, *found, request));
  }
  if (request.all && request.count) return wrong("all", "all and count cannot be given together");
  GPUWARDEN_CHECK(read_model(options, request));
  return request;
}

}  // namespace gpuwarden::python
