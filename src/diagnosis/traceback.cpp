// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/traceback.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>

#include "diagnosis/line.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::diagnosis {
namespace {

/// Where what was installed lies; the rest is the program's own.
bool is_installed(std::string_view path) {
  static constexpr auto kPlaces = std::to_array<std::string_view>(
      {"site-packages", "dist-packages", "/lib/python", "\\Lib\\", "/bin/", "<frozen", "<string>", "<__array"});
  return std::ranges::any_of(kPlaces, [&](std::string_view place) { return path.contains(place); });
}

/// "BadSampleError: sample 17 is empty", "torch.cuda.OutOfMemoryError: ...", "KeyboardInterrupt".
bool is_exception(const std::string& text) {
  static const RE2 pattern(R"(^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:: .*|:)?$)");
  static const RE2 named(
      R"(^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Iteration|Failure|Timeout|Warning)\b)");
  return RE2::PartialMatch(text, named) || (RE2::FullMatch(text, pattern) && text.contains(": "));
}

}  // namespace

std::optional<TracebackEnd> read_traceback(std::span<const std::string_view> after) {
  static const RE2 frame(R"re(^File "([^"]+)", line (\d+)(?:, in (\S+))?)re");
  TracebackEnd end;
  std::string any_frame;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::string text = normalise(after[i]).text;
    std::string path;
    std::string line;
    std::string function;
    if (RE2::PartialMatch(text, frame, &path, &line, &function)) {
      any_frame = fmt::format("{}:{}{}", path, line, function.empty() ? "" : " in " + function);
      if (!is_installed(path)) end.frame = any_frame;
      continue;
    }
    if (!is_exception(text) || any_frame.empty()) continue;
    end.line = i + 1;
    end.exception = text;
    if (end.frame.empty()) end.frame = any_frame;
    return end;
  }
  return std::nullopt;
}

bool is_line_of_diff(std::string_view raw) {
  static const RE2 pattern(
      R"(^[+-](?:\s{4,}\S|\t|\s{0,3}(?:raise|def|if|else|return|assert|import|from|throw|class|for|while|with|try|except) ?\b|\s{0,3}(?:logger\.|printf|TORCH_CHECK|//|/\*)))");
  return !raw.empty() && (raw.front() == '+' || raw.front() == '-') && RE2::PartialMatch(raw, pattern);
}

}  // namespace gpuwarden::diagnosis
