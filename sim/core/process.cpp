// SPDX-License-Identifier: Apache-2.0
#include "sim/core/process.hpp"

#include <string>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::sim {

std::uint64_t process_start_time(std::int32_t pid) {
  const auto stat = read_line("/proc/" + std::to_string(pid) + "/stat");
  if (!stat) return 0;
  // The second field is the name in parentheses and may hold anything; fields are counted from behind it.
  const std::size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return 0;
  const auto fields = split_words(std::string_view(*stat).substr(name_end + 1));
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X") return 0;
  return static_cast<std::uint64_t>(parse_integer(fields[19]).value_or(0));
}

}  // namespace gpuwarden::sim
