// SPDX-License-Identifier: Apache-2.0
// GPUs as cards: figures at the left, graphs at the right.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "view/frame.hpp"

namespace gpuwarden::view {
namespace {

constexpr int kFigures = 44;
constexpr int kLeastGraph = 16;
constexpr int kGraphLabel = 5;

/// Which two metrics the cards' graphs show.
struct GraphPair {
  Graphs graphs;
  std::array<std::string_view, 2> metrics;
  std::array<std::string_view, 2> labels;
};
constexpr auto kGraphPairs = std::to_array<GraphPair>({
    {Graphs::load, {"utilization", "memory_used"}, {"GPU", "mem"}},
    {Graphs::power, {"power", "clock_sm"}, {"watt", "MHz"}},
    {Graphs::temperature, {"temperature", "fan_speed"}, {"heat", "fan"}},
    {Graphs::traffic, {"pcie_received", "nvlink_received"}, {"PCIe", "NVL"}},
});

struct Figure {
  std::string text;
  Tone tone = Tone::plain;
};

Tone heat_tone(const facts::GpuRecord& record) {
  const auto& now = record.sample.temperature;
  if (!now) return Tone::dim;
  const auto& slowdown = record.gpu.temperature_slowdown;
  if (slowdown && now->value >= slowdown->value) return Tone::fault;
  return slowdown && now->value >= slowdown->value - 5 ? Tone::warning : Tone::plain;
}

Tone memory_error_tone(const facts::GpuSample& sample) {
  const bool bad = sample.ecc_uncorrected_volatile && sample.ecc_uncorrected_volatile->value > 0;
  return bad ? Tone::fault : Tone::plain;
}

std::string shares(const facts::GpuSample& sample) {
  std::string text;
  const auto add = [&](std::string_view label, const std::optional<Share>& share) {
    if (share)
      text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : "  ", label, static_cast<double>(share->value) / 100);
  };
  add("SM", sample.sm_active);
  add("tensor", sample.tensor_active);
  add("DRAM", sample.dram_active);
  return text;
}

void add_instances(const facts::GpuRecord& record, std::vector<Figure>& all) {
  for (const facts::MigDevice& mig : record.mig_devices)
    all.push_back({fmt::format("MIG {} {} {}", mig.index, mig.profile.value_or("?"),
                               memory_words(mig.memory_used, mig.memory_total))});
}

/// The small figures of a card, most wanted first; what is not known is left out.
std::vector<Figure> figures_of(const facts::GpuRecord& record, bool ascii) {
  const facts::GpuSample& sample = record.sample;
  std::vector<Figure> all;
  add_instances(record, all);
  const std::string slowdown =
      record.gpu.temperature_slowdown ? "/" + heat_words(record.gpu.temperature_slowdown, ascii) : "";
  if (sample.temperature) all.push_back({heat_words(sample.temperature, ascii) + slowdown, heat_tone(record)});
  if (sample.power) all.push_back({power_words(sample.power, sample.power_limit)});
  if (sample.fan_speed) all.push_back({"fan " + percent_words(sample.fan_speed)});
  if (sample.clock_sm) all.push_back({fmt::format("{} MHz", sample.clock_sm->value)});
  if (sample.performance_state) all.push_back({fmt::format("P{}", sample.performance_state->value), Tone::dim});
  const std::string down = ascii ? "rx " : "↓", up = ascii ? "tx " : "↑";
  const auto traffic = [&](std::string_view name, const auto& received, const auto& sent) {
    if (received || sent)
      all.push_back({fmt::format("{} {}{} {}{}", name, down, rate_words(received), up, rate_words(sent))});
  };
  traffic(sample.pcie_generation && sample.pcie_width
              ? fmt::format("PCIe {}x{}", sample.pcie_generation->value, sample.pcie_width->value)
              : "PCIe",
          sample.pcie_received, sample.pcie_sent);
  traffic("NVLink", sample.nvlink_received, sample.nvlink_sent);
  if (sample.ecc_corrected_volatile || sample.ecc_uncorrected_volatile)
    all.push_back({fmt::format("ECC {}/{}", sample.ecc_corrected_volatile.value_or(Count(0)).value,
                               sample.ecc_uncorrected_volatile.value_or(Count(0)).value),
                   memory_error_tone(sample)});
  if (const std::string text = shares(sample); !text.empty()) all.push_back({text});
  if (sample.clock_memory) all.push_back({fmt::format("memory {} MHz", sample.clock_memory->value), Tone::dim});
  if (sample.utilization_encoder && sample.utilization_decoder &&
      sample.utilization_encoder->value + sample.utilization_decoder->value > 0)
    all.push_back({fmt::format("enc {} dec {}", percent_words(sample.utilization_encoder),
                               percent_words(sample.utilization_decoder))});
  return all;
}

/// Figures line by line, as many as there is room for.
void flow_figures(Canvas& canvas, Rect area, const std::vector<Figure>& figures) {
  Point at{area.x, area.y};
  for (const Figure& figure : figures) {
    const int width = display_width(figure.text);
    if (at.x > area.x && at.x + width > area.x + area.width) at = {area.x, at.y + 1};
    if (at.y >= area.y + area.height) return;
    at.x += canvas.put(at, figure.text, figure.tone, area.width) + 2;
  }
}

void draw_title(const Frame& frame, Rect area, const GpuRow& row, bool selected) {
  frame.canvas.fill({area.x, area.y, area.width, 1}, frame.ascii() ? U'-' : U'─', Tone::dim);
  const auto remarks = remarks_on(row, frame.scene);
  int width = -2;
  for (const Remark& remark : remarks) width += display_width(remark.text) + 2;
  // A node that told of no GPU has a reason and no name of a product.
  const int most = row.record == nullptr ? area.width - display_width(row.label) - 9 : area.width / 2;
  width = std::min(width, std::max(8, most));
  const int name = std::max(0, area.width - width - 6);
  const std::string text =
      " " + row.label + " " + std::string(row.record == nullptr ? "" : model_words(row.record->gpu.name)) + " ";
  const int put = frame.canvas.put({area.x + 1, area.y}, text, Tone::title, name);
  if (selected) frame.canvas.invert({area.x + 1, area.y, put, 1});
  const int at = area.x + area.width - width - 3;
  frame.canvas.put({at, area.y}, std::string(static_cast<std::size_t>(width + 2), ' '));
  put_remarks(frame.canvas, {at + 1, area.y}, remarks, width);
}

void draw_graphs(const Frame& frame, Rect area, const GpuRow& row) {
  const auto* const pair = std::ranges::find(kGraphPairs, frame.state.graphs, &GraphPair::graphs);
  // A blank row between, where there are rows to spare.
  const int gap = area.height >= 7 ? 1 : 0;
  const int upper = (area.height - gap + 1) / 2;
  const std::array<Rect, 2> places{Rect{area.x, area.y, area.width, upper},
                                   Rect{area.x, area.y + upper + gap, area.width, area.height - upper - gap}};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Rect place = places.at(i);
    const std::size_t position = metric_position(pair->metrics.at(i));
    if (place.height <= 0 || position >= facts::metrics().size()) continue;
    frame.canvas.put({place.x, place.y}, pair->labels.at(i), Tone::dim, kGraphLabel - 1);
    const Rect graph{place.x + kGraphLabel, place.y, place.width - kGraphLabel, place.height};
    const auto values = graph_values(frame, row, position, graph.width);
    const facts::Metric& metric = facts::metrics()[position];
    Ink ink = frame.ink();
    if (i == 1) ink.tone = Tone::load1;
    draw_graph(frame.canvas, graph, values, axis_of(metric, *row.record, values), ink);
  }
}

