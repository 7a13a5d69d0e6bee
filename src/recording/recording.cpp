// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/recording.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/recording/watch.hpp"

namespace gpuwarden::recording {
namespace {

using std::chrono::milliseconds;
using telemetry::Happening;
using telemetry::Point;
using telemetry::Window;

constexpr auto kFigures = std::to_array<Figure>({
    {"utilization", "utilization_percent", "GPU utilization", "%", true},
    {"memory_used", "memory_used_bytes", "Memory used", "B", true},
    {"power", "power_watts", "Power", "W", true},
    {"temperature", "temperature_celsius", "Temperature", "°C", true},
    {"clock_sm", "clock_sm_megahertz", "SM clock", "MHz", true},
    {"memory_utilization", "memory_utilization_percent", "Memory traffic", "%"},
    {"memory_temperature", "memory_temperature_celsius", "Memory temperature", "°C"},
    {"clock_memory", "clock_memory_megahertz", "Memory clock", "MHz"},
});

constexpr auto kTracked = std::to_array<std::string_view>({"utilization", "memory_used", "power", "temperature",
                                                           "clock_sm", "memory_utilization", "memory_temperature",
                                                           "clock_memory", "memory_total", "power_limit", "energy"});

/// More than a month of readings in which something happened.
constexpr std::size_t kMostHappenings = 100'000;

milliseconds between(telemetry::WallTime from, telemetry::WallTime to) {
  return std::chrono::duration_cast<milliseconds>(to - from);
}

/// What the happenings of kind "throttle" tell of one GPU up to the window's end.
ThrottleTimes throttling_of(const Uuid& gpu, const std::vector<Happening>& happenings, const Window& window) {
  ThrottleMeter meter;
  for (const Happening& happening : happenings) {
    if (happening.gpu == gpu && happening.kind == kThrottleKind)
      meter.add(happening.time, throttle_reasons_from_text(happening.text));
  }
  meter.add(window.to, std::nullopt);
  return meter.times();
}

/// Readings as they came, up to some hours of one a second; of more, steps: a day of eight GPUs is some 70 MB then.
milliseconds step_for(const Window& window, milliseconds interval) {
  constexpr milliseconds::rep kMostSteps = 20'000;
  const milliseconds length = between(window.from, window.to);
  if (interval > milliseconds(0) && length / interval <= kMostSteps) return milliseconds(0);
  if (length <= std::chrono::seconds(kMostSteps)) return milliseconds(0);
  return std::chrono::ceil<std::chrono::seconds>(length / kMostSteps);
}

Result<GpuHistory> read_gpu(const telemetry::Store& store, const telemetry::KnownGpu& gpu, const Window& window,
                            milliseconds step) {
  GpuHistory history{.gpu = gpu, .series = {}, .throttling = {}};
  for (const std::string_view metric : kTracked) {
    auto series = store.series(gpu.uuid, metric, window, step);
    if (!series && series.error().code == ErrorCode::not_found) continue;
    if (!series) return std::unexpected(std::move(series).error());
    if (!series->points.empty()) history.series.emplace(metric, std::move(*series));
  }
  return history;
}

/// As much of `within` as there are readings of.
Result<Window> window_of(const telemetry::Store& store, const std::optional<Window>& within) {
  GPUWARDEN_TRY(const auto covers, store.covers());
  if (!covers) return fail(ErrorCode::not_found, "there is no reading in it", "it was ended before a GPU answered");
  Window window = *covers;
  if (!within) return window;
  window = {std::max(window.from, within->from), std::min(window.to, within->to)};
  if (window.from >= window.to)
    return fail(ErrorCode::not_found, "there is no reading between --from and --to",
                "without them the whole recording is summed up");
  return window;
}

}  // namespace

void join_nameless(Recording& recording) {
  for (std::size_t i = 0; i < recording.gpus.size();) {
    const Uuid nameless = recording.gpus[i].gpu.uuid;
    const GpuIndex index = recording.gpus[i].gpu.index;
    const auto same = std::ranges::find_if(recording.gpus, [&](const GpuHistory& other) {
      return other.gpu.index == index && other.gpu.uuid != nameless;
    });
    // What it told without a name stays apart: two stretches of one metric cannot be put together here.
    const bool joins =
        nameless == place_name(index) && recording.gpus[i].series.empty() && same != recording.gpus.end();
    if (!joins) {
      ++i;
      continue;
    }
    const Uuid name = same->gpu.uuid;
    for (Happening& one : recording.happenings) {
      if (one.gpu == nameless) one.gpu = name;
    }
    recording.gpus.erase(recording.gpus.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::span<const Figure> figures() { return kFigures; }
std::span<const std::string_view> tracked_metrics() { return kTracked; }

const telemetry::Series* GpuHistory::find(std::string_view metric) const {
  const auto found = series.find(metric);
  return found == series.end() || found->second.points.empty() ? nullptr : &found->second;
}

milliseconds usual_step(const std::vector<Point>& points) {
  std::vector<milliseconds> steps;
  for (std::size_t i = 1; i < points.size(); ++i) steps.push_back(between(points[i - 1].time, points[i].time));
  if (steps.empty()) return {};
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle);
  return *middle;
}

void for_each_stretch(const telemetry::Series& series, const std::function<void(const Point&, milliseconds)>& visit) {
  const auto& points = series.points;
  milliseconds step = std::max(series.step, usual_step(points));
  if (step == milliseconds(0)) step = std::chrono::seconds(1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool last = i + 1 == points.size();
    const milliseconds until = last ? step : between(points[i].time, points[i + 1].time);
    visit(points[i], until <= 3 * step ? std::max(until, milliseconds(0)) : step);
  }
}

Result<Recording> read_recording(const telemetry::Store& store, const std::optional<Window>& within) {
  Recording recording;
  GPUWARDEN_TRY(recording.info, store.info());
  GPUWARDEN_TRY(recording.window, window_of(store, within));
  GPUWARDEN_TRY(recording.uses, store.uses(recording.window));
  // What held before the window began still tells how it began.
  const Window since_ever{telemetry::WallTime{}, recording.window.to};
  GPUWARDEN_TRY(recording.happenings, store.happenings(since_ever, kMostHappenings));
  std::ranges::stable_sort(recording.happenings, {}, &Happening::time);
  GPUWARDEN_TRY(const auto gpus, store.gpus());
  const milliseconds step = step_for(recording.window, recording.info.interval);
  // The store's end is behind the last reading; people mean the reading.
  const Window readings{recording.window.from, recording.window.to - milliseconds(1)};
  for (const telemetry::KnownGpu& gpu : gpus) {
    GPUWARDEN_TRY(auto history, read_gpu(store, gpu, recording.window, step));
    history.throttling = throttling_of(gpu.uuid, recording.happenings, readings);
    recording.gpus.push_back(std::move(history));
  }
  std::ranges::stable_sort(recording.gpus, {}, [](const GpuHistory& gpu) { return gpu.gpu.index; });
  recording.held = std::ranges::find(recording.happenings, kHeldKind, &Happening::kind) != recording.happenings.end();
  recording.window = readings;
  std::erase_if(recording.happenings, [&](const Happening& one) { return one.time < recording.window.from; });
  join_nameless(recording);
  return recording;
}

}  // namespace gpuwarden::recording
