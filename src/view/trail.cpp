// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/trail.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::view {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
/// However many GPUs there are, graphs reach back this far.
constexpr std::size_t kShortest = 120;
/// Metrics that a GPU usually tells.
constexpr std::size_t kUsualMetrics = 45;

std::size_t gpus_in(const std::vector<cluster::Node>& nodes) {
  std::size_t count = 0;
  for (const cluster::Node& node : nodes) count += node.reading == nullptr ? 0 : node.reading->snapshot.gpus.size();
  return count;
}

}  // namespace

std::string gpu_key(const cluster::Node& node, const facts::GpuRecord& record) {
  return node.name + '/' + facts::identity_of(record).value;
}

std::size_t metric_position(std::string_view id) {
  const auto all = facts::metrics();
  return static_cast<std::size_t>(std::ranges::find(all, id, &facts::Metric::id) - all.begin());
}

Trail::Trail(std::chrono::milliseconds interval, TrailLimits limits)
    : interval_(std::max(interval, std::chrono::milliseconds(1))), limits_(limits) {}

void Trail::add(std::vector<cluster::Node> nodes, Clock::SteadyTime when, Clock::WallTime time) {
  const std::size_t gpus = gpus_in(nodes);
  if (moments_.empty()) {
    begin_ = when;
    depth_ = limits_.figures / (std::max<std::size_t>(gpus, 1) * kUsualMetrics);
    depth_ = std::clamp(depth_, std::min(kShortest, limits_.longest), limits_.longest);
  }
  const std::int64_t last = moments_.empty() ? -1 : moments_.back().slot;
  const double passed = std::chrono::duration<double>(when - begin_) / std::chrono::duration<double>(interval_);
  const std::int64_t slot = std::max<std::int64_t>(last + 1, std::llround(passed));
  clear_slots(last + 1, slot);
  for (const cluster::Node& node : nodes) {
    if (node.reading == nullptr || node.problem) continue;
    for (const facts::GpuRecord& record : node.reading->snapshot.gpus) note(gpu_key(node, record), record.sample, slot);
  }
  moments_.push_back({slot, time, std::move(nodes)});
  whole_ += gpus;
  while (moments_.size() > 2 && (whole_ > limits_.whole_gpus || moments_.size() > limits_.longest)) {
    whole_ -= gpus_in(moments_.front().nodes);
    moments_.pop_front();
  }
}

void Trail::clear_slots(std::int64_t from, std::int64_t to) {
  from = std::max(from, to - static_cast<std::int64_t>(depth_) + 1);
  for (auto& [gpu, columns] : columns_) {
    for (Column& column : columns) {
      for (std::int64_t slot = from; !column.empty() && slot <= to; ++slot) column[place(slot)] = kUnknown;
    }
  }
}

void Trail::note(const std::string& gpu, const facts::GpuSample& sample, std::int64_t slot) {
  const auto all = facts::metrics();
  auto& columns = columns_[gpu];
  columns.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto value = facts::value_of(all[i], sample);
    if (!value) continue;
    if (columns[i].empty()) columns[i].assign(depth_, kUnknown);
    columns[i][place(slot)] = static_cast<float>(*value);
  }
}

std::vector<float> Trail::graph(const std::string& gpu, std::size_t metric, const Stretch& stretch) const {
  std::vector<float> dots(stretch.dots, kUnknown);
  const auto found = columns_.find(gpu);
  if (moments_.empty() || found == columns_.end() || metric >= found->second.size() || found->second[metric].empty())
    return dots;
  const Column& column = found->second[metric];
  const std::int64_t oldest = std::max<std::int64_t>(0, moments_.back().slot - static_cast<std::int64_t>(depth_) + 1);
  const auto each = static_cast<std::int64_t>(std::max(stretch.each, 1U));
  // Stretches begin at multiples of their length, so that a dot stays what it was while it wanders to the left.
  const std::int64_t last = stretch.newest / each;
  for (std::size_t i = 0; i < stretch.dots; ++i) {
    const std::int64_t group = last - static_cast<std::int64_t>(stretch.dots - 1 - i);
    for (std::int64_t slot = std::max(group * each, oldest); slot < (group + 1) * each && slot <= stretch.newest;
         ++slot)
      dots[i] = std::fmax(dots[i], column[place(slot)]);
  }
  return dots;
}

}  // namespace gpuwarden::view
