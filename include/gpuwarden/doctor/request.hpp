// SPDX-License-Identifier: Apache-2.0
// What is asked of the doctor, in words.
#pragma once

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/doctor/expect.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::doctor {

struct ExaminationRequest {
  Purpose purpose;
  Choice choice;
  Severity fail_on = Severity::error;     ///< from here on the machine is not in order
  std::optional<Expected> expected = {};  ///< a site's inventory, which whoever reads files has read
};

/// Of "for" (a purpose), "only", "skip" and "fail-on". Fails with invalid_argument.
Result<ExaminationRequest> read_request(const NamedValues& values, const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::doctor
