// SPDX-License-Identifier: Apache-2.0
// The two locks that are a lease on one device.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "lease/lock_file.hpp"

namespace gpuwarden::lease {

/// "PREFIX" + UUID + "@": how the names of its records begin.
std::string record_prefix(const StoreOptions& options, const Uuid& uuid);
std::filesystem::path lock_path(const StoreOptions& options, const Uuid& uuid);
/// The files whose locks are a lease on it; within a lease that lease's ground alone (inherited.hpp).
std::vector<std::filesystem::path> lock_files(const StoreOptions& options, const Device& device);

/// Either may be missing, not both. Within a lease there is one, of that lease's ground.
struct DeviceLock {
  StoreOptions options;  ///< of its level (inherited.hpp)
  Device device;
  std::vector<UniqueFd> inherited;  ///< copies of what holds the levels above, for those who are to hold it too
  UniqueFd ground;                  ///< of claims within this one (inherited.hpp)
  UniqueFd kernel;
  UniqueFd shared_folder;
  std::string without_kernel;  ///< why there is no lock of the kernel's file
  std::string without_folder;  ///< why there is none in the directory
};

/// Takes both; nothing where somebody holds one of them. Fails where neither can be had, for whatever reason but a
/// holder, and with invalid_argument for a name that is no UUID.
Result<std::optional<DeviceLock>> lock_device(const StoreOptions& options, const std::optional<Error>& no_directory,
                                              const Device& device, bool exclusive);

/// What a lease of these does not guarantee, a sentence each.
std::vector<std::string> gaps_of(const StoreOptions& options, const std::vector<DeviceLock>& locks);

}  // namespace gpuwarden::lease
