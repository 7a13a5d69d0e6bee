// SPDX-License-Identifier: Apache-2.0
#include "support/source_folder.hpp"

namespace gpuwarden::testing {

std::filesystem::path source_folder() { return GPUWARDEN_SOURCE_FOLDER; }

}  // namespace gpuwarden::testing
