// SPDX-License-Identifier: Apache-2.0
// What a command is about, by the programs, packages, files and variables that it names.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden::knowledge {

/// The words between bars: whether the text has one of them. A word is no part of another one; what goes on with a dash
/// ("nvidia-driver-580") is that word. "word*": whatever begins so.
bool has_one_of(std::string_view text, std::string_view words);

/// Whether it begins as a command does, even where a remark follows ("cat FILE: must be 3").
bool begins_with_program(std::string_view step);

/// The kind of step that a command is; empty for those that need nothing that a platform lacks, or
/// only what is_of_linux() and is_of_nvidia() tell.
std::string_view kind_of_command(std::string_view command);
/// Whether it asks for what Windows has not.
bool is_of_linux(std::string_view command);
/// Whether it runs a program of Linux's by a name that is a word of sentences, too ("ls", "cat").
bool runs_word_of_linux(std::string_view command);
/// Whether it asks for what only an NVIDIA GPU, its driver or CUDA has.
bool is_of_nvidia(std::string_view command);
/// Whether it is made for a Mac's own GPU.
bool is_of_mac(std::string_view command);

}  // namespace gpuwarden::knowledge
