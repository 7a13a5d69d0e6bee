// SPDX-License-Identifier: Apache-2.0
// Lists of Python's packages: pip freeze, pip list, pip show, uv pip list, conda list, with any other lines between.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::capture {

class PackageList {
 public:
  /// Whether the line is a package of a list; only those that matter to GPU software are kept.
  bool take(const Line& line);

  /// False where what was found may be a sentence.
  bool sure() const { return sure_ || packages_.size() > 1; }
  /// All as one Python's; nothing where there are none.
  std::optional<facts::PythonEnvironment> python() const;

 private:
  enum class Table { none, pip, conda };

  bool take_header(std::string_view text);
  bool take_shown(std::string_view text, bool ended);
  bool take_frozen(std::string_view text);
  bool take_row(std::string_view text);
  bool keep(std::string_view name, std::string_view version, std::string_view manager);

  Table table_ = Table::none;
  std::string shown_;  ///< the name that pip show has told, before its version
  bool sure_ = false;
  std::vector<facts::PythonPackage> packages_;
  std::optional<std::string> torch_cuda_;  ///< as a conda build is named after it
};

}  // namespace gpuwarden::capture
