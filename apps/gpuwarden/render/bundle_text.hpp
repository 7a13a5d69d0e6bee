// SPDX-License-Identifier: Apache-2.0
// A bundle's contents for people.
#pragma once

#include <string>

#include "gpuwarden/bundle/bundle.hpp"

namespace gpuwarden::cli {

/// What is inside, what was taken out, what is not there and why.
std::string bundle_text(const bundle::Manifest& manifest, const std::string& file);

}  // namespace gpuwarden::cli
