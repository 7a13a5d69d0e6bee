// SPDX-License-Identifier: Apache-2.0
// GPUs as comma-separated values: chosen fields, a row for each GPU, in nvidia-smi's form. Every metric is a field by
// its id; where `nvidia-smi --query-gpu` has a name for it, by that name too, in nvidia-smi's unit.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::facts {

/// How the values stand: `--format=csv,noheader,nounits` of nvidia-smi.
struct CsvStyle {
  bool header = true;
  bool units = true;
};
/// Of "csv", "noheader" and "nounits"; nothing where "csv" is not among the words. Fails with invalid_argument for
/// others.
Result<std::optional<CsvStyle>> csv_style_from(std::span<const std::string> words);

/// Every name that to_csv takes: inventory, nvidia-smi's names of metrics, then the metrics' own ids.
std::vector<std::string> csv_field_names();
/// What is printed where no fields were named.
std::span<const std::string_view> default_csv_fields();
/// The snapshot's GPUs, a line each; "[N/A]" where a GPU does not tell, is not leased, or is not disabled. Values with
/// a comma in them stand between double quotes. Fails with invalid_argument on a field that does not exist; the hint
/// lists those that are like it.
Result<std::string> to_csv(const Snapshot& snapshot, std::span<const std::string> fields, const CsvStyle& style,
                           std::span<const Lease> leases = {}, std::span<const Disabling> disabled = {});

}  // namespace gpuwarden::facts
