// SPDX-License-Identifier: Apache-2.0
// Packed logs, unpacked in memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::logs {

struct Unpacked {
  std::string name;  ///< in its archive; empty where a single file was packed
  std::string bytes;
};

struct Unpacking {
  std::vector<Unpacked> files;
  std::optional<Error> problem;  ///< why there is nothing, or not all; what came before it is there
};

/// A packed file, or the plain files of a tar archive. Nothing where they are more than 64 MiB in all.
Unpacking unpack(std::string_view bytes, const std::string& name);

/// Of packed bytes what they hold, which must be one file; others as they are. Fails with corrupt, and with
/// invalid_argument where they hold several files or more than unpack() takes.
Result<std::string> unpack_one(std::string bytes, const std::string& name);

}  // namespace gpuwarden::logs
