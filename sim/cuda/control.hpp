// SPDX-License-Identifier: Apache-2.0
// The control calls of the simulated driver: JSON in, JSON out. Those of sim/core/control.hpp, and for this process:
// cuda_fail {function, code, after, times, sticky}: the function ("*": any) goes well `after` times and then fails
// `times` times (-1: for good), breaking the context where sticky; cuda_clear {}: forgets these failures;
// cuda_latency {factor}; cuda_clock {manual, advance_microseconds}; cuda_work {stream, microseconds}: work of that
// length on a stream of the current context, as a kernel would be; cuda_state {}: what the process holds.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden::cuda::server {

std::string control_driver(std::string_view request);

extern "C" [[gnu::visibility("default")]] int gpuwarden_sim_call(const char* request, char** reply);

}  // namespace gpuwarden::cuda::server
