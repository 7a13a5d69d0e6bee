// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gpuwarden/telemetry/alert_rules.hpp"
#include "gpuwarden/telemetry/alerts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = telemetry::parse_alert_rules(text, "fuzz");
  if (!config && config.error().message.empty()) std::abort();
  telemetry::AlertBook book(config ? config->rules : std::vector<telemetry::AlertRule>());
  // The same text as a state file: what is taken can be written and read back.
  const auto state = nlohmann::json::parse(text, nullptr, false);
  if (!state.is_discarded() && book.restore(state)) {
    telemetry::AlertBook next({});
    if (!next.restore(book.state())) std::abort();
  }
  telemetry::Reading reading;
  reading.snapshot.gpus.resize(1);
  reading.snapshot.gpus[0].sample.temperature = Celsius(200);
  static_cast<void>(book.judge(reading));
  reading.snapshot.taken_at += std::chrono::hours(1);
  static_cast<void>(book.judge(reading));
  return 0;
}
