// SPDX-License-Identifier: Apache-2.0
// Text for HTML and XML.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden {

/// `text` with '&', '<', '>' and '"' as entities.
std::string markup_text(std::string_view text);

}  // namespace gpuwarden
