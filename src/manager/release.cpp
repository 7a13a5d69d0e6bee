// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/release.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::manager {

std::string_view to_string(ReleaseKind kind) {
  switch (kind) {
    case ReleaseKind::cache:
      return "cache";
    case ReleaseKind::pool:
      return "pool";
    case ReleaseKind::model:
      return "model";
  }
  return "cache";
}

nlohmann::json to_json(const ReleaseReport& report) {
  nlohmann::json steps = nlohmann::json::array();
  for (const ReleaseStep& step : report.steps) {
    nlohmann::json& json = steps.emplace_back(
        nlohmann::json{{"name", step.name}, {"kind", to_string(step.kind)}, {"freed_bytes", step.freed.value}});
    json["expected_bytes"] = step.expected ? nlohmann::json(step.expected->value) : nlohmann::json();
    json["error"] = step.error ? facts::to_json(*step.error) : nlohmann::json();
  }
  return {{"steps", std::move(steps)}, {"freed_bytes", report.freed.value}, {"enough", report.enough}};
}

std::vector<std::size_t> release_order(const std::vector<ReleaseEntry>& entries) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t at) { return entries[at].size == Bytes{}; });
  std::ranges::stable_sort(order, [&](std::size_t left, std::size_t right) {
    const ReleaseEntry& a = entries[left];
    const ReleaseEntry& b = entries[right];
    if (a.kind != b.kind) return a.kind < b.kind;
    return a.size.value_or(Bytes{}) > b.size.value_or(Bytes{});
  });
  return order;
}

void ReleaseBook::add(Releasable releasable) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(all_, releasable.name, &Releasable::name);
  if (found == all_.end())
    all_.push_back(std::move(releasable));
  else
    *found = std::move(releasable);
}

bool ReleaseBook::remove(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  return std::erase_if(all_, [&](const Releasable& one) { return one.name == name; }) > 0;
}

std::vector<std::string> ReleaseBook::names() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> names;
  for (const Releasable& one : all_) names.push_back(one.name);
  return names;
}

ReleaseReport ReleaseBook::release(std::optional<Bytes> needed, const Device* device) const {
  std::vector<Releasable> all;
  {
    const std::scoped_lock lock(mutex_);
    all = all_;
  }
  if (device != nullptr) std::erase_if(all, [&](const Releasable& one) { return one.is_on && !one.is_on(*device); });
  std::vector<ReleaseEntry> entries;
  for (const Releasable& one : all) entries.push_back({one.kind, one.size ? one.size() : std::nullopt});
  ReleaseReport report;
  for (const std::size_t at : release_order(entries)) {
    if (needed && report.freed >= *needed) break;
    ReleaseStep& step = report.steps.emplace_back();
    step = {all[at].name, entries[at].kind, entries[at].size, {}, {}};
    if (auto freed = all[at].release())
      report.freed += step.freed = *freed;
    else
      step.error = std::move(freed).error();
  }
  report.enough = !needed || report.freed >= *needed;
  return report;
}

}  // namespace gpuwarden::manager
