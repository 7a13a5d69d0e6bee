// SPDX-License-Identifier: Apache-2.0
// SHA-256 as FIPS 180-4 defines it (section 6.2): tells whether a file is the one that was written.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden {

/// The digest of all bytes, as 64 hexadecimal digits in lower case.
std::string sha256_hex(std::string_view bytes);

}  // namespace gpuwarden
