// SPDX-License-Identifier: Apache-2.0
// Sentences in which GPU software says what is wrong with the machine, quoted in a report.
#pragma once

#include <span>

#include "capture/lines.hpp"
#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::capture {

/// Adds what the lines say to `environment`: the messages, each kind and value once, and what they tell beside
/// (PyTorch's list of architectures).
void read_messages(std::span<const Line> lines, facts::Environment& environment);

}  // namespace gpuwarden::capture
