// SPDX-License-Identifier: Apache-2.0
// Any bytes, cut anywhere, give the same events; whatever is concluded from them can be printed.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/json.hpp"
#include "gpuwarden/diagnosis/reader.hpp"

using namespace gpuwarden::diagnosis;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = 1 + data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Reading whole = read_log(text, "fuzz");
  LogReader reader("fuzz");
  for (std::size_t at = 0; at < text.size(); at += step) reader.feed(text.substr(at, step));
  const Reading pieces = reader.finish();
  if (pieces.events.size() != whole.events.size() || pieces.lines != whole.lines) std::abort();
  for (std::size_t i = 0; i < whole.events.size(); ++i) {
    if (pieces.events[i].line != whole.events[i].line || pieces.events[i].facts != whole.events[i].facts) std::abort();
  }
  const Diagnosis diagnosis = diagnose(whole);
  for (const Cause& cause : diagnosis.causes) {
    if (cause.confidence < 0 || cause.confidence > 1 || cause.summary.empty() || cause.evidence.empty()) std::abort();
  }
  // dump() throws on text that is no UTF-8.
  return to_json(diagnosis).dump().empty() ? std::abort(), 0 : 0;
}
