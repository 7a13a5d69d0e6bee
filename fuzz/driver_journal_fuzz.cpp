// SPDX-License-Identifier: Apache-2.0
// The journal of driver runs, in whatever state a disk gives it back.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "driver/journal.hpp"
#include "gpuwarden/driver/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden::driver;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (whole_part(text) > size) std::abort();
  const auto runs = replay(text);
  if (!runs) return runs.error().message.empty() ? (std::abort(), 0) : 0;
  for (const DriverRun& run : *runs) {
    if (run.steps.size() != run.plan.steps.size() || run.plan.id.empty()) std::abort();
    static_cast<void>(to_json(run).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return 0;
}
