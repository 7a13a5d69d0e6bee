// SPDX-License-Identifier: Apache-2.0
#include "strangers/screen.hpp"

#include <algorithm>
#include <charconv>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {

Screen::Screen(unsigned rows, unsigned columns) : lines_(rows, std::string(columns, ' ')) {}

void Screen::feed(std::string_view output) {
  for (const char c : output) {
    switch (state_) {
      case State::text:
        plain(c);
        break;
      case State::escape:
        escape(c);
        break;
      case State::charset:
        state_ = State::text;
        break;
      case State::sequence:
        if (c >= '@' && c <= '~') {
          sequence(c);
          state_ = State::text;
        } else {
          parameters_ += c;
        }
        break;
    }
  }
}

void Screen::plain(char c) {
  if (c == '\x1b') state_ = State::escape;
  if (c == '\r') column_ = 0;
  if (c == '\n') line_feed();
  if (c == '\b') move(row_, column_ - 1);
  if (c == '\t') move(row_, (column_ / 8 + 1) * 8);
  if (static_cast<unsigned char>(c) < ' ') return;
  const auto width = static_cast<int>(lines_[0].size());
  if (column_ == width) {
    column_ = 0;
    line_feed();
  }
  lines_[static_cast<std::size_t>(row_)][static_cast<std::size_t>(column_++)] = c;
}

void Screen::escape(char c) {
  state_ = State::text;
  parameters_.clear();
  if (c == '[') state_ = State::sequence;
  if (c == '(' || c == ')') state_ = State::charset;
}

void Screen::sequence(char final) {
  if (parameters_.starts_with('?')) return;  // modes
  const int count = parameter(0, 1);
  switch (final) {
    case 'H':
      return move(parameter(0, 1) - 1, parameter(1, 1) - 1);
    case 'A':
      return move(row_ - count, column_);
    case 'B':
      return move(row_ + count, column_);
    case 'C':
      return move(row_, column_ + count);
    case 'D':
      return move(row_, column_ - count);
    case 'J':
      return erase_display(parameter(0, 0));
    case 'K':
      return erase_line(parameter(0, 0));
    default:
      return;  // colours, scroll regions
  }
}

int Screen::parameter(std::size_t index, int otherwise) const {
  const auto parts = split(parameters_, ';');
  if (index >= parts.size()) return otherwise;
  return static_cast<int>(parse_integer(parts[index]).value_or(otherwise));
}

void Screen::move(int row, int column) {
  row_ = std::clamp(row, 0, static_cast<int>(lines_.size()) - 1);
  column_ = std::clamp(column, 0, static_cast<int>(lines_[0].size()) - 1);
}

void Screen::line_feed() {
  if (row_ + 1 < static_cast<int>(lines_.size())) {
    ++row_;
    return;
  }
  std::rotate(lines_.begin(), lines_.begin() + 1, lines_.end());
  lines_.back().assign(lines_.back().size(), ' ');
}

void Screen::erase_display(int how) {
  erase_line(how);
  const auto here = lines_.begin() + row_;
  const auto blank = [](std::string& line) { line.assign(line.size(), ' '); };
  if (how != 0) std::for_each(lines_.begin(), here, blank);
  if (how != 1) std::for_each(here + 1, lines_.end(), blank);
}

void Screen::erase_line(int how) {
  std::string& line = lines_[static_cast<std::size_t>(row_)];
  const auto here = line.begin() + std::min<std::ptrdiff_t>(column_, static_cast<std::ptrdiff_t>(line.size()) - 1);
  std::fill(how == 0 ? here : line.begin(), how == 1 ? here + 1 : line.end(), ' ');
}

std::string Screen::text() const {
  std::string all;
  for (const std::string& line : lines_) all += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  return all;
}

std::pair<int, int> Screen::find(std::string_view text) const {
  for (std::size_t row = 0; row < lines_.size(); ++row) {
    const auto column = lines_[row].find(text);
    if (column != std::string::npos) return {static_cast<int>(row), static_cast<int>(column)};
  }
  return {-1, -1};
}

std::string Screen::block(int row, int column, int rows, int columns) const {
  std::string all;
  for (int i = row; i >= 0 && i < row + rows && i < static_cast<int>(lines_.size()); ++i) {
    all += lines_[static_cast<std::size_t>(i)].substr(static_cast<std::size_t>(column),
                                                      static_cast<std::size_t>(columns)) +
           '\n';
  }
  return all;
}

}  // namespace gpuwarden::testing
