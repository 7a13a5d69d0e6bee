// SPDX-License-Identifier: Apache-2.0
// Command lines of programs that train and serve, as people paste them.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/planning/pasted_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = gpuwarden::planning::read_pasted_line(text);
  // Whatever is accepted names its values, and is the same as its words one by one.
  if (!line) return 0;
  for (const std::string& name : line->words.names()) {
    if (name != "compile" && line->words.list(name).empty()) std::abort();
  }
  if (!gpuwarden::split_shell_words(text)) std::abort();
  return 0;
}
