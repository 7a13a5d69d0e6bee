// SPDX-License-Identifier: Apache-2.0
// The readers of what people write: sizes, durations, GPU lists, filters, alert rules.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/telemetry/alert_rules.hpp"
#include "support/support.hpp"

namespace gpuwarden::python {

void bind_words(nb::module_& module);

namespace {

std::vector<std::string> parse_gpus(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const placement::GpuName& name : placement::expand_ranges(names)) result.push_back(name.text);
  return result;
}

/// The names that a filter speaks of.
std::vector<std::string> parse_filter(const std::string& text) {
  const auto expression = unwrap(telemetry::Expression::parse(text));
  std::vector<std::string> names;
  for (const telemetry::Variable* variable : expression.variables()) names.emplace_back(variable->name);
  return names;
}

std::string parse_rules(const std::string& text, const std::string& name) {
  nlohmann::json rules = nlohmann::json::array();
  for (const telemetry::AlertRule& rule : unwrap(telemetry::parse_alert_rules(text, name)).rules)
    rules.push_back({{"id", rule.id},
                     {"when", rule.when.text()},
                     {"for_seconds", static_cast<double>(rule.holds_for.count()) / 1000},
                     {"level", telemetry::to_string(rule.level)},
                     {"message", rule.message},
                     {"next_step", rule.next_step},
                     {"built_in", rule.built_in}});
  return json_text(rules);
}

}  // namespace

void bind_words(nb::module_& module) {
  module.def("parse_size", [](const std::string& text) { return unwrap(parse_size(text)).value; }, nb::arg("text"));
  module.def(
      "parse_duration",
      [](const std::string& text) { return static_cast<double>(unwrap(parse_duration(text)).count()) / 1000; },
      nb::arg("text"));
  module.def("parse_gpus", &parse_gpus, nb::arg("names"));
  module.def("parse_filter", &parse_filter, nb::arg("text"));
  module.def("parse_alert_rules", &parse_rules, nb::arg("text"), nb::arg("name"));
}

}  // namespace gpuwarden::python
