// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/yaml/document.hpp"

#include <yaml-cpp/yaml.h>

#include "support/matchers.hpp"

namespace gpuwarden::yaml {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

auto fails(std::string_view part) { return FailsWith(ErrorCode::invalid_argument, HasSubstr(std::string(part))); }

TEST(Yaml, LoadsAPlainDocument) {
  const auto node = load("a: 1\nb: [x, y]\n", "f.yaml");
  ASSERT_THAT(node, IsOk());
  EXPECT_EQ((*node)["b"][1].as<std::string>(), "y");
}

TEST(Yaml, HazardsAreRefusedWithTheirPlace) {
  EXPECT_THAT(load("a:\n\tb: 1\n", "f.yaml"), fails("f.yaml:2:1: a tab"));
  EXPECT_THAT(load("a: &x [1]\nb: *x\n", "f.yaml"), fails("anchors and aliases"));
  EXPECT_THAT(load("a: &x\n  b: *x\n", "f.yaml"), fails("anchors and aliases"));
  EXPECT_THAT(load("a: 1\na: 2\n", "f.yaml"), fails("f.yaml:2:1: 'a' appears twice"));
  EXPECT_THAT(load("a: 1\n---\nb: 2\n", "f.yaml"), fails("more than one document"));
  EXPECT_THAT(load("a: 1\n}\n", "f.yaml"), fails("f.yaml:2:1")) << "and not for ever";
  EXPECT_THAT(load("]", "f.yaml"), fails("f.yaml:1:1"));
  EXPECT_THAT(load("a: [1, 2\n", "f.yaml"), fails("f.yaml:2:1:"));
  EXPECT_THAT(load(std::string(100000, '['), "f.yaml"), fails("nested too deeply"));
  EXPECT_THAT(load(std::string(100000, '-') + " a", "f.yaml"), fails("nested too deeply"));
  std::string dashes;
  for (int i = 0; i < 50000; ++i) dashes += "- ";
  EXPECT_THAT(load(dashes, "f.yaml"), fails("nested too deeply"));
  EXPECT_THAT(load(std::string(2 << 20, 'x'), "f.yaml"), fails("larger than"));
  EXPECT_THAT(load(std::string_view("a\0b", 3), "f.yaml"), fails("not a text file"));
  EXPECT_THAT(load("? [a]\n: 1\n", "f.yaml"), fails("a key must be plain text"));
}

TEST(Yaml, UnknownKeysComeWithASuggestion) {
  const auto node = load("drivr: 1\n", "f.yaml");
  ASSERT_THAT(node, IsOk());
  const auto checked = check_keys(*node, "f.yaml", "the fleet", {"driver", "gpus"});
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().message, "f.yaml:1:1: the fleet has no key 'drivr'");
  EXPECT_EQ(checked.error().hint, "did you mean 'driver'?");
  EXPECT_THAT(check_keys(YAML::Node("text"), "f.yaml", "the fleet", {}), fails("should be a map"));
}

}  // namespace
}  // namespace gpuwarden::yaml
