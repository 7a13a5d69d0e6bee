// SPDX-License-Identifier: Apache-2.0
// The folder of records below a root: made, and kept from leading out of it.
#pragma once

#include <filesystem>

#include "gpuwarden/driver/run.hpp"

namespace gpuwarden::driver {

std::filesystem::path records_folder(const std::filesystem::path& root);
/// Fails with unsatisfied where a link on the way leads out of the root: an image may link anywhere, and root writes
/// here. What is not there yet is no fault.
Result<void> check_inside(const std::filesystem::path& root, const std::filesystem::path& path);
/// Makes the folder, for root alone; what was there before keeps its mode.
Result<void> make_records(const std::filesystem::path& root);
/// Fails with corrupt where the run recorded the machine, and the record is no longer there: a way back would then
/// change nothing and say that it had.
Result<void> check_records(const std::filesystem::path& root, const DriverRun& run);

}  // namespace gpuwarden::driver
