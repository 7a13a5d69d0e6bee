// SPDX-License-Identifier: Apache-2.0
// Tables of comma-separated values (RFC 4180), read by column name.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::bench {

/// One line of a table. A column that the table has not reads as empty.
class Row {
 public:
  Row(const std::vector<std::string>& names, std::vector<std::string> cells);
  const std::string& operator[](std::string_view column) const;

 private:
  std::map<std::string, std::string, std::less<>> cells_;
};

/// Every line below the header. Fails with not_found where the file is missing, corrupt where a quote is not closed.
Result<std::vector<Row>> read_table(const std::filesystem::path& path);
/// The number that a text begins with, else 0: "2 (max)" is 2, "<=512" too is 512.
double leading_number(std::string_view text);
/// All runs of digits.
std::vector<double> numbers_in(std::string_view text);
std::string lower(std::string_view text);

}  // namespace gpuwarden::bench
