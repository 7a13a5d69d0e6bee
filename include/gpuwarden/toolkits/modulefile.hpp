// SPDX-License-Identifier: Apache-2.0
// A toolkit as a module of environment-modules (Tcl) or Lmod (Lua).
#pragma once

#include <string>

#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::toolkits {

enum class ModuleSyntax { tcl, lua };

/// The module's text: sets CUDA_HOME and CUDA_PATH, puts the toolkit's folders first; of several CUDA modules only one
/// can be loaded.
std::string modulefile(const facts::Toolkit& toolkit, ModuleSyntax syntax);

}  // namespace gpuwarden::toolkits
