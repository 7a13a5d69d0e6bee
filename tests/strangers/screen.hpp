// SPDX-License-Identifier: Apache-2.0
// What a person would see: the part of a VT100 that curses programs use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::testing {

class Screen {
 public:
  Screen(unsigned rows, unsigned columns);

  /// Takes a program's output, in pieces of any length.
  void feed(std::string_view output);
  const std::vector<std::string>& lines() const { return lines_; }
  /// All lines, without the blanks at their ends.
  std::string text() const;
  /// Row and column of a text; {-1, -1} where it is not shown.
  std::pair<int, int> find(std::string_view text) const;
  /// A cut of the screen, one line after the other.
  std::string block(int row, int column, int rows, int columns) const;

 private:
  void plain(char c);
  void escape(char c);
  void sequence(char final);
  void erase_display(int how);
  void erase_line(int how);
  void move(int row, int column);
  void line_feed();
  int parameter(std::size_t index, int otherwise) const;

  enum class State { text, escape, charset, sequence };
  State state_ = State::text;
  std::string parameters_;
  std::vector<std::string> lines_;
  int row_ = 0;
  int column_ = 0;
};

}  // namespace gpuwarden::testing
