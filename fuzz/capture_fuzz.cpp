// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpuwarden/capture/capture.hpp"
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
  return 0;
}
