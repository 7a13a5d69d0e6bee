// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpuwarden/telemetry/expression.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden;
  const auto expression = telemetry::Expression::parse({reinterpret_cast<const char*>(data), size});
  if (!expression) {
    if (expression.error().message.empty()) std::abort();
    return 0;
  }
  facts::GpuRecord record;
  record.sample.temperature = Celsius(80);
  record.sample.throttle_reasons = {facts::ThrottleReason::sw_power_cap};
  record.processes = {facts::GpuProcess{.pid = Pid(7), .user = "ann"}};
  const facts::GpuEvent xid{.kind = facts::GpuEventKind::xid, .data = 79};
  const facts::GpuSample before;
  const telemetry::Subject subject{.gpu = &record, .events = {&xid, 1}, .host = "node", .before = &before};
  static_cast<void>(expression->holds({}));
  static_cast<void>(expression->holds(subject));
  // What was read once is read again, and means the same.
  const auto again = telemetry::Expression::parse(expression->text());
  if (!again || again->holds(subject) != expression->holds(subject)) std::abort();
  return 0;
}
