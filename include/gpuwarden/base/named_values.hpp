// SPDX-License-Identifier: Apache-2.0
// Values by name, as people give them: options of a command line, the `run:` of a configuration, arguments of a
// function.
//
//     NamedValues values("--");
//     values.set("max-restarts", {"3"});
//     const auto restarts = count_option(values, "max-restarts", 1000);   // 3
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/typed_values.hpp"

namespace gpuwarden {

/// What was given; names have dashes ("max-restarts").
class NamedValues {
 public:
  /// `prefix` stands before names in messages: "--" for a command line.
  explicit NamedValues(std::string prefix = "") : prefix_(std::move(prefix)) {}

  bool has(const std::string& name) const { return values_.contains(name); }
  /// The value; empty for a flag, or an optional value that was left out.
  std::optional<std::string> text(const std::string& name) const;
  /// Values of a list, split at commas.
  std::vector<std::string> list(const std::string& name) const;
  /// All values, as they are.
  std::vector<std::string> all(const std::string& name) const;

  void set(const std::string& name, std::vector<std::string> values) {
    values_[name] = std::move(values);
    sources_.erase(name);
  }
  /// Sets what is not set yet: how the environment and files stand behind the command line.
  void fall_back(const std::string& name, const std::vector<std::string>& values) { values_.try_emplace(name, values); }
  /// The values of `other` for whatever is not set yet.
  void fall_back_to(const NamedValues& other);
  void forget(const std::string& name) {
    values_.erase(name);
    sources_.erase(name);
  }
  /// The value of `name` was given by `source` ("PET_NNODES"), which messages about it name; it goes where the value
  /// goes.
  void came_from(const std::string& name, std::string source) { sources_[name] = std::move(source); }

  /// The text with names as whoever gave them writes them; in `text` they stand as on a command line: "--grace".
  std::string spelled(std::string_view text) const;
  /// An invalid_argument; names stand in both texts as spelled() takes them.
  std::unexpected<Error> refuse(std::string_view what, std::string_view hint = {}) const;
  /// What is wrong with a value, as invalid_argument: "--min-memory: 'x' is not a size"; where another source gave it,
  /// that one is named: "PET_NNODES: ...".
  Error about(std::string_view name, const Error& error) const;

 private:
  std::string prefix_;
  std::map<std::string, std::vector<std::string>> values_;
  std::map<std::string, std::string> sources_;  ///< of values that were not given by the name itself
};

/// Single values; nothing where they are not given. Fail with invalid_argument, naming them.
Result<std::optional<std::uint32_t>> count_option(const NamedValues& values, const std::string& name,
                                                  std::uint32_t most);
Result<std::optional<CountRange>> range_option(const NamedValues& values, const std::string& name, std::uint32_t most);
Result<std::optional<Bytes>> size_option(const NamedValues& values, const std::string& name);
/// Nothing also where the value was left out.
Result<std::optional<std::chrono::milliseconds>> duration_option(const NamedValues& values, const std::string& name);
/// By a reader of its own: `read` is called with the text.
template <class Read>
auto read_option(const NamedValues& values, const std::string& name, Read read)
    -> Result<std::optional<typename decltype(read(std::string()))::value_type>> {
  const auto text = values.text(name);
  if (!text) return std::nullopt;
  auto value = read(*text);
  if (!value) return std::unexpected(values.about(name, value.error()));
  return std::move(*value);
}

/// What is wrong with a value that is none of the known ones: "unknown KIND 'x'".
Error unknown_value(std::string_view kind, std::string_view text, std::string_view hint);
/// One of the words that `from` knows: it gives the value of a word, or nothing.
template <class From>
auto choice_option(const NamedValues& values, const std::string& name, From from, std::string_view kind,
                   std::string_view hint) -> Result<decltype(from(std::string_view()))> {
  const auto text = values.text(name);
  if (!text) return std::nullopt;
  auto value = from(*text);
  if (!value) return std::unexpected(values.about(name, unknown_value(kind, *text, hint)));
  return value;
}

/// Two that mean nothing together, and what to do instead.
struct Clash {
  const char* one;
  const char* other;
  const char* hint;
};
/// Fails with invalid_argument for the first two that were both given: told, not left out in silence.
Result<void> check_clashes(const NamedValues& values, std::span<const Clash> clashes);

}  // namespace gpuwarden
