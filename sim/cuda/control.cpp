// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/control.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/core/control.hpp"
#include "sim/cuda/driver.hpp"

namespace gpuwarden::cuda::server {
namespace {

using Json = nlohmann::json;

Json refuse(std::string_view why) { return {{"error", why}, {"hint", ""}, {"code", "invalid_argument"}}; }

Json plan_failure(const Json& request, Driver& d) {
  PlannedFailure failure;
  failure.function = request.value("function", "*");
  failure.code = request.value("code", kUnknown);
  failure.after = request.value("after", std::int64_t{0});
  failure.times = request.value("times", std::int64_t{1});
  failure.sticky = request.value("sticky", false);
  if (failure.code == kSuccess) return refuse("'code' should be an error");
  d.failures.push_back(failure);
  return Json::object();
}

Json clear_failures(const Json&, Driver& d) {
  d.failures.clear();
  return Json::object();
}

Json set_latency(const Json& request, Driver& d) {
  const double factor = request.value("factor", 1.0);
  if (!(factor >= 0 && factor <= 1000)) return refuse("a latency factor is from 0 to 1000");
  d.latencies.set_factor(factor);
  return Json::object();
}

Json set_clock(const Json& request, Driver& d) {
  if (request.contains("manual")) d.clock.make_manual(request.value("manual", false));
  const double step = request.value("advance_microseconds", 0.0);
  if (!(step >= 0 && step <= 1e12)) return refuse("a clock does not go back");
  d.clock.advance(static_cast<std::int64_t>(step * 1000));
  return {{"now_microseconds", static_cast<double>(d.clock.now()) / 1000}};
}

Json add_work(const Json& request, Driver& d) {
  ContextState* context = nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
  const auto name = reinterpret_cast<Stream>(request.value("stream", std::uintptr_t{0}));
  StreamState* stream = d.stream(name, d.current(), context);
  if (stream == nullptr) return refuse("there is no such stream in the current context");
  context->timeline.enqueue(*stream, d.clock.now(),
                            static_cast<std::int64_t>(request.value("microseconds", 0.0) * 1000));
  return Json::object();
}

Json show_state(const Json&, Driver& d) {
  Json ranges = Json::array();
  for (const auto& [base, range] : d.space.ranges())
    ranges.push_back({{"base", base}, {"size", range.size}, {"device", range.device}});
  return {{"devices", d.devices.size()},
          {"contexts", d.contexts.size()},
          {"streams", d.streams.size()},
          {"events", d.events.size()},
          {"handles", d.handles.size()},
          {"reservations", d.space.reservations().size()},
          {"ranges", ranges},
          {"latency_factor", d.latencies.factor()}};
}

struct Operation {
  std::string_view name;
  Json (*run)(const Json&, Driver&);
};
constexpr std::array<Operation, 6> kOperations{{{"cuda_fail", plan_failure},
                                                {"cuda_clear", clear_failures},
                                                {"cuda_latency", set_latency},
                                                {"cuda_clock", set_clock},
                                                {"cuda_work", add_work},
                                                {"cuda_state", show_state}}};

}  // namespace

std::string control_driver(std::string_view request) try {
  Driver& d = driver();
  const std::scoped_lock lock(d.mutex);
  const Json parsed = Json::parse(request, nullptr, false);
  const std::string op = parsed.is_object() ? parsed.value("op", "") : "";
  const auto* const found = std::ranges::find(kOperations, op, &Operation::name);
  if (found != kOperations.end()) return found->run(parsed, d).dump();
  // A driver that is in use keeps its fleet: contexts and memory belong to it.
  if (d.initialised && (op == "attach" || op == "start" || op == "detach"))
    return refuse("the driver is initialised: its fleet stays").dump();
  if (op != "attach" && op != "start") attach(d);
  const auto before = d.fleet;
  std::string answer = sim::control(request, d.fleet);
  if (d.fleet != nullptr && d.fleet != before) adopt_fleet(d);
  return answer;
} catch (const Json::exception& exception) {
  return refuse(exception.what()).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpuwarden::cuda::server
