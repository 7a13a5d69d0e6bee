// SPDX-License-Identifier: Apache-2.0
// What frameworks need and whether they run, in words.
#pragma once

#include <string>

#include "render/compat_parts.hpp"

namespace gpuwarden::cli {

std::string text_of(const CompatWording& to, const compat::TorchAnswer& answer);
std::string text_of(const CompatWording& to, const compat::VllmAnswer& answer);
std::string text_of(const CompatWording& to, const compat::ComponentAnswer& answer);

}  // namespace gpuwarden::cli
