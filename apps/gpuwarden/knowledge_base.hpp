// SPDX-License-Identifier: Apache-2.0
// The knowledge base a command judges by: what is built in, with the files of the machine and of the user over it.
#pragma once

#include "command.hpp"
#include "gpuwarden/doctor/purpose.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::cli {

/// Lays over what is built in, in this order: every *.yaml in /etc/gpuwarden/knowledge and in
/// $XDG_CONFIG_HOME/gpuwarden/knowledge (instead of both, the folders of GPUWARDEN_KNOWLEDGE_PATH, with colons
/// between), and the files of --knowledge.
Result<knowledge::Knowledge> open_knowledge(const Context& context);

/// Reads --for. What a rule of the site calls a workload is a purpose, even where nothing else knows it.
Result<doctor::Purpose> read_purpose(const std::string& text, const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::cli
