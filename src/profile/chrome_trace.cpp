// SPDX-License-Identifier: Apache-2.0
// The format: "Trace Event Format" (Google, the document that chrome://tracing and Perfetto name). ts and dur are
// microseconds.
#include <fmt/format.h>

#include <iterator>
#include <set>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "profile/foreign_trace.hpp"
#include "profile/rows.hpp"
#include "profile/units.hpp"

namespace gpuwarden::profile {
namespace {

using Json = nlohmann::json;

// Numbers of processes and threads that Linux never gives (PID_MAX_LIMIT is 2^22), for rows of our own.
constexpr std::int64_t kBeyondProcesses = std::int64_t{1} << 22U;
constexpr std::int64_t kGpuProcess = 2 * kBeyondProcesses;

std::string json_string(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Writes events one after another into the list of a trace.
class Writer {
 public:
  Writer(const Trace& trace, bool beside_others)
      : trace_(trace), process_(trace.process + (beside_others ? kBeyondProcesses : 0)) {}

  void name_process(std::int64_t process, std::string_view name) {
    put(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})", process,
                    json_string(name)));
  }

  void scopes() {
    name_process(process_, fmt::format("gpuwarden: operations of process {}", trace_.process));
    std::set<std::pair<std::int64_t, unsigned>> named;
    for (const auto& placed : place_in_rows(trace_.events)) {
      const std::int64_t row = placed.event->thread + placed.row * kBeyondProcesses;
      if (named.emplace(placed.event->thread, placed.row).second) name_row(row, *placed.event, placed.row);
      scope(*placed.event, row);
    }
  }

  void readings() {
    std::set<std::int64_t> named;
    for (const auto& reading : trace_.readings) {
      const std::int64_t process = kGpuProcess + reading.gpu.value;
      if (named.insert(process).second) name_process(process, fmt::format("gpuwarden: GPU {}", reading.gpu.value));
      counter(process, reading, "utilization (%)", reading.utilization, 1);
      counter(process, reading, "memory used (MiB)", reading.memory_used, 1024.0 * 1024);
      counter(process, reading, "power (W)", reading.power, 1000);
    }
  }

  void foreign(const Json& events) {
    for (const auto& event : events) put(event.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::string finish() {
    return fmt::format(
        "{{\"traceEvents\":[{}\n],\"displayTimeUnit\":\"ms\",\"otherData\":{{\"producer\":\"gpuwarden\","
        "\"began\":{},\"dropped_events\":{}}}}}\n",
        list_, json_string(format_utc(trace_.wall_origin)), trace_.dropped);
  }

 private:
  void put(std::string_view event) {
    list_ += list_.empty() ? "\n" : ",\n";
    list_ += event;
  }
  double at(Clock::SteadyTime time) const { return microseconds(time - trace_.steady_origin); }

  void name_row(std::int64_t row, const Event& event, unsigned number) {
    const std::string name = fmt::format("{} {}{}", event.thread == trace_.process ? "main thread" : "thread",
                                         event.thread, number > 0 ? " (overlapping)" : "");
    put(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", process_, row,
                    json_string(name)));
  }

  void scope(const Event& event, std::int64_t row) {
    const std::string device =
        event.device ? fmt::format(R"(,"device_us":{:.3f})", microseconds(*event.device)) : std::string();
    put(fmt::format(
        R"({{"ph":"X","cat":"gpuwarden","name":{},"ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},"args":{{"depth":{}{}}}}})",
        json_string(event.name), at(event.start), microseconds(event.wall), process_, row, event.depth, device));
  }

  template <class T>
  void counter(std::int64_t process, const GpuReading& reading, std::string_view name, const std::optional<T>& value,
               double divisor) {
    if (!value) return;
    put(fmt::format(R"({{"ph":"C","name":{},"ts":{:.3f},"pid":{},"tid":0,"args":{{"value":{}}}}})", json_string(name),
                    at(reading.when), process, static_cast<double>(value->value) / divisor));
  }

  const Trace& trace_;
  std::int64_t process_;
  std::string list_;
};

}  // namespace

Result<std::string> chrome_trace(const Trace& trace, std::string_view foreign) {
  Writer writer(trace, !foreign.empty());
  writer.scopes();
  writer.readings();
  if (!foreign.empty()) {
    GPUWARDEN_TRY(const Json events, foreign_events(foreign, trace));
    writer.foreign(events);
  }
  return writer.finish();
}

}  // namespace gpuwarden::profile
