// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/metrics.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto capture = gpuwarden::capture::read_capture({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!capture) return capture.error().message.empty() ? std::abort(), 0 : 0;
  if (capture->parts.empty()) std::abort();
  for (const auto& record : capture->snapshot.gpus) {
    for (const auto& metric : gpuwarden::facts::metrics()) {
      const auto value = value_of(metric, record.sample);
      if (value && (*value < metric.range.low || *value > metric.range.high)) std::abort();
    }
  }
  // Whatever was read is text that JSON can hold, and comes back as it was.
  const auto json = gpuwarden::facts::to_json(capture->snapshot);
  const auto again = gpuwarden::facts::snapshot_from_json(nlohmann::json::parse(json.dump()));
  if (!again || again->environment != capture->snapshot.environment) std::abort();
  return 0;
}
