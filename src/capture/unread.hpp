// SPDX-License-Identifier: Apache-2.0
// What can be said of a text in which no reader found anything of its own.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden::capture {

/// A clause: "it is empty", "it begins as nvidia-smi's XML, which ends before the first value", "it is binary (ELF
/// program)", "it is JSON, but of another tool", "3 lines of text, none of it output of ...".
std::string describe_unread(std::string_view text);

}  // namespace gpuwarden::capture
