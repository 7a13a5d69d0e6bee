// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpuwarden/placement/job_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuwarden::placement;
  const auto config =
      parse_job_config({reinterpret_cast<const char*>(data), size}, "fuzz", {{"min-memory"}, {"log-dir"}});
  if (!config && config.error().message.empty()) std::abort();
  if (config) static_cast<void>(job_environment(*config).size() + request_from(*config).gpu_ids.size());
  return 0;
}
