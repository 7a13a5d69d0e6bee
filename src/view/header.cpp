// SPDX-License-Identifier: Apache-2.0
// The line at the top, and the sums over all GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

/// Writes pieces from the left, each with two blanks behind it, as long as there is room.
class Pieces {
 public:
  Pieces(Canvas& canvas, Rect area) : canvas_(canvas), at_{area.x, area.y}, end_(area.x + area.width) {}
  void add(std::string_view text, Tone tone = Tone::plain) {
    if (text.empty() || at_.x + display_width(text) > end_) return;
    at_.x += canvas_.put(at_, text, tone) + 2;
  }
  /// The same, cut where there is not enough room.
  void add_cut(std::string_view text, Tone tone = Tone::plain) {
    if (!text.empty() && at_.x < end_) at_.x += canvas_.put(at_, text, tone, end_ - at_.x) + 2;
  }

 private:
  Canvas& canvas_;
  Point at_;
  int end_;
};

std::string time_words(const Frame& frame) {
  const Scene& scene = frame.scene;
  // The newest: a node that is lost stays behind.
  Clock::WallTime taken{};
  for (const cluster::Node& node : scene.nodes) {
    if (node.reading != nullptr) taken = std::max(taken, node.reading->snapshot.taken_at);
  }
  if (taken == Clock::WallTime{}) return "";
  return scene.captured ? format_utc(taken) : clock_words(taken);
}

/// What stands at the right end: pause, alerts, time.
void draw_right(const Frame& frame, Rect& area) {
  const auto add = [&](const std::string& text, Tone tone) {
    const int width = display_width(text);
    if (text.empty() || width + 2 > area.width) return;
    frame.canvas.put_right({area.x + area.width, area.y}, text, tone);
    area.width -= width + 2;
  };
  add(time_words(frame), Tone::plain);
  if (frame.scene.behind)
    add(fmt::format("PAUSED {} ago", age_words(std::chrono::duration_cast<std::chrono::seconds>(*frame.scene.behind))),
        Tone::warning);
  const auto alerts = alert_rows(frame.scene);
  const auto open =
      std::ranges::count_if(alerts, [](const AlertRow& row) { return row.alert->acknowledged_by.empty(); });
  const bool grave = std::ranges::any_of(alerts, [](const AlertRow& row) {
    return row.alert->acknowledged_by.empty() && row.alert->level >= telemetry::AlertLevel::error;
  });
  if (open > 0)
    add(fmt::format("{}{} alert{}", grave ? "! " : "", open, open == 1 ? "" : "s"),
        grave ? Tone::fault : Tone::warning);
}

struct Sums {
  std::size_t gpus = 0, busy = 0, faulty = 0, with_load = 0;
  double load = 0;
  Bytes used, total;
  Milliwatts power, limit;
  std::optional<Celsius> hottest;
  std::string hottest_label;
};

/// Another machine that does not answer: what its GPUs did last says nothing of now.
bool is_lost(const cluster::Node& node) { return node.problem && !node.url.empty(); }
bool stands_for_a_node(const GpuRow& row) { return row.record == nullptr; }

Sums sums_of(const Rows& rows) {
  Sums sums;
  for (const std::size_t at : rows.gpus) {
    const GpuRow& row = rows.all_gpus[at];
    if (stands_for_a_node(row)) continue;
    ++sums.gpus;
    if (is_lost(*row.node)) {
      ++sums.faulty;
      continue;
    }
    const bool well = facts::is_usable(*row.record) || row.record->state == facts::GpuState::suspended;
    sums.faulty += well ? 0 : 1;
    const facts::GpuSample& sample = row.record->sample;
    sums.busy += facts::is_loaded(sample) ? 1 : 0;
    if (sample.utilization_gpu) sums.load += static_cast<double>(sample.utilization_gpu->value), ++sums.with_load;
    if (sample.memory_used && sample.memory_total) sums.used += *sample.memory_used, sums.total += *sample.memory_total;
    if (sample.power && sample.power_limit) sums.power += *sample.power, sums.limit += *sample.power_limit;
    if (sample.temperature && (!sums.hottest || *sample.temperature > *sums.hottest)) {
      sums.hottest = sample.temperature;
      sums.hottest_label = row.label;
    }
  }
  return sums;
}

