// SPDX-License-Identifier: Apache-2.0
// Python's keyword arguments as the library's values by name: max_restarts=3 is what --max-restarts 3 is.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/value_names.hpp"
#include "gpuwarden/machine/reservation.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::python {

/// What was asked with keyword arguments of {"count": 2, "min_memory": "40GiB", "task": "lora", ...}.
class Arguments {
 public:
  /// Of these names, and of those about a model and its task, with '_' for '-'; numbers of bytes and seconds are texts
  /// with a unit from here on. Fails with invalid_argument, naming the key, for a value of another type and a key that
  /// is none.
  static Result<Arguments> read(const nlohmann::json& options, const std::vector<std::span<const ValueName>>& names);

  const NamedValues& values() const { return values_; }
  /// The GPUs that they ask for, as jobs::gpus_from() and manager::read_work() read them.
  Result<machine::ReservationRequest> gpus() const;
  /// The result; an error names the arguments as they were given.
  template <class T>
  Result<T> told(Result<T> result) const {
    if (!result) return std::unexpected(told(std::move(result.error())));
    return result;
  }
  Error told(Error error) const;

 private:
  Result<void> take(const std::string& key, const nlohmann::json& value,
                    const std::vector<std::span<const ValueName>>& names);

  NamedValues values_{"--"};
  planning::Words model_{"--"};
  std::map<std::string, std::string> keys_;  ///< by name: what it was called
};

/// A message about "--micro-batch" as one about the argument `micro_batch`; `keys` are called otherwise. Names that no
/// argument has stay.
std::string with_arguments(std::string_view text, const std::map<std::string, std::string>& keys = {});

/// A size as sizes are taken everywhere: a whole number of bytes, or a text with a unit. Fails with invalid_argument,
/// naming the key.
Result<Bytes> size_argument(const std::string& key, const nlohmann::json& value);

/// A key's value as words: numbers and texts as they are written, lists one by one.
std::vector<std::string> words_of(const nlohmann::json& value);
/// All keys that are set as words about a model; false and null count as not set.
planning::Words workload_words(const nlohmann::json& options);

}  // namespace gpuwarden::python
