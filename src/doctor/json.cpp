// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::doctor {

namespace {

using Json = nlohmann::json;

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML 1.0 has no other control characters.
        result += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return result;
}

std::string case_of(std::string_view id, Area area, const Examination& examination, Severity fail_on) {
  std::string text = fmt::format("    <testcase classname=\"gpuwarden.{}\" name=\"{}\">", to_string(area), escaped(id));
  for (const Finding& finding : examination.findings) {
    if (finding.id != id) continue;
    const bool fails = finding.severity >= fail_on;
    text += fails ? fmt::format("<failure type=\"{}\" message=\"{}\">{}</failure>", to_string(finding.severity),
                                escaped(finding.title), escaped(finding.why))
                  : fmt::format("<system-out>{}: {}</system-out>", to_string(finding.severity), escaped(finding.title));
  }
  return text + "</testcase>\n";
}

}  // namespace

Json to_json(const Finding& finding) {
  return {{"id", finding.id},
          {"area", to_string(finding.area)},
          {"severity", to_string(finding.severity)},
          {"title", finding.title},
          {"why", finding.why},
          {"fix", finding.fix},
          {"safe", finding.safe},
          {"source", finding.source},
          {"link", finding.link}};
}

Json to_json(const Examination& examination) {
  Json findings = Json::array();
  for (const Finding& finding : examination.findings) findings.push_back(to_json(finding));
  Json areas = Json::object();
  for (const auto& [area, status] : examination.areas) areas[std::string(to_string(area))] = to_string(status);
  return {{"schema", facts::kJsonSchema},
          {"overall", to_string(examination.overall)},
          {"worst", to_string(examination.worst)},
          {"checks_run", examination.checks_run},
          {"areas", areas},
          {"findings", findings}};
}

Json to_json(const Comparison& comparison) {
  Json differences = Json::array();
  for (const Difference& difference : comparison.differences)
    differences.push_back({{"what", difference.what},
                           {"values", difference.values},
                           {"usual", difference.usual.empty() ? Json() : Json(difference.usual)}});
  return {{"schema", facts::kJsonSchema},
          {"machines", comparison.machines},
          {"compared", comparison.compared},
          {"differences", differences},
          {"odd_one_out", comparison.odd_one_out.empty() ? Json() : Json(comparison.odd_one_out)}};
}

std::string to_junit(const Examination& examination, Severity fail_on) {
  const auto failing = [&](const Finding& finding) { return finding.severity >= fail_on; };
  const auto failures = std::ranges::count_if(examination.findings, failing);
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"gpuwarden doctor\" tests=\"{}\" "
      "failures=\"{}\">\n",
      examination.checks_run, failures);
  for (const auto& [area, status] : examination.areas) {
    std::string cases;
    int count = 0;
    for (const Check& check : checks()) {
      if (check.area != area) continue;
      cases += case_of(check.id, area, examination, fail_on);
      ++count;
    }
    for (const auto& [id, rule_area] : examination.site_rules) {
      if (rule_area != area) continue;
      cases += case_of(id, area, examination, fail_on);
      ++count;
    }
    const auto failed = std::ranges::count_if(
        examination.findings, [&](const Finding& finding) { return finding.area == area && failing(finding); });
    text += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\">\n{}  </testsuite>\n", to_string(area),
                        count, failed, cases);
  }
  return text + "</testsuites>\n";
}

}  // namespace gpuwarden::doctor
