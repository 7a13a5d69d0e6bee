// SPDX-License-Identifier: Apache-2.0
// Environment variables that fit a machine: values taken from its facts, each with its reason.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/toolkits/shell.hpp"

namespace gpuwarden::toolkits {

struct Suggestion {
  std::string name;  ///< empty: advice without a variable
  std::string value;
  std::string why;
};

/// For "nccl", "vllm" or "pytorch". Only what the facts give a reason for; a default that is right is left alone. Fails
/// with invalid_argument for any other software.
Result<std::vector<Suggestion>> suggest(std::string_view software, const facts::Snapshot& snapshot);

/// The suggestions as commands of a shell, each below its reason as a comment.
std::string script_of(Shell shell, const std::vector<Suggestion>& suggestions);

}  // namespace gpuwarden::toolkits
