// SPDX-License-Identifier: Apache-2.0
// What a Prometheus and a Grafana need to show gpuwarden's metrics, made from the metric table and the alert rules.
// Pure.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/telemetry/alert_rules.hpp"

namespace gpuwarden::cluster {

/// A file of alerting rules (rule_files of prometheus.yml): one alert for each rule, and one for a machine that does
/// not answer. Rules that PromQL cannot say stand in it as comments, each with the reason.
std::string prometheus_rules(std::span<const telemetry::AlertRule> rules);

/// A dashboard for Grafana's import (JSON): the machines and GPUs at a glance, and a panel for each metric of the table
/// in rows by subject; with variables for the data source, the machine and the GPU.
std::string grafana_dashboard();

/// The part of a prometheus.yml that scrapes these: "HOST:PORT", or a URL of http or https without a path.
/// `bearer_token_file` empty: none is sent.
std::string scrape_config(const std::vector<std::string>& targets, std::string_view bearer_token_file = {},
                          std::chrono::seconds interval = std::chrono::seconds(5));

}  // namespace gpuwarden::cluster
