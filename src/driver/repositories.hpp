// SPDX-License-Identifier: Apache-2.0
// Where NVIDIA's package repository for a distribution lies, and whether a machine has it among its sources.
#pragma once

#include <filesystem>
#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/environment.hpp"

namespace gpuwarden::driver {

/// NVIDIA's package repository for one distribution and machine. All are plain words: no shell reads anything into
/// them.
struct Repository {
  std::string name;     ///< "ubuntu2204", "rhel9"
  std::string machine;  ///< "x86_64", "sbsa"
  std::string url;      ///< without a slash at its end
};

/// Fails with unsatisfied where the release is so old that nobody packages drivers for it any more.
Result<void> check_served(const facts::Host& host);
/// Fails with invalid_argument where what the host says of itself are no plain words (a capture is anybody's file),
/// with unsatisfied where NVIDIA has no repository for it.
Result<Repository> repository_for(const facts::Host& host);
/// Whether it is among the package manager's sources below `root`, and switched on.
bool has_cuda_repository(const std::filesystem::path& root);

}  // namespace gpuwarden::driver