std::optional<double> memory_share(const facts::GpuSample& sample) {
  if (!sample.memory_used || !sample.memory_total || sample.memory_total->value == 0) return std::nullopt;
  return ratio(*sample.memory_used, *sample.memory_total);
}

void draw_card(const Frame& frame, Rect area, const GpuRow& row, bool selected) {
  draw_title(frame, area, row, selected);
  if (row.record == nullptr) return;
  const bool graphs = frame.scene.trail != nullptr && area.width >= kFigures + kGraphLabel + kLeastGraph + 2;
  const int width = graphs ? kFigures : area.width - 1;
  const facts::GpuSample& sample = row.record->sample;
  const Rect bars{area.x + 5, area.y + 1, width - 5, 1};
  frame.canvas.put({area.x + 1, area.y + 1}, "GPU", Tone::dim);
  frame.canvas.put({area.x + 1, area.y + 2}, "MEM", Tone::dim);
  const auto load =
      sample.utilization_gpu ? std::optional(static_cast<double>(sample.utilization_gpu->value) / 100) : std::nullopt;
  const std::string load_text = load                                          ? percent_words(sample.utilization_gpu)
                                : row.record->gpu.mig_enabled.value_or(false) ? "n/a (MIG)"
                                                                              : "n/a";
  draw_bar(frame.canvas, bars, load, load_text, frame.ink());
  draw_bar(frame.canvas, {bars.x, bars.y + 1, bars.width, 1}, memory_share(sample),
           memory_words(sample.memory_used, sample.memory_total), frame.ink());
  flow_figures(frame.canvas, {area.x + 1, area.y + 3, width - 1, area.height - 3},
               figures_of(*row.record, frame.ascii()));
  if (graphs) draw_graphs(frame, {area.x + width + 2, area.y + 1, area.width - width - 2, area.height - 1}, row);
}

}  // namespace

void put_remarks(Canvas& canvas, Point at, std::span<const Remark> remarks, int width) {
  const int end = at.x + width;
  bool first = true;
  for (const Remark& remark : remarks) {
    if (!first) at.x += canvas.put(at, ", ", Tone::dim, std::max(0, end - at.x));
    if (at.x >= end) return;
    at.x += canvas.put(at, remark.text, remark.tone, end - at.x);
    first = false;
  }
}

void draw_cards(const Frame& frame, const Layout& layout) {
  const std::size_t selected = selected_gpu(frame.state, frame.rows);
  for (std::size_t i = 0; i < layout.gpus_in_sight; ++i) {
    const std::size_t nth = frame.state.first_gpu + i;
    if (nth >= frame.rows.gpus.size()) return;
    const GpuRow& row = frame.rows.all_gpus[frame.rows.gpus[nth]];
    draw_card(frame, layout.gpu(i), row, nth == selected && frame.state.focus == Focus::gpus);
  }
}

}  // namespace gpuwarden::view
