// SPDX-License-Identifier: Apache-2.0
// What a configuration's `selection:`, or a command line, says about GPUs, as a Request. Pure.
//
//     auto config = placement::parse_job_config(text, "job.yaml", known);
//     placement::Request request = placement::request_from(*config);
//     if (auto done = placement::apply_selection(config->selection, request); !done) return done.error();
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::placement {

/// Values by the options' long names without dashes, as JobConfig::selection has them; a flag has none, or "true" or
/// "false".
using SelectionOptions = std::map<std::string, std::vector<std::string>>;

/// Sets what these say: gpu-ids, num-gpus, all, min-memory, min-free-memory, max-utilization, min-compute-capability,
/// name, mig, mig-profile, prefer, exclude, share, allow-busy, device. The rest of the request stays as it is, and
/// other names (a model's) are passed over. "cuda:1" of `device` is GPU 1 where nothing else says which GPUs. Fails
/// with invalid_argument, "NAME: what".
Result<void> apply_selection(const SelectionOptions& options, Request& request);

}  // namespace gpuwarden::placement
