// SPDX-License-Identifier: Apache-2.0
// What a configuration's `selection:`, or a command line, says about GPUs, as a Request. Pure.
//
//     auto config = placement::parse_job_config(text, "job.yaml", known);
//     placement::Request request = placement::request_from(*config);
//     if (auto done = placement::apply_selection(config->selection, request); !done) return done.error();
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/named_values.hpp"
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

/// Sets how many: of "num-gpus", or of a range of "nproc-per-node" (2:4), which has a GPU for each rank; the least of a
/// range, of which request.count is the most, else nothing. Fails with invalid_argument on two ranges that differ, and
/// on a range beside GPUs that are named or a model.
Result<std::optional<std::uint32_t>> apply_count(const NamedValues& values, Request& request);

}  // namespace gpuwarden::placement
