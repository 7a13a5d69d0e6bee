// SPDX-License-Identifier: Apache-2.0
// Writes metrics as Prometheus reads them: the text format 0.0.4, or OpenMetrics 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/serve/metrics.hpp"

namespace gpuwarden::serve {

/// `NAME="VALUE"` with what the formats escape; bytes that are no UTF-8 and control characters are replaced. Added to
/// what is there, behind a comma.
void add_label(std::string& labels, std::string_view name, std::string_view value);

/// Families one after the other, each with all of its samples. A family without a sample is not written.
class Exposition {
 public:
  explicit Exposition(Format format) : format_(format) {}
  /// What follows belongs to this family. A counter's name ends in _total.
  void family(std::string_view name, facts::MetricKind kind, std::string_view help);
  /// `labels` as add_label() makes them; may be empty.
  void sample(std::string_view labels, double value) { sample(labels, {}, value); }
  /// The same with one more label behind the others, which are not empty.
  void sample(std::string_view labels, std::string_view more, double value);
  /// Room for so many bytes more.
  void expect(std::size_t bytes) { text_.reserve(text_.size() + bytes); }
  /// The whole text, with the end that OpenMetrics wants.
  std::string finish();

 private:
  void head();
  Format format_;
  std::string text_;
  std::string name_;
  std::string help_;
  facts::MetricKind kind_ = facts::MetricKind::gauge;
  bool told_ = true;
};

}  // namespace gpuwarden::serve
