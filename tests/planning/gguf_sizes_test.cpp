// SPDX-License-Identifier: Apache-2.0
// Sizes of files that were published, against the sums over their tensors. Odd rows were looked at while the rules were
// written; even ones were run once behind that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "support/corpus.hpp"

namespace gpuwarden::planning {
namespace {

struct PublishedFile {
  int row = 0;
  std::string model;
  std::string mix;
  double bytes = 0;
  double step = 0;    ///< of the last digit that was published
  bool held = false;  ///< nothing is noted of it that makes it another mix
};

double unit_of(std::string_view unit) {
  if (unit == "GiB") return kBytesPerGiB;
  if (unit == "GB") return 1e9;
  return unit == "MB" ? 1e6 : 1;
}

double last_digit(std::string_view number) {
  const std::size_t point = number.find('.');
  return point == std::string_view::npos ? 1 : std::pow(10.0, -static_cast<double>(number.size() - point - 1));
}

std::vector<PublishedFile> published_files() {
  std::vector<PublishedFile> rows;
  const auto text = read_file(gpuwarden::testing::source_folder() / "tests/corpus/planner/gguf_sizes.csv");
  if (!text) return rows;
  for (const std::string_view line : split(*text, '\n')) {
    const auto parts = split(line, ',');
    if (parts.size() != 7 || parts[0] == "row") continue;
    const double unit = unit_of(parts[4]);
    rows.push_back({static_cast<int>(*parse_integer(parts[0])), std::string(parts[1]), std::string(parts[2]),
                    *parse_number(parts[3]) * unit, last_digit(parts[3]) * unit, parts[6].empty()});
  }
  return rows;
}

/// How much more than was published the sums are, as a share of it. Rounding and a file's header are no errors of the
/// sums: words of a vocabulary and their merges take up to 12 MB (gemma's).
double error_of(const PublishedFile& file) {
  const auto model = find_model(file.model);
  const FileMix* const mix = mix_named(file.mix);
  if (!model || mix == nullptr) return 1;
  const Settings settings{.task = Task::serving, .precision = Precision::bf16, .quantization = mix->kind};
  return (file_weights(*model, settings).file() - file.bytes) / file.bytes;
}

struct Errors {
  double median = 0;
  double worst = 0;
  std::size_t rows = 0;
};

Errors errors_of(bool odd) {
  std::vector<double> errors;
  for (const PublishedFile& file : published_files()) {
    if ((file.row % 2 == 1) != odd) continue;
    const double error = error_of(file);
    if (const char* tell = std::getenv("GPUWARDEN_TELL_ERRORS"); tell != nullptr)
      std::printf("%3d %-36s %-8s %+6.2f%% (last digit %.2f%%)\n", file.row, file.model.c_str(), file.mix.c_str(),
                  100 * error, 100 * file.step / file.bytes);
    if (file.held) errors.push_back(std::abs(error));
  }
  if (errors.empty()) return {};
  std::ranges::sort(errors);
  return {errors[errors.size() / 2], errors.back(), errors.size()};
}

TEST(GgufSizes, OfFilesThatWereLookedAtAreMet) {
  const Errors errors = errors_of(true);
  EXPECT_EQ(errors.rows, 41);
  EXPECT_LE(errors.median, 0.002);
  EXPECT_LE(errors.worst, 0.02);
}

TEST(GgufSizes, OfFilesThatWereNotLookedAtAreMet) {
  const Errors errors = errors_of(false);
  EXPECT_EQ(errors.rows, 42);
  EXPECT_LE(errors.median, 0.002);
  EXPECT_LE(errors.worst, 0.02);
}

TEST(GgufSizes, OfMixesThatNoRuleGivesAreWithinWhatIsSaidOfThem) {
  const auto text = read_file(gpuwarden::testing::source_folder() / "tests/corpus/planner/gguf_dynamic_sizes.csv");
  ASSERT_TRUE(text);
  std::size_t rows = 0;
  for (const std::string_view line : split(*text, '\n')) {
    const auto parts = split(line, ',');
    if (parts.size() != 4 || parts[0] == "name") continue;
    ++rows;
    const auto model = find_model(parts[0]);
    ASSERT_TRUE(model) << parts[0] << ": " << model.error().message;
    const FileMix* const mix = mix_named(model->quantization.value_or(""));
    ASSERT_NE(mix, nullptr) << parts[0];
    const Settings settings{.task = Task::serving, .precision = Precision::bf16, .quantization = mix->kind};
    const double ratio = *parse_number(parts[1]) * unit_of(parts[2]) / file_weights(*model, settings).file();
    EXPECT_GE(ratio, 0.925) << parts[0];
    EXPECT_LE(ratio, 1.125) << parts[0];
  }
  EXPECT_EQ(rows, 5U);
}

}  // namespace
}  // namespace gpuwarden::planning
