// SPDX-License-Identifier: Apache-2.0
// Lines that differ only in counts and times are of one shape: after some hundreds of them, one more says nothing new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gpuwarden::diagnosis {

/// A line without its mere counts, as a number.
std::uint64_t shape_of(std::string_view line);

/// Remembers how often a shape was seen and what its latest line told, in bounded memory.
class Shapes {
 public:
  /// What the lines of a shape led to: places in a list of events.
  using Events = std::vector<std::size_t>;

  /// Begins a line. Gives the events of the shape's latest line where it has been seen often enough to be only counted;
  /// nullptr where it has to be looked at.
  const Events* begin(std::string_view line);
  /// Notes an event of the line that was begun.
  void note(std::size_t event);

 private:
  struct Shape {
    std::uint64_t seen = 0;
    Events events;
  };
  std::unordered_map<std::uint64_t, Shape> shapes_;
  Shape* current_ = nullptr;
};

}  // namespace gpuwarden::diagnosis
