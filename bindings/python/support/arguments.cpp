// SPDX-License-Identifier: Apache-2.0
#include "support/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/jobs/gpus_from.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/manager/plan_question.hpp"
#include "gpuwarden/placement/selection.hpp"
#include "support/support.hpp"

namespace gpuwarden::python {
namespace {

using nlohmann::json;
using Names = std::vector<std::span<const ValueName>>;
using Values = std::vector<std::string>;

std::string with(std::string text, char one, char other) {
  std::ranges::replace(text, one, other);
  return text;
}

std::unexpected<Error> wrong(const std::string& key, const json& value, const char* what, const char* hint = "") {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: '{}' is not {}", key, json_text(value), what), hint);
}

/// Arguments that have another name than the option.
struct Alias {
  const char* key;
  const char* name;
  bool seconds = false;  ///< a number of seconds, never a text
};
constexpr auto kAliases = std::to_array<Alias>({
    {"count", "num-gpus"},
    {"max_utilization_percent", "max-utilization"},
    {"wait_s", "wait", true},
    {"ranks", "nproc-per-node"},
    {"nodes", "nnodes"},
    {"master_address", "master-addr"},
    {"log_directory", "log-dir"},
    {"grace_s", "grace", true},
    {"sample_period_s", "sample-period", true},
    {"simulated_load", "sim-load"},
});

const Alias* alias_of(const std::string& key) {
  const auto* const found = std::ranges::find(kAliases, key, &Alias::key);
  return found == kAliases.end() ? nullptr : found;
}

std::optional<ValueKind> kind_of(const std::string& name, const Names& names) {
  for (const auto& some : names) {
    const auto found = std::ranges::find(some, name, &ValueName::name);
    if (found != some.end()) return found->kind;
  }
  return std::nullopt;
}

bool is_about_model(const std::string& name) {
  const auto is_in = [&](std::span<const std::string_view> some) {
    return std::ranges::find(some, name) != some.end();
  };
  return name == "model" || name == "model-size" || name == "family" || is_in(planning::workload_names()) ||
         is_in(planning::size_names());
}

bool is_whole(const json& value) { return value.is_number_integer() && !value.is_boolean(); }

/// Without end where it is infinite (-1 from Python) or longer than a duration can be.
Result<Values> seconds_in(const std::string& key, const json& value) {
  constexpr double kLongest = 3650 * 86400.0;
  if (!value.is_number()) return wrong(key, value, "a number");
  const double seconds = value.get<double>();
  if (key == "wait_s" && (seconds < 0 || seconds > kLongest)) return Values{};
  return Values{fmt::format("{}s", std::min(seconds, kLongest))};
}

Result<Values> list_in(const std::string& key, const json& value) {
  const bool one = value.is_string() || is_whole(value);
  const auto is_word = [](const json& word) { return word.is_string() || is_whole(word); };
  if (!one && !(value.is_array() && std::ranges::all_of(value, is_word))) return wrong(key, value, "a list of words");
  return words_of(value);
}

/// The value as on a command line; nothing where a flag is not set.
Result<std::optional<Values>> values_in(const std::string& key, const json& value, ValueKind kind) {
  switch (kind) {
    case ValueKind::flag:
      if (!value.is_boolean()) return wrong(key, value, "True or False");
      return value.get<bool>() ? std::optional(Values{}) : std::nullopt;
    case ValueKind::list:
      // Nothing left out, no one preferred; to choose among no GPUs is an error.
      if (value.is_array() && value.empty() && key != "gpu_ids") return std::nullopt;
      return list_in(key, value);
    case ValueKind::count:
      if (!value.is_string() && !value.is_number()) return wrong(key, value, "a whole number");
      return words_of(value);
    case ValueKind::size: {
      GPUWARDEN_TRY(const Bytes size, size_argument(key, value));
      return Values{fmt::format("{}B", size.value)};
    }
    case ValueKind::duration:
      if (!value.is_string()) return seconds_in(key, value);
      return words_of(value);
    case ValueKind::text:
      break;
  }
  if (!value.is_string()) return wrong(key, value, "a text");
  return words_of(value);
}

std::vector<std::string> known_keys(const Names& names) {
  std::vector<std::string> keys{"model", "model_size", "family", "cpu"};
  for (const auto& some : names)
    for (const ValueName& one : some) keys.push_back(with(std::string(one.name), '-', '_'));
  for (const Alias& one : kAliases) {
    if (kind_of(one.name, names)) keys.emplace_back(one.key);
  }
  for (const auto& some : {planning::workload_names(), planning::size_names()})
    for (const std::string_view one : some) keys.push_back(with(std::string(one), '-', '_'));
  return keys;
}

bool is_an_argument(const std::string& name) {
  static const Names kAll{placement::selection_names(), jobs::waiting_names(), jobs::run_names()};
  const auto plan = planning::plan_names();
  return kind_of(name, kAll) || is_about_model(name) || std::ranges::find(plan, name) != plan.end();
}

}  // namespace

Result<Arguments> Arguments::read(const json& options, const Names& names) {
  Arguments read;
  for (const auto& [key, value] : options.items()) {
    if (!value.is_null()) GPUWARDEN_CHECK(read.take(key, value, names));
  }
  return read;
}

Result<void> Arguments::take(const std::string& key, const json& value, const Names& names) {
  const Alias* const alias = alias_of(key);
  const std::string name = key == "cpu" ? "device" : alias != nullptr ? alias->name : with(key, '_', '-');
  const auto kind = key == "cpu" ? ValueKind::flag : kind_of(name, names);
  if (!kind && !is_about_model(name)) {
    const std::string close = closest_match(key, known_keys(names));
    return fail(ErrorCode::invalid_argument, fmt::format("{}: there is no such argument", printable(key)),
                close.empty() ? "" : fmt::format("did you mean {}?", close));
  }
  std::optional<Values> said = words_of(value);
  if (alias != nullptr && alias->seconds) {
    GPUWARDEN_TRY(said, seconds_in(key, value));
  } else if (kind) {
    GPUWARDEN_TRY(said, values_in(key, value, *kind));
  } else if (name == "model" && !value.is_string()) {
    return wrong(key, value, "a text");
  } else if (value == false) {
    said.reset();
  }
  if (!said) return {};
  if (key == "cpu") said = Values{"cpu"};
  if (!keys_.try_emplace(name, key).second)
    return fail(ErrorCode::invalid_argument, fmt::format("{} and {} mean the same", keys_[name], key),
                "leave out one of the two");
  if (!kind) model_.set(name, *said);
  values_.set(name, std::move(*said));
  return {};
}

Result<machine::ReservationRequest> Arguments::gpus() const {
  GPUWARDEN_CHECK(jobs::check_which_gpus(values_));
  placement::Request request;
  GPUWARDEN_TRY(request.work, manager::read_work(model_, manager::model_downloads(current_environment())));
  return jobs::gpus_from(values_, std::move(request));
}

Error Arguments::told(Error error) const {
  error.message = with_arguments(error.message, keys_);
  error.hint = with_arguments(error.hint, keys_);
  return error;
}

std::string with_arguments(std::string_view text, const std::map<std::string, std::string>& keys) {
  std::string result;
  while (!text.empty()) {
    const std::size_t at = text.find("--");
    result += text.substr(0, at);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 2);
    const std::size_t length = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), text.size());
    const std::string name(text.substr(0, length));
    text.remove_prefix(length);
    const auto called = keys.find(name);
    const bool known = called != keys.end() || is_an_argument(name);
    result += called != keys.end() ? called->second : known ? with(name, '-', '_') : "--" + name;
  }
  return result;
}

Result<Bytes> size_argument(const std::string& key, const json& value) {
  if (value.is_number_unsigned()) return Bytes{value.get<std::uint64_t>()};
  if (!value.is_string()) return wrong(key, value, "a size", "bytes, or a text such as \"40GiB\"");
  const auto size = parse_meant_size(value.get<std::string>());
  if (size) return *size;
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", key, size.error().message), size.error().hint);
}

std::vector<std::string> words_of(const json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) return {value.dump()};
  std::vector<std::string> words;
  for (const json& one : value) words.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  return words;
}

planning::Words workload_words(const json& options) {
  planning::Words words("--");
  for (const auto& [key, value] : options.items()) {
    if (value.is_null() || (value.is_boolean() && !value.get<bool>())) continue;
    words.set(key, words_of(value));
  }
  return words;
}

}  // namespace gpuwarden::python
