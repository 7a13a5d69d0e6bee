// SPDX-License-Identifier: Apache-2.0
// Options of other programs on a command line that somebody pasted.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden {

/// An option that is none of the reader's: what to write in its place, or why it need not be said at all.
struct ForeignOption {
  enum class Kind {
    refused,
    refused_value,   ///< known, but not with every value: this one is none that the reader has words for
    needless,        ///< taken and told to be needless; no value stands behind it
    needless_value,  ///< the same, with a value
    left_out,        ///< taken and told to be left out; no value stands behind it
    left_out_value,  ///< the same, with a value
  };
  const char* typed;
  const char* hint;
  Kind kind = Kind::refused;
};

/// "--name" and "-n", but not "-" (standard input) and "-1" (a number).
bool looks_like_option(std::string_view word);
/// A name as tables have it, with '-' for '_': torchrun's "--nproc_per_node", too.
std::string hyphenated(std::string_view name);

/// The row that was typed so, with '_' or '-'; nullptr: none.
const ForeignOption* find_foreign_option(std::span<const ForeignOption> table, std::string_view typed);
/// Whether such a row is read past; false: it is refused, or there is none.
bool is_taken(const ForeignOption* option);
/// Whether a needless option's value is `next`, the word behind it ("--threads 8", transformers' "--bf16 True",
/// llama.cpp's "-fa on"); nullptr: none follows that could be one. `attached`: it stands behind '=' already. Fails with
/// invalid_argument where a value is missing.
Result<bool> takes_next_word(const ForeignOption& option, bool attached, const std::string* next);

/// Why what was typed is not taken: there is no such option, or its value (nullptr: none) is not one that is planned.
/// `option`: its row; nullptr: none.
Error refusal_of(const ForeignOption* option, std::string_view typed, const std::string* value);

/// Options that were taken though they mean nothing here, as sentences: those with one reason together.
std::vector<std::string> taken_sentences(const std::vector<const ForeignOption*>& options);

}  // namespace gpuwarden
