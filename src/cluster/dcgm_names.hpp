// SPDX-License-Identifier: Apache-2.0
// The fields of dcgm-exporter that are metrics of ours, under all names they have had.
#pragma once

#include <span>
#include <string_view>

namespace gpuwarden::cluster {

struct DcgmField {
  std::string_view name;    ///< without DCGM_FI_
  std::string_view metric;  ///< the id in the metric table
  double factor = 1;        ///< what the field's value is multiplied by
};
std::span<const DcgmField> dcgm_fields();

}  // namespace gpuwarden::cluster
