// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/prometheus.hpp"

namespace gpuwarden::cluster {
namespace {

using Json = nlohmann::json;

std::unexpected<Error> no_answer(std::string_view what) {
  return fail(ErrorCode::corrupt, fmt::format("the answer is none of Prometheus's: {}", what),
              "is it the URL of a Prometheus, without /api/v1?");
}

std::string words_of(const Json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? printable(found->get<std::string>()) : std::string();
}

/// Prometheus writes numbers as texts, "NaN", "+Inf" and "-Inf" among them.
std::optional<double> number_from(const Json& json) {
  if (!json.is_string()) return std::nullopt;
  const auto& text = json.get_ref<const std::string&>();
  if (text == "NaN") return std::nan("");
  if (text == "+Inf" || text == "Inf") return HUGE_VAL;
  if (text == "-Inf") return -HUGE_VAL;
  return parse_number(text);
}

Result<PrometheusSample> sample_from(const Json& entry) {
  if (!entry.is_object() || !entry.contains("metric") || !entry.contains("value"))
    return no_answer("a sample without 'metric' and 'value'");
  const Json& value = entry["value"];
  const bool pair = value.is_array() && value.size() == 2 && value[0].is_number();
  const auto number = pair ? number_from(value[1]) : std::nullopt;
  const double seconds = pair ? value[0].get<double>() : 0;
  if (!number || !entry["metric"].is_object() || !(std::abs(seconds) < 1e11))
    return no_answer("a sample without a value");
  PrometheusSample sample;
  sample.value = *number;
  sample.time = std::chrono::system_clock::time_point(
      std::chrono::milliseconds(static_cast<std::int64_t>(std::llround(seconds * 1000))));
  for (const auto& [name, text] : entry["metric"].items()) {
    if (!text.is_string()) return no_answer("a label that is no text");
    if (name == "__name__") {
      sample.metric = text.get<std::string>();
    } else {
      sample.labels[name] = printable(text.get<std::string>());
    }
  }
  return sample;
}

}  // namespace

Result<std::vector<PrometheusSample>> parse_instant_vector(std::string_view answer) {
  const Json document = Json::parse(answer, nullptr, false);
  if (!document.is_object()) return no_answer("it is not a JSON object");
  const std::string status = words_of(document, "status");
  if (status == "error")
    return fail(ErrorCode::failed,
                fmt::format("Prometheus says: {}: {}", words_of(document, "errorType"), words_of(document, "error")));
  const auto data = document.find("data");
  if (status != "success" || data == document.end() || !data->is_object()) return no_answer("it has no 'data'");
  const auto result = data->find("result");
  if (words_of(*data, "resultType") != "vector" || result == data->end() || !result->is_array())
    return no_answer("its 'resultType' is not 'vector'");
  std::vector<PrometheusSample> samples;
  samples.reserve(result->size());
  for (const Json& entry : *result) {
    GPUWARDEN_TRY(PrometheusSample sample, sample_from(entry));
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace gpuwarden::cluster
