// SPDX-License-Identifier: Apache-2.0
#include "capture/lines.hpp"

#include <algorithm>

#include "capture/prefix.hpp"

namespace gpuwarden::capture {
namespace {

/// The position behind the escape sequence that begins at `at`.
std::size_t skip_escape(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size() || text[at + 1] != '[') return at + 1;
  std::size_t end = at + 2;
  while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
  return end < text.size() ? end + 1 : end;
}

std::string cleaned(std::string_view line) {
  std::string result;
  result.reserve(line.size());
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '\x1b') {
      i = skip_escape(line, i);
    } else {
      if (line[i] != '\r' && line[i] != '\0') result += line[i];
      ++i;
    }
  }
  result.erase(result.find_last_not_of(" \t") + 1);
  return result;
}

/// "> | NVIDIA-SMI ...": without the marks of quotations in mails and issues.
std::string_view unquoted(std::string_view line) {
  while (line.starts_with('>')) line.remove_prefix(line.starts_with("> ") ? 2 : 1);
  return line;
}

/// More speakers than a job has ranks: they are no speakers.
constexpr std::size_t kMostSpeakers = 64;
/// A run of lines with one weak prefix must be this long to be a prefix.
constexpr std::size_t kShortestRun = 3;

void strip(Line& line, const Prefix& prefix) {
  line.speaker = prefix.speaker;
  line.text.erase(0, prefix.length);
}

/// Strips prefixes that only a run of lines makes believable, each line with the speaker of the one before.
void strip_runs(std::vector<Line>& lines) {
  for (std::size_t i = 0; i < lines.size();) {
    const std::string speaker(weak_prefix_of(lines[i].text).speaker);
    std::size_t end = i + 1;
    while (!speaker.empty() && end < lines.size() && weak_prefix_of(lines[end].text).speaker == speaker) ++end;
    const bool is_run = !speaker.empty() && end - i >= kShortestRun;
    for (std::size_t k = i; is_run && k < end; ++k) strip(lines[k], weak_prefix_of(lines[k].text));
    i = end;
  }
}

/// What ranks and hosts print at once stands interleaved: brings together what each said, in the order in which they
/// first spoke. Lines that nobody is named for stay before.
std::vector<Line> by_speaker(std::vector<Line> lines) {
  std::vector<std::string> speakers;
  for (const Line& line : lines) {
    if (std::ranges::find(speakers, line.speaker) == speakers.end()) speakers.push_back(line.speaker);
    if (speakers.size() > kMostSpeakers) return lines;
  }
  if (speakers.size() < 2) return lines;
  std::vector<Line> sorted;
  for (const std::string& speaker : speakers) {
    for (Line& line : lines) {
      if (line.speaker == speaker) sorted.push_back(std::move(line));
    }
  }
  return sorted;
}

}  // namespace

std::vector<Line> lines_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<Line> lines;
  std::uint32_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool ended = end != std::string_view::npos;
    Line& line = lines.emplace_back(cleaned(unquoted(text.substr(0, end))), ++number, ended, "");
    const std::string whole = line.text;
    strip(line, prefix_of(whole));
    text.remove_prefix(ended ? end + 1 : text.size());
  }
  strip_runs(lines);
  return by_speaker(std::move(lines));
}

}  // namespace gpuwarden::capture
