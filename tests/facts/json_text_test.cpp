// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/json_text.hpp"

#include <nlohmann/json.hpp>

namespace gpuwarden::facts {
namespace {

TEST(JsonText, IsIndentedAndEndsWithANewline) { EXPECT_EQ(json_text({{"schema", 1}}), "{\n  \"schema\": 1\n}\n"); }

TEST(JsonText, ALineHoldsOneDocument) {
  EXPECT_EQ(json_line({{"schema", 1}, {"text", "a\nb"}}), "{\"schema\":1,\"text\":\"a\\nb\"}\n");
}

TEST(JsonText, BytesThatAreNoUtf8AreReplaced) {
  const std::string text = json_line({{"name", "a\xFFz"}});
  EXPECT_EQ(nlohmann::json::parse(text)["name"], "a\xEF\xBF\xBDz");
}

}  // namespace
}  // namespace gpuwarden::facts
