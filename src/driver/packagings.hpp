// SPDX-License-Identifier: Apache-2.0
// How each packaging of the driver is installed: package names and commands.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

/// The shell texts that differ from packaging to packaging.
struct InstallWords {
  std::vector<std::string> packages;  ///< that shall be there in the end
  std::string repository;             ///< adds NVIDIA's repository; empty where it is there
  std::string repository_undo;
  std::string fetch;       ///< downloads without installing
  std::string fetch_undo;  ///< of what fetch sets in the package manager
  std::string install;     ///< installs what was fetched
  std::string check;       ///< succeeds where there is nothing left to install; empty: cannot be told
};

/// Fails with unsatisfied where the machine's package manager has no way to this target.
Result<InstallWords> install_words(const DriverFacts& facts, const DriverRequest& request,
                                   const Recommendation& target);

}  // namespace gpuwarden::driver
