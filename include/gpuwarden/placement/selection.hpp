// SPDX-License-Identifier: Apache-2.0
// What people say about GPUs, on a command line, in a configuration's `selection:` or as arguments of a function, as a
// Request. Pure.
//
//     NamedValues values;
//     values.set("min-memory", {"40GiB"});
//     placement::Request request;
//     if (auto done = placement::apply_selection(values, request); !done) return done.error();
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/value_names.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::placement {

/// The names that apply_selection() knows: gpu-ids, num-gpus, all, min-memory ...
std::span<const ValueName> selection_names();

/// Sets what these say. A flag has no value, or "true" or "false". The rest of the request stays as it is, and other
/// names (a model's) are passed over. Of a range of "num-gpus" the most is set: who takes fewer has to look at it.
/// "cuda:1" of "device" is GPU 1 where nothing else says which GPUs. Fails with invalid_argument, naming the value.
Result<void> apply_selection(const NamedValues& values, Request& request);

/// Sets how many: of "num-gpus", or of a range of "nproc-per-node" (2:4), which has a GPU for each rank; the least of a
/// range, of which request.count is the most, else nothing. Fails with invalid_argument on two ranges that differ, and
/// on a range beside GPUs that are named or a model.
Result<std::optional<std::uint32_t>> apply_count(const NamedValues& values, Request& request);

}  // namespace gpuwarden::placement
