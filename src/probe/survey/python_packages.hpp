// SPDX-License-Identifier: Apache-2.0
// What pip and conda wrote down when they installed.
#pragma once

#include <string>

#include "gpuwarden/facts/environment.hpp"
#include "probe/survey/tree.hpp"

namespace gpuwarden::probe {

/// Adds the packages that matter of a site-packages folder (NAME-VERSION.dist-info), those found before go first; and
/// what PyTorch's build wrote into its version.py and its library.
void read_site(const Tree& tree, const std::string& site, facts::PythonEnvironment& python);

/// Adds those of conda-meta/NAME-VERSION-BUILD.json. conda's own PyTorch is called "pytorch"; its build tells CUDA.
void read_conda(const Tree& tree, const std::string& prefix, facts::PythonEnvironment& python);

}  // namespace gpuwarden::probe
