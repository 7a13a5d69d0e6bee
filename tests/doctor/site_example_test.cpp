// SPDX-License-Identifier: Apache-2.0
// The example of a site's own truth in examples/site is read and judges as it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/machines.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/doctor/expect.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "support/matchers.hpp"
#include "support/source_folder.hpp"

namespace gpuwarden::testing {
namespace {

using doctor::Severity;
using ::testing::HasSubstr;

std::string example(const char* name) {
  const auto text = read_file(source_folder() / "examples/site" / name);
  EXPECT_THAT(text, IsOk());
  return text.value_or("");
}

/// Severity of the worst of the site's findings on an H100 with this driver, for this work; ok: there are none.
Severity worst_with(std::string_view driver, std::string_view work) {
  const auto knowledge = knowledge::Knowledge::built_in().with_overlay(example("knowledge.yaml"), "knowledge.yaml");
  EXPECT_THAT(knowledge, IsOk());
  if (!knowledge) return Severity::critical;
  facts::Snapshot machine = healthy_machine();
  use_driver(machine, driver);
  const doctor::Purpose purpose{.text = std::string(work)};
  const auto examination = doctor::examine(machine, *knowledge, purpose, {.only = {"site"}, .skip = {}});
  return examination.worst;
}

TEST(SiteExample, TheTestedMatrixJudgesTheDriver) {
  EXPECT_EQ(worst_with("520.61.05", ""), Severity::error);
  EXPECT_EQ(worst_with("525.60.13", ""), Severity::warning);
  EXPECT_EQ(worst_with("535.129.03", ""), Severity::ok);
}

TEST(SiteExample, AWorkloadHasItsOwnRow) {
  EXPECT_EQ(worst_with("535.129.03", "serve qwen3"), Severity::error);
  EXPECT_EQ(worst_with("550.54.15", "serve qwen3"), Severity::info);
  EXPECT_EQ(worst_with("570.47.03", "serve qwen3"), Severity::ok);
}

TEST(SiteExample, TheInventoryFindsWhatIsMissing) {
  const auto expected = doctor::parse_expected(example("inventory.yaml"), "inventory.yaml");
  ASSERT_THAT(expected, IsOk());
  doctor::Examination examination;
  doctor::add_expected(examination, healthy_machine(), *expected);
  ASSERT_FALSE(examination.findings.empty());
  EXPECT_THAT(examination.findings[0].title, HasSubstr("8 H100 GPUs are expected, 4 found"));
}

}  // namespace
}  // namespace gpuwarden::testing
