// SPDX-License-Identifier: Apache-2.0
// The JSON of a run's report that `report` is given.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gpuwarden/recording/compare.hpp"
#include "gpuwarden/recording/html.hpp"
#include "gpuwarden/recording/markdown.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::recording;

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = nlohmann::json::parse(data, data + size, nullptr, false);
  if (json.is_discarded()) return 0;
  const auto summary = summary_from_json(json);
  if (!summary) {
    check(!summary.error().message.empty());
    return 0;
  }
  const Told told{.summary = *summary, .readings = {}};
  check(to_html(told).ends_with("</html>\n"));
  check(compare_html(told, told).ends_with("</html>\n"));
  static_cast<void>(to_markdown(*summary));
  // What was read is written and read back as it is.
  const auto again = summary_from_json(to_json(*summary));
  check(again && to_json(*again) == to_json(*summary));
  return 0;
}
