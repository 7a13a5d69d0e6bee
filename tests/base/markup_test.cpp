// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/markup.hpp"

namespace gpuwarden {
namespace {

TEST(Markup, HasItsFourCharactersAsEntities) {
  EXPECT_EQ(markup_text("a < b && \"c\" > 'd'"), "a &lt; b &amp;&amp; &quot;c&quot; &gt; 'd'");
}

}  // namespace
}  // namespace gpuwarden
