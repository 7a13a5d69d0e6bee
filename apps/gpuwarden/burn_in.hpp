// SPDX-License-Identifier: Apache-2.0
// doctor --deep and bench gpu: which GPUs are tested, with what, and how the figures are shown.
#pragma once

#include "gpuwarden/burn_in/burn_in.hpp"
#include "gpuwarden/facts/burn_in.hpp"
#include "machine.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// Runs the tests where --deep asks for them; empty where it does not. A machine that is not this one is told in
/// BurnInRun::not_possible. Fails with invalid_argument for options that are wrong.
Result<std::optional<facts::BurnInRun>> run_burn_in(const Context& context, const Machine& machine,
                                                    const facts::Snapshot& snapshot,
                                                    const knowledge::Knowledge& knowledge);

/// CUDA's libraries, --force, and how long each GPU may take (the option `seconds_key`). Fails naming the option.
Result<burn_in::Options> read_burn_in_options(const Context& context, const facts::Snapshot& snapshot,
                                              const std::string& seconds_key);

/// Runs the tests on the GPUs that --gpus names, each for at most `options.deadline`.
Result<facts::BurnInRun> test_gpus(const Context& context, const Machine& machine, const facts::Snapshot& snapshot,
                                   const knowledge::Knowledge& knowledge, burn_in::Options options);

/// What each GPU showed, beside what is published.
std::string burn_in_text(std::string_view title, const facts::BurnInRun& run, const Style& style);

}  // namespace gpuwarden::cli
