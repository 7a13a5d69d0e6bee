// SPDX-License-Identifier: Apache-2.0
// Small text helpers: trimming, splitting, strict numbers, sizes and durations as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden {

std::string_view trim(std::string_view text);
/// Pieces between separators, empty ones included; an empty text is one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);
/// Pieces between runs of white space; no empty ones.
std::vector<std::string_view> split_words(std::string_view text);
/// Of ASCII letters alone, whatever the locale.
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
bool contains_ignoring_case(std::string_view text, std::string_view part);
/// "not answering" of "not_answering".
std::string spaced(std::string_view name, char joint = ' ');
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// "1 GPU", "3 GPUs"; "2 more lines are" where `many` says so.
std::string counted(std::uint64_t count, std::string_view one, std::string_view many = {});

/// The option most like `word` (edit distance at most a third of its length, at least 1), for "did you mean"; or empty.
std::string closest_match(std::string_view word, const std::vector<std::string>& options);

/// A whole decimal number and nothing else; no sign but '-', no white space.
std::optional<std::int64_t> parse_integer(std::string_view text);
/// A finite decimal number and nothing else.
std::optional<double> parse_number(std::string_view text);

/// "32GiB", "1.5 GB", "512M", "80000": powers of 1024 for KiB..TiB and for K, M, G, T (as nvidia-smi and ulimit use
/// them), powers of 1000 for KB..TB. Fails on anything else, on negatives and beyond 2^63.
Result<Bytes> parse_size(std::string_view text);
/// "500ms", "10s", "5m", "2h", "1d", "90" (seconds); sums such as "1h30m". Fails on negatives and beyond 10 years.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// "31.5 GiB": one decimal below 100 of a unit, none above; whole numbers stay whole ("80 GiB").
std::string format_size(Bytes bytes);
/// "3 h 12 min", "42 s", "850 ms": the two largest units.
std::string format_duration(std::chrono::milliseconds duration);
/// "2026-11-20T14:03:07Z".
std::string format_utc(std::chrono::system_clock::time_point time);

/// `text` with control characters, escapes and invalid UTF-8 replaced by '?', so that printing it is safe.
std::string printable(std::string_view text);

}  // namespace gpuwarden
