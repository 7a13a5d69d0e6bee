// SPDX-License-Identifier: Apache-2.0
// doctor --deep: which GPUs are tested, with what, and how the figures are shown.
#pragma once

#include <array>

#include "gpuwarden/facts/deep.hpp"
#include "machine.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

inline constexpr auto kDeepOptions = std::to_array<Option>({
    {"--deep", OptionKind::flag, "", "put the GPUs to work: test memory, links, bandwidth and arithmetic"},
    {"--deep-seconds", OptionKind::text, "N", "with --deep: how long each GPU may take (30)"},
    {"--deep-memory", OptionKind::text, "PERCENT", "with --deep: how much of the free memory is tested (90)"},
    {"--gpus", OptionKind::list, "ID...", "with --deep: only these GPUs"},
    {"--force", OptionKind::flag, "", "with --deep: test GPUs that others use, too"},
});

/// Runs the tests where --deep asks for them; empty where it does not. A machine that is not this one is told in
/// DeepRun::not_possible. Fails with invalid_argument for options that are wrong.
Result<std::optional<facts::DeepRun>> run_deep(const Context& context, const Machine& machine,
                                               const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge);

/// What each GPU showed, beside what is published.
std::string deep_text(const facts::DeepRun& run, const Style& style);

}  // namespace gpuwarden::cli
