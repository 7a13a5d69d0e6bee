// SPDX-License-Identifier: Apache-2.0
// The knowledge base that is judged by: what is built in, with the files of the machine and of the user over it.
#pragma once

#include <filesystem>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::knowledge {

/// The overlays that an environment leads to, lowest first: every *.yaml in /etc/gpuwarden/knowledge and in
/// $XDG_CONFIG_HOME/gpuwarden/knowledge (~/.config where that is not set); instead of both, of the folders of
/// GPUWARDEN_KNOWLEDGE_PATH, with colons between.
std::vector<std::filesystem::path> overlay_files(const Environment& environment);

/// What is built in, with each file laid over it in turn. Fails where one cannot be read, or with corrupt or
/// invalid_argument where it is wrong, naming it.
Result<Knowledge> read_knowledge(const std::vector<std::filesystem::path>& overlays);

}  // namespace gpuwarden::knowledge
