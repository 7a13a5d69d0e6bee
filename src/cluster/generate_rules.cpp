// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/generate.hpp"
#include "gpuwarden/telemetry/promql.hpp"

namespace gpuwarden::cluster {
namespace {

using telemetry::AlertRule;

/// In YAML's double quotes.
std::string yaml_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

/// "GpuwardenGpuHot" of "gpu_hot": Prometheus's names are written so by custom.
std::string alert_name(std::string_view id) {
  std::string name = "Gpuwarden";
  bool begins = true;
  for (const char c : id) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit) {
      begins = true;
      continue;
    }
    name += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    begins = false;
  }
  return name;
}

/// A rule's words with Prometheus's own places for what they are about; what else stands in double braces means
/// nothing.
std::string filled_in(std::string_view text) {
  struct Place {
    std::string_view ours;
    std::string_view theirs;
  };
  constexpr Place kPlaces[] = {{"{gpu}", "{{ $labels.gpu }}"},
                               {"{uuid}", "{{ $labels.uuid }}"},
                               {"{host}", "{{ $labels.instance }}"},
                               {"{value}", "{{ $value }}"},
                               {"{{", "{ {"}};
  std::string result;
  while (!text.empty()) {
    const auto* const place =
        std::ranges::find_if(kPlaces, [&](const Place& row) { return text.starts_with(row.ours); });
    const bool found = place != std::end(kPlaces);
    result += found ? place->theirs : text.substr(0, 1);
    text.remove_prefix(found ? place->ours.size() : 1);
  }
  return result;
}

std::string seconds_text(std::chrono::milliseconds duration) {
  return fmt::format("{}s", std::chrono::ceil<std::chrono::seconds>(duration).count());
}

void add_alert(std::string& text, std::string_view name, std::string_view expression,
               std::chrono::milliseconds holds_for, std::string_view severity) {
  text += fmt::format("      - alert: {}\n        expr: {}\n", name, yaml_text(expression));
  if (holds_for.count() > 0) text += fmt::format("        for: {}\n", seconds_text(holds_for));
  text += fmt::format("        labels:\n          severity: {}\n        annotations:\n", to_lower(severity));
}

std::string alert_of(const AlertRule& rule, const std::string& expression) {
  std::string text;
  add_alert(text, alert_name(rule.id), expression, rule.holds_for, telemetry::to_string(rule.level));
  text += fmt::format("          summary: {}\n",
                      yaml_text(filled_in(rule.message.empty() ? rule.when.text() : rule.message)));
  if (!rule.next_step.empty()) text += fmt::format("          description: {}\n", yaml_text(filled_in(rule.next_step)));
  text += fmt::format("          condition: {}\n", yaml_text(filled_in(rule.when.text())));
  return text;
}

/// What a single machine cannot tell of itself.
constexpr std::string_view kOfMachines = R"yaml(      - alert: GpuwardenMachineDown
        expr: "up == 0 and on (job, instance) last_over_time(gpuwarden_up[1d])"
        for: 2m
        labels:
          severity: critical
        annotations:
          summary: "{{ $labels.instance }} does not answer"
          description: "is the machine up, and gpuwarden serve running on it?"
      - alert: GpuwardenGpusNotRead
        expr: "gpuwarden_up == 0"
        for: 1m
        labels:
          severity: error
        annotations:
          summary: "the GPUs of {{ $labels.instance }} are not read any more"
          description: "gpuwarden doctor on that machine says more"
      - alert: GpuwardenGpusLost
        expr: "gpuwarden_gpus_lost > 0"
        for: 1m
        labels:
          severity: critical
        annotations:
          summary: "{{ $value }} GPUs of {{ $labels.instance }} are lost"
          description: "gpuwarden doctor on that machine says more"
)yaml";

}  // namespace

std::string prometheus_rules(std::span<const AlertRule> rules) {
  std::string text =
      "# Alerts of gpuwarden for Prometheus: name this file under rule_files in prometheus.yml.\n"
      "# Made by `gpuwarden serve --print prometheus-rules`; check it with `promtool check rules`.\n"
      "groups:\n  - name: gpuwarden\n    rules:\n";
  text += kOfMachines;
  for (const AlertRule& rule : rules) {
    const auto expression = telemetry::promql_of(rule.when);
    if (expression) {
      text += alert_of(rule, *expression);
    } else {
      text += fmt::format("      # {}: {}: left out: {}\n", printable(rule.id), printable(rule.when.text()),
                          printable(expression.error().message));
    }
  }
  return text;
}

std::string scrape_config(const std::vector<std::string>& targets, std::string_view bearer_token_file,
                          std::chrono::seconds interval) {
  struct Scheme {
    std::string_view name;
    std::string_view job;
  };
  constexpr Scheme kSchemes[] = {{"http", "gpuwarden"}, {"https", "gpuwarden-tls"}};
  std::string text = "scrape_configs:\n";
  for (const Scheme& scheme : kSchemes) {
    std::string listed;
    for (const std::string& target : targets) {
      const std::size_t end = target.find("://");
      const bool bare = end == std::string::npos;
      if ((bare ? "http" : target.substr(0, end)) == scheme.name)
        listed += fmt::format("          - {}\n", yaml_text(bare ? target : target.substr(end + 3)));
    }
    if (listed.empty()) continue;
    text += fmt::format("  - job_name: {}\n    scheme: {}\n    scrape_interval: {}s\n", scheme.job, scheme.name,
                        std::max<std::int64_t>(interval.count(), 1));
    if (!bearer_token_file.empty())
      text += fmt::format("    authorization:\n      credentials_file: {}\n", yaml_text(bearer_token_file));
    text += "    static_configs:\n      - targets:\n" + listed;
  }
  return text;
}

}  // namespace gpuwarden::cluster
