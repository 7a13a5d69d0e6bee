// SPDX-License-Identifier: Apache-2.0
// Makes a CUDA toolkit the one that a shell uses, and takes that back. What was there before is kept in variables
// GPUWARDEN_ENV_*, so that any later call in the same shell can restore it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpuwarden/facts/environment.hpp"
#include "gpuwarden/toolkits/shell.hpp"

namespace gpuwarden::toolkits {

/// The folders that PATH and LD_LIBRARY_PATH get for a toolkit; none where the system has them on its own list
/// (/usr/bin, a toolkit of the distribution).
struct ToolkitFolders {
  std::string home;
  std::vector<std::string> programs;
  std::vector<std::string> libraries;
};
ToolkitFolders folders_of(const facts::Toolkit& toolkit);

/// Takes back what an earlier activate() had set. What the user has changed since stays: folders that were added to a
/// list are kept, a variable with another value is left alone. Empty where nothing was set.
std::vector<Change> deactivate(const Environment& variables);

/// Sets CUDA_HOME, CUDA_PATH, PATH and LD_LIBRARY_PATH for `toolkit`, its folders first and none twice, starting from
/// what was before an earlier activate(). `installed` are all toolkits: where the chosen one has no folder of its own
/// for programs, those of the others leave PATH and LD_LIBRARY_PATH.
std::vector<Change> activate(const facts::Toolkit& toolkit, std::span<const facts::Toolkit> installed,
                             const Environment& variables);

/// The root of the toolkit that an earlier activate() chose; empty: none.
std::string activated(const Environment& variables);

}  // namespace gpuwarden::toolkits
