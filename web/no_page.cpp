// SPDX-License-Identifier: Apache-2.0
// For builds that have nothing to make the page with.
#include "gpuwarden/serve/page.hpp"

namespace gpuwarden::serve {

std::span<const PageFile> page_files() { return {}; }

}  // namespace gpuwarden::serve