std::string kilowatts(Milliwatts power) {
  const double watts = static_cast<double>(power.value) / 1000;
  return watts < 9999.5 ? fmt::format("{:.0f}", watts) : fmt::format("{:.1f}k", watts / 1000);
}

}  // namespace

void draw_header(const Frame& frame, Rect area) {
  draw_right(frame, area);
  Pieces pieces(frame.canvas, area);
  const auto& nodes = frame.scene.nodes;
  if (nodes.size() == 1 && nodes[0].reading != nullptr) {
    const facts::Snapshot& snapshot = nodes[0].reading->snapshot;
    if (snapshot.simulated) pieces.add_cut("SIMULATED " + snapshot.fleet, Tone::warning);
    if (!snapshot.origin.empty()) pieces.add_cut("FROM " + snapshot.origin, Tone::warning);
    // Where a capture does not name its machine, where it is from says enough.
    if (!snapshot.host.empty() || snapshot.origin.empty())
      pieces.add(snapshot.host.empty() ? nodes[0].name : snapshot.host, Tone::bold);
    pieces.add("driver " + snapshot.driver_version.value_or("-"));
    pieces.add("CUDA " + snapshot.cuda_driver_version.value_or("-"));
  } else if (nodes.size() > 1) {
    const auto lost = std::ranges::count_if(nodes, [](const cluster::Node& node) { return node.problem.has_value(); });
    const auto simulated = std::ranges::count_if(
        nodes, [](const cluster::Node& node) { return node.reading != nullptr && node.reading->snapshot.simulated; });
    const bool all = std::cmp_equal(simulated, nodes.size());
    if (simulated > 0) pieces.add(all ? "SIMULATED" : fmt::format("{} SIMULATED", simulated), Tone::warning);
    pieces.add(fmt::format("{} nodes", nodes.size()), Tone::bold);
    if (lost > 0) pieces.add(fmt::format("{} not answering", lost), Tone::fault);
  } else if (nodes.size() == 1 && nodes[0].problem) {
    pieces.add_cut(nodes[0].name, Tone::bold);
    pieces.add("not answering", Tone::fault);
  } else {
    pieces.add_cut("waiting for the first reading", Tone::dim);
  }
  if (frame.state.filter) pieces.add("filter: " + frame.state.filter_text, Tone::key);
}

void draw_sums(const Frame& frame, Rect area) {
  if (area.height == 0) return;
  const Sums sums = sums_of(frame.rows);
  Pieces pieces(frame.canvas, area);
  const auto nodes_alone = std::ranges::count_if(frame.rows.all_gpus, stands_for_a_node);
  const std::size_t all = frame.rows.all_gpus.size() - static_cast<std::size_t>(nodes_alone);
  pieces.add(sums.gpus == all ? fmt::format("{} GPUs", all) : fmt::format("{} of {} GPUs", sums.gpus, all), Tone::bold);
  if (sums.faulty > 0) pieces.add(fmt::format("{} in trouble", sums.faulty), Tone::fault);
  pieces.add(fmt::format("{} in use", sums.busy));
  if (sums.with_load > 0) {
    const double load = sums.load / static_cast<double>(sums.with_load);
    pieces.add(fmt::format("load {:.0f}%", load), load_tone(load / 100));
  }
  if (sums.total.value > 0)
    pieces.add("memory " + memory_words(sums.used, sums.total), load_tone(ratio(sums.used, sums.total)));
  if (sums.limit.value > 0) pieces.add(fmt::format("power {}/{}W", kilowatts(sums.power), kilowatts(sums.limit)));
  if (sums.hottest)
    pieces.add(fmt::format("hottest {} (GPU {})", heat_words(sums.hottest, frame.ascii()), sums.hottest_label));
}

}  // namespace gpuwarden::view
