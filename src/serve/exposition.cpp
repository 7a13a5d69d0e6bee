// SPDX-License-Identifier: Apache-2.0
#include "serve/exposition.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::serve {
namespace {

constexpr std::string_view kTotal = "_total";

void add_escaped(std::string& text, std::string_view value, bool quotes) {
  for (const char c : value) {
    if (c == '\\') {
      text += "\\\\";
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '"' && quotes) {
      text += "\\\"";
    } else {
      text.push_back(c);
    }
  }
}

void add_number(std::string& text, double value) {
  constexpr double kExact = 9007199254740992.0;
  std::array<char, 32> digits{};
  if (std::isnan(value)) {
    text += "NaN";
    return;
  }
  if (std::isinf(value)) {
    text += value > 0 ? "+Inf" : "-Inf";
    return;
  }
  const bool whole = std::trunc(value) == value && std::abs(value) < kExact;
  const auto end = whole ? std::to_chars(digits.begin(), digits.end(), static_cast<std::int64_t>(value))
                         : std::to_chars(digits.begin(), digits.end(), value);
  text.append(digits.data(), end.ptr);
}

}  // namespace

void add_label(std::string& labels, std::string_view name, std::string_view value) {
  if (!labels.empty()) labels.push_back(',');
  labels += name;
  labels += "=\"";
  add_escaped(labels, printable(value), true);
  labels.push_back('"');
}

void Exposition::family(std::string_view name, facts::MetricKind kind, std::string_view help) {
  name_ = name;
  help_ = help;
  kind_ = kind;
  told_ = false;
}

void Exposition::head() {
  told_ = true;
  std::string_view name = name_;
  const bool counter = kind_ == facts::MetricKind::counter;
  if (format_ == Format::openmetrics && counter && name.ends_with(kTotal)) name.remove_suffix(kTotal.size());
  text_ += "# HELP ";
  text_ += name;
  text_.push_back(' ');
  add_escaped(text_, help_, format_ == Format::openmetrics);
  text_ += "\n# TYPE ";
  text_ += name;
  text_ += counter ? " counter\n" : " gauge\n";
}

void Exposition::sample(std::string_view labels, std::string_view more, double value) {
  if (!told_) head();
  text_ += name_;
  if (!labels.empty()) {
    text_.push_back('{');
    text_ += labels;
    if (!more.empty()) text_.push_back(',');
    text_ += more;
    text_.push_back('}');
  }
  text_.push_back(' ');
  add_number(text_, value);
  text_.push_back('\n');
}

std::string Exposition::finish() {
  if (format_ == Format::openmetrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace gpuwarden::serve
