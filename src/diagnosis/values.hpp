// SPDX-License-Identifier: Apache-2.0
// Facts from the words of a log: sizes, numbers, names.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/diagnosis/event.hpp"

namespace gpuwarden::diagnosis {

/// "2.00 GiB", "30.55GiB", "512 MB", "0 bytes", "123456" as bytes. The emitters of these messages mean powers of 1024
/// by MB and GB (c10 format_size, XLA HumanReadableNumBytes, llama.cpp).
std::optional<std::int64_t> size_in_log(std::string_view text);

/// Adds what a named group held; what does not fit the key's kind is left out. Lists (xid, sxid, ranks, cuda_code)
/// grow, each number once; other keys keep their first value.
void add_fact(Facts& facts, const std::string& key, std::string_view value);
/// Adds a value written as JSON (of a rule's `set`).
void add_json_fact(Facts& facts, const std::string& key, std::string_view json);
void add_process(Facts& facts, std::int64_t pid, std::int64_t bytes);
/// Adds what `facts` has not yet; lists are united.
void merge_facts(Facts& facts, const Facts& more);

/// "2.0 GiB" of a key that ends in _bytes, "600 s" of one in _ms, "0, 4" of a list.
std::string shown(const std::string& key, const Fact& fact);

}  // namespace gpuwarden::diagnosis
