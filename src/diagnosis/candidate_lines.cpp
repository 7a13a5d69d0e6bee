// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/candidate_lines.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gpuwarden::diagnosis {

namespace {

constexpr auto kNowhere = std::string_view::npos;
/// So much is read before literals are looked for in it.
constexpr std::size_t kBlock = std::size_t{1} << 20;
/// What has to be known after a place in order to deal with a literal there.
constexpr std::size_t kNeededAfter = kLongestLine + kLookAhead;
/// And before it: a stretch that is still open, or a line, may begin kLongestLine before it.
constexpr std::size_t kNeededBefore = kLongestLine + kLookBehind + 1;

std::uint64_t count_line_ends(std::string_view text) {
  // What every 64-bit machine has registers for; of wider vectors the compiler makes single bytes.
  using Vector = unsigned char __attribute__((vector_size(16)));
  constexpr std::size_t kMostAtOnce = 255;  // what a byte can count
  std::uint64_t count = 0;
  while (text.size() >= sizeof(Vector)) {
    const std::size_t vectors = std::min(text.size() / sizeof(Vector), kMostAtOnce);
    Vector sums{};
    for (std::size_t i = 0; i < vectors; ++i) {
      Vector bytes;
      std::memcpy(&bytes, text.data() + i * sizeof(Vector), sizeof bytes);
      sums -= reinterpret_cast<Vector>(bytes == '\n');  // true is -1
    }
    for (std::size_t i = 0; i < sizeof(Vector); ++i) count += sums[i];
    text.remove_prefix(vectors * sizeof(Vector));
  }
  return count + static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
}

/// rfind() goes byte by byte.
std::size_t last_of(std::string_view text, char wanted) {
  const void* const found = ::memrchr(text.data(), wanted, text.size());
  return found == nullptr ? kNowhere : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Without the beginning of a character whose rest was cut off.
std::string_view without_torn_end(std::string_view text) {
  std::size_t lead = text.size();
  while (lead > 0 && text.size() - lead < 3 && continues(text[lead - 1])) --lead;
  if (lead == 0) return text;
  const auto first = static_cast<unsigned char>(text[lead - 1]);
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  return text.size() - lead + 1 < length ? text.substr(0, lead - 1) : text;
}

std::string_view without_line_end(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view neighbour(std::string_view line) {
  line = without_line_end(line);
  return line.size() <= kLongestNeighbour ? line : without_torn_end(line.substr(0, kLongestNeighbour));
}

}  // namespace

std::span<const std::string_view> Candidate::before(std::size_t count) const {
  std::size_t found = 0;
  std::size_t end = last_of(around_.substr(0, begin_), '\n');
  while (end != kNowhere && found < std::min(count, before_.size())) {
    const std::size_t previous = last_of(around_.substr(0, end), '\n');
    if (previous == kNowhere && !begins_) break;  // it begins too far away
    const std::size_t begin = previous == kNowhere ? 0 : previous + 1;
    before_[found++] = neighbour(around_.substr(begin, end - begin));
    end = previous;
  }
  return {before_.data(), found};
}

std::span<const std::string_view> Candidate::after(std::size_t count) const {
  std::size_t found = 0;
  std::size_t end = around_.find('\n', end_);
  while (end != kNowhere && end + 1 < around_.size() && found < std::min(count, after_.size())) {
    const std::size_t begin = end + 1;
    end = around_.find('\n', begin);
    const std::string_view next = around_.substr(begin, end == kNowhere ? kNowhere : end - begin);
    // Where the view ends a line may go on.
    if (end == kNowhere && !ends_ && next.size() <= kLongestNeighbour) break;
    after_[found++] = neighbour(next);
  }
  return {after_.data(), found};
}

CandidateReader::CandidateReader(const LiteralScanner& scanner, std::function<void(const Candidate&)> found)
    : scanner_(scanner),
      found_(std::move(found)),
      capacity_(kBlock + kNeededBefore + std::max(kNeededAfter, scanner.longest())),
      buffer_(std::make_unique_for_overwrite<char[]>(capacity_)),
      gathered_(scanner.size()) {}

void CandidateReader::feed(std::string_view piece) {
  bytes_ += piece.size();
  decoder_.feed(piece, [this](std::string_view text) { append(text); });
}

void CandidateReader::finish() {
  decoder_.finish([this](std::string_view text) { append(text); });
  to_end_ = true;
  process(true);
  if (size_ > 0 && buffer_[size_ - 1] != '\n') ++lines_;
  size_ = 0;
}

// The buffer is worked on only when it is full: so what is done does not depend on the pieces.
void CandidateReader::append(std::string_view text) {
  while (!text.empty()) {
    const std::size_t taken = std::min(text.size(), capacity_ - size_);
    std::memcpy(buffer_.get() + size_, text.data(), taken);
    size_ += taken;
    text.remove_prefix(taken);
    if (size_ == capacity_) process(false);
  }
}

void CandidateReader::process(bool at_end) {
  const std::size_t limit = at_end ? size_ : size_ - std::max(kNeededAfter, scanner_.longest());
  const std::size_t from = scanned_;
  const std::size_t until = std::min(size_, limit + scanner_.longest());
  scanner_.scan(text(from, until), [&](std::size_t begin, std::uint32_t literal) {
    if (from + begin < limit) hit(from + begin, literal);
  });
  scanned_ = limit;
  if (is_open_ && (at_end || open_.end <= limit)) close();
  count_lines(limit);
  if (!at_end) slide(limit);
}

void CandidateReader::slide(std::size_t limit) {
  const std::size_t gone = limit - std::min(limit, kNeededBefore);
  if (gone == 0) return;
  std::memmove(buffer_.get(), buffer_.get() + gone, size_ - gone);
  size_ -= gone;
  scanned_ -= gone;
  counted_ -= gone;
  open_.begin -= gone;
  open_.end -= gone;
  from_start_ = false;
}

void CandidateReader::hit(std::size_t place, std::uint32_t literal) {
  const bool inside = is_open_ && (open_.whole ? place <= open_.end : place + scanner_.length(literal) <= open_.end);
  if (!inside) {
    if (is_open_) close();
    open(place);
  }
  if (open_.whole) gather(literal);
}

void CandidateReader::open(std::size_t place) {
  count_lines(place);
  open_ = stretch_around(place);
  open_.number = lines_ + 1;
  is_open_ = true;
}

CandidateReader::Stretch CandidateReader::stretch_around(std::size_t place) const {
  const std::size_t earliest = place - std::min(place, kLongestLine + 1);
  const std::size_t end_before = last_of(text(earliest, place), '\n');
  const bool begin_known = end_before != kNowhere || (from_start_ && earliest == 0);
  const std::size_t line_begin = end_before == kNowhere ? earliest : earliest + end_before + 1;

  Stretch stretch{.begin = std::max(line_begin, place - std::min(place, kStretchLead))};
  const std::size_t latest = std::min(size_, place + kLongestLine + 1);
  const std::size_t end_after = text(place, latest).find('\n');
  const bool end_known = end_after != kNowhere || (to_end_ && latest == size_);
  const std::size_t line_end = end_after == kNowhere ? latest : place + end_after;
  if (begin_known && end_known && line_end - line_begin <= kLongestLine) {
    return {.begin = line_begin, .end = line_end, .whole = true};
  }

  // What a '\r' wrote over is not read together with what came after it; a gap of NULs is no text at all.
  const std::string_view lead = text(stretch.begin, place);
  // Nowhere plus one is zero.
  const std::size_t fresh = std::max(last_of(lead, '\r') + 1, last_of(lead, '\0') + 1);
  if (fresh != 0) {
    stretch.begin += fresh;
  } else if (stretch.begin > line_begin) {
    for (int torn = 0; torn < 3 && stretch.begin < place && continues(buffer_[stretch.begin]); ++torn) ++stretch.begin;
  }
  stretch.end = std::min(line_end, stretch.begin + kLongestLine);
  if (stretch.end < line_end || !end_known) {
    stretch.end = stretch.begin + without_torn_end(text(stretch.begin, stretch.end)).size();
  }
  return stretch;
}

void CandidateReader::close() {
  is_open_ = false;
  // Stretches overlap, so what stands in one is not only what was met since it was opened.
  if (!open_.whole) {
    scanner_.scan(text(open_.begin, open_.end), [this](std::size_t, std::uint32_t literal) { gather(literal); });
  }
  std::ranges::sort(literals_);
  Candidate candidate;
  const std::size_t first = open_.begin - std::min(open_.begin, kLookBehind);
  const std::size_t last = std::min(size_, open_.end + kLookAhead);
  candidate.number = open_.number;
  candidate.line = without_line_end(text(open_.begin, open_.end));
  candidate.whole = open_.whole;
  candidate.literals = literals_;
  candidate.around_ = text(first, last);
  candidate.begin_ = open_.begin - first;
  candidate.end_ = open_.end - first;
  candidate.begins_ = from_start_ && first == 0;
  candidate.ends_ = to_end_ && last == size_;
  found_(candidate);
  for (const std::uint32_t literal : literals_) gathered_[literal] = false;
  literals_.clear();
}

void CandidateReader::gather(std::uint32_t literal) {
  if (gathered_[literal]) return;
  gathered_[literal] = true;
  literals_.push_back(literal);
}

void CandidateReader::count_lines(std::size_t until) {
  if (until <= counted_) return;
  lines_ += count_line_ends(text(counted_, until));
  counted_ = until;
}

}  // namespace gpuwarden::diagnosis
