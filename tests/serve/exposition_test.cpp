// SPDX-License-Identifier: Apache-2.0
#include "serve/exposition.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace gpuwarden::serve {
namespace {

using facts::MetricKind;

std::string labels(std::string_view name, std::string_view value) {
  std::string text;
  add_label(text, name, value);
  return text;
}

TEST(Exposition, EscapesLabelsAndHelp) {
  EXPECT_EQ(labels("a", "x\"y\\z"), "a=\"x\\\"y\\\\z\"");
  EXPECT_EQ(labels("a", "line\nbreak\x01"), "a=\"line?break?\"");
  EXPECT_EQ(labels("a", "\xff\xfe"), "a=\"??\"");
  EXPECT_EQ(labels("a", "Zürich"), "a=\"Zürich\"");
  Exposition text(Format::text);
  text.family("m", MetricKind::gauge, "A \"b\" \\ c\nd");
  text.sample("", 1);
  EXPECT_EQ(text.finish(), "# HELP m A \"b\" \\\\ c\\nd\n# TYPE m gauge\nm 1\n");
  Exposition open(Format::openmetrics);
  open.family("m", MetricKind::gauge, "A \"b\"");
  open.sample("", 1);
  EXPECT_EQ(open.finish(), "# HELP m A \\\"b\\\"\n# TYPE m gauge\nm 1\n# EOF\n");
}

TEST(Exposition, OpenMetricsNamesACountersFamilyWithoutTotal) {
  for (const Format format : {Format::text, Format::openmetrics}) {
    Exposition out(format);
    out.family("joules_total", MetricKind::counter, "Energy.");
    out.sample("gpu=\"0\"", 2.5);
    const bool text = format == Format::text;
    EXPECT_EQ(out.finish(),
              text ? "# HELP joules_total Energy.\n# TYPE joules_total counter\njoules_total{gpu=\"0\"} 2.5\n"
                   : "# HELP joules Energy.\n# TYPE joules counter\njoules_total{gpu=\"0\"} 2.5\n# EOF\n");
  }
}

TEST(Exposition, LeavesOutFamiliesWithoutASample) {
  Exposition out(Format::text);
  out.family("empty", MetricKind::gauge, "Nothing.");
  out.family("full", MetricKind::gauge, "Something.");
  out.sample("", 0);
  EXPECT_EQ(out.finish(), "# HELP full Something.\n# TYPE full gauge\nfull 0\n");
}

TEST(Exposition, WritesNumbersSoThatTheyComeBack) {
  Exposition out(Format::text);
  out.family("m", MetricKind::gauge, "x");
  for (const double value : {85899345920.0, 0.1, -3.0, 1e300, 1.5e-9, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
    out.sample("", value);
  const std::string text = out.finish();
  EXPECT_EQ(text.substr(text.find("gauge\n") + 6), "m 85899345920\nm 0.1\nm -3\nm 1e+300\nm 1.5e-09\nm +Inf\nm NaN\n");
}

}  // namespace
}  // namespace gpuwarden::serve
