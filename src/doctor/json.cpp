// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/markup.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/burn_in_json.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::doctor {

namespace {

using Json = nlohmann::json;

/// XML 1.0 has no control characters but these.
std::string escaped(std::string_view text) {
  std::string result = markup_text(text);
  std::ranges::replace_if(result, [](unsigned char c) { return c < 0x20 && c != '\n' && c != '\t'; }, ' ');
  return result;
}

/// One test case, however many findings its check has; those that fail in one failure.
struct JunitCase {
  std::string text;
  bool failed = false;
};

JunitCase case_of(std::string_view id, Area area, const Examination& examination, Severity fail_on) {
  JunitCase result;
  std::string failures;
  std::string notes;
  Severity worst = Severity::ok;
  for (const Finding& finding : examination.findings) {
    if (finding.id != id) continue;
    const bool fails = finding.severity >= fail_on;
    if (fails) worst = std::max(worst, finding.severity);
    (fails ? failures : notes) += fmt::format("{}: {} ({})\n", to_string(finding.severity), finding.title, finding.why);
  }
  result.failed = !failures.empty();
  result.text = fmt::format("    <testcase classname=\"gpuwarden.{}\" name=\"{}\">", to_string(area), escaped(id));
  if (examination.areas.at(area) == Status::not_judged)
    result.text += "<skipped message=\"nothing is known about it\"/>";
  if (result.failed)
    result.text += fmt::format("<failure type=\"{}\" message=\"{}\">{}</failure>", to_string(worst),
                               escaped(failures.substr(0, failures.find('\n'))), escaped(failures));
  if (!notes.empty()) result.text += fmt::format("<system-out>{}</system-out>", escaped(notes));
  result.text += "</testcase>\n";
  return result;
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

Json to_json(const Examination& examination, bool simulated) {
  Json findings = Json::array();
  for (const Finding& finding : examination.findings) findings.push_back(to_json(finding));
  Json areas = Json::object();
  for (const auto& [area, status] : examination.areas) areas[std::string(to_string(area))] = to_string(status);
  return facts::answer({{"overall", to_string(examination.overall)},
                        {"worst", to_string(examination.worst)},
                        {"checks_run", examination.ran.size()},
                        {"areas", areas},
                        {"findings", findings}},
                       simulated);
}

Json to_json(const Comparison& comparison) {
  Json differences = Json::array();
  for (const Difference& difference : comparison.differences)
    differences.push_back({{"what", difference.what},
                           {"values", difference.values},
                           {"usual", difference.usual.empty() ? Json() : Json(difference.usual)}});
  return facts::answer({{"machines", comparison.machines},
                        {"compared", comparison.compared},
                        {"differences", differences},
                        {"odd_one_out", comparison.odd_one_out.empty() ? Json() : Json(comparison.odd_one_out)}},
                       comparison.simulated);
}

Json to_json(const MachineReport& report) {
  Json json = to_json(report.examination, report.snapshot.simulated);
  json["origin"] = report.snapshot.origin;
  json["host"] = report.snapshot.host;
  json["purpose"] = report.purpose.text.empty() ? Json() : Json(report.purpose.text);
  if (report.burn_in != nullptr) json["deep"] = facts::to_json(*report.burn_in);
  return json;
}

std::string to_junit(const Examination& examination, Severity fail_on) {
  std::string suites;
  int all_failed = 0;
  for (const auto& [area, status] : examination.areas) {
    std::string cases;
    int count = 0;
    int failed = 0;
    for (const auto& [id, own] : examination.ran) {
      if (own != area) continue;
      const JunitCase one = case_of(id, area, examination, fail_on);
      cases += one.text;
      failed += one.failed ? 1 : 0;
      ++count;
    }
    suites += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n",
                          to_string(area), count, failed, status == Status::not_judged ? count : 0, cases);
    all_failed += failed;
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"gpuwarden doctor\" tests=\"{}\" "
      "failures=\"{}\">\n{}</testsuites>\n",
      examination.ran.size(), all_failed, suites);
}

}  // namespace gpuwarden::doctor
