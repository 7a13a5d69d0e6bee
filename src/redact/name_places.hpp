// SPDX-License-Identifier: Apache-2.0
// Where in a text names of people and machines stand, and which of them tell something.
#pragma once

#include <array>
#include <string_view>

namespace gpuwarden::redact {

inline constexpr std::array<std::string_view, 4> kHomeFolders{"/home/", "/Users/", "/users/", "\\Users\\"};

/// A name that may be replaced wherever it stands as a word.
bool is_telling(std::string_view name);
/// An address, or a number: no name.
bool is_dotted_number(std::string_view name);
/// The name that begins at `at`, and the one that ends there.
std::string_view name_at(std::string_view text, std::size_t at);
std::string_view name_before(std::string_view text, std::size_t at);
/// The serial number that a line tells ("Serial Number : 132...", "<serial>132...</serial>"), or an empty one.
std::string_view serial_in(std::string_view line);
/// "Nov 20 10:00:00 node7 kernel: ..." and "Linux node7 6.1.0-18-amd64 #1 SMP": the machine's name.
std::string_view host_in(std::string_view line);

}  // namespace gpuwarden::redact
