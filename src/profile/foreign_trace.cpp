// SPDX-License-Identifier: Apache-2.0
#include "profile/foreign_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "profile/units.hpp"

namespace gpuwarden::profile {
namespace {

using Json = nlohmann::json;

/// Microseconds since 1970 at the beginning of 2001: no trace is older.
constexpr double kThisCentury = 978'307'200e6;

std::unexpected<Error> no_trace(std::string_view why) {
  return fail(ErrorCode::corrupt, fmt::format("the trace to join is no Chrome trace: {}", why),
              "take what torch.profiler's export_chrome_trace() writes, unpacked");
}

bool is_timed(const Json& event) { return event.is_object() && event.contains("ts") && event["ts"].is_number(); }

/// What is added to each "ts".
double shift_of(const Json& document, const Json& events, const Trace& trace) {
  const double origin = microseconds(trace.wall_origin.time_since_epoch());
  if (document.is_object() && document.contains("baseTimeNanoseconds") && document["baseTimeNanoseconds"].is_number())
    return document["baseTimeNanoseconds"].get<double>() / 1e3 - origin;
  double first = 0;
  bool found = false;
  for (const auto& event : events) {
    if (!is_timed(event)) continue;
    const auto ts = event["ts"].get<double>();
    first = found ? std::min(first, ts) : ts;
    found = true;
  }
  if (first >= kThisCentury) return -origin;
  const auto begun = std::ranges::min_element(trace.events, {}, &Event::start);
  return begun == trace.events.end() ? 0 : microseconds(begun->start - trace.steady_origin) - first;
}

}  // namespace

Result<Json> foreign_events(std::string_view text, const Trace& trace) {
  if (text.size() > kLargestForeignTrace)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("the trace to join has {} MiB, more than {}", text.size() >> 20U, kLargestForeignTrace >> 20U),
        "profile fewer steps (torch.profiler.schedule), or without stacks and shapes");
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return no_trace("it is not JSON");
  if (document.is_object() && !document.contains("traceEvents")) return no_trace("it has no traceEvents");
  Json events = document.is_object() ? std::move(document["traceEvents"]) : document;
  if (!events.is_array()) return no_trace("its events are not a list");
  const double shift = shift_of(document, events, trace);
  for (auto& event : events) {
    if (is_timed(event)) event["ts"] = event["ts"].get<double>() + shift;
  }
  return events;
}

}  // namespace gpuwarden::profile
