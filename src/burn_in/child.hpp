// SPDX-License-Identifier: Apache-2.0
// The burn-in seen from inside the forked child, which alone talks to CUDA. Messages are those of the probe's
// children: {"devices": [...], "cuda": 13000} or {"problem": text, "code": CUDA's, "absent": bool, "steps": [...]} of
// the lister; {"phase": name} before each test, {"moment": name} when load begins, {"gpu": all that is known so far}
// after each test, {"done": true} at last of the tester; of the one that copies between GPUs {"begin": {"from": 0,
// "to": 1}}, {"pair": {"direct": bool, "value": GB/s, "method": text} or {"problem": text}} for each pair, {"done":
// true}.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "gpuwarden/burn_in/burn_in.hpp"

namespace gpuwarden::burn_in {

/// Tells which devices CUDA shows.
void list_devices(int fd, const Options& options);
/// Tests the device of this ordinal.
void test_device(int fd, int ordinal, const Options& options);
/// Copies between each two of these devices, both ways.
void test_pairs(int fd, const std::vector<int>& ordinals, const Options& options);

}  // namespace gpuwarden::burn_in
