// SPDX-License-Identifier: Apache-2.0
// What a history's file is made of, and whether a file is one.
#pragma once

#include <cstdint>

#include "gpuwarden/base/result.hpp"
#include "telemetry/store_sqlite.hpp"

namespace gpuwarden::telemetry {

/// "GPUW": SQLite's application id, so that file(1) and we tell these files from other databases.
inline constexpr std::int64_t kApplicationId = 0x47505557;
inline constexpr std::int64_t kSchemaVersion = 1;

/// Makes the tables in an empty file.
Result<void> make_schema(Database& database);
/// Fails with invalid_argument where it is another program's database, unavailable where a newer gpuwarden made it, and
/// corrupt where its tables are not those that we make: whatever else SQL could hide in a file is thereby left alone.
Result<void> check_schema(Database& database);

}  // namespace gpuwarden::telemetry
