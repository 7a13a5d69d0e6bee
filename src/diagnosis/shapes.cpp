// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/shapes.hpp"

namespace gpuwarden::diagnosis {
namespace {

constexpr std::uint64_t kOftenEnough = 500;
constexpr std::size_t kMostShapes = 8192;

bool is_digit(std::string_view text, std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; }

/// Whether a run of digits only tells when, where or how far: a time, a date, an address, a large number. What stands
/// alone and is short may be a code that decides ("Xid 79").
bool is_mere_count(std::string_view line, std::size_t begin, std::size_t end) {
  constexpr std::string_view kJoints = ":.-/_";
  const bool joined =
      (begin > 0 && kJoints.contains(line[begin - 1])) || (end < line.size() && kJoints.contains(line[end]));
  return joined || end - begin > 3;
}

}  // namespace

std::uint64_t shape_of(std::string_view line) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (std::size_t i = 0; i < line.size();) {
    std::size_t end = i + 1;
    if (is_digit(line, i)) {
      while (is_digit(line, end)) ++end;
    }
    const bool counts = is_digit(line, i) && is_mere_count(line, i, end);
    for (; i < end; ++i) {
      if (!counts) hash = (hash ^ static_cast<unsigned char>(line[i])) * 0x100000001b3U;
    }
  }
  return hash;
}

const Shapes::Events* Shapes::begin(std::string_view line) {
  const std::uint64_t key = shape_of(line);
  auto found = shapes_.find(key);
  if (found == shapes_.end() && shapes_.size() < kMostShapes) found = shapes_.try_emplace(key).first;
  current_ = found == shapes_.end() ? nullptr : &found->second;
  if (current_ == nullptr) return nullptr;
  if (++current_->seen > kOftenEnough) return &current_->events;
  current_->events.clear();
  return nullptr;
}

void Shapes::note(std::size_t event) {
  if (current_ != nullptr) current_->events.push_back(event);
}

}  // namespace gpuwarden::diagnosis
