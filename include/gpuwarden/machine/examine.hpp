// SPDX-License-Identifier: Apache-2.0
// What the doctor says of a machine, by all that is known of it: its facts, what messages tell, what its site expects,
// what its GPUs showed under test.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/doctor/request.hpp"
#include "gpuwarden/facts/burn_in.hpp"
#include "gpuwarden/machine/machine.hpp"

namespace gpuwarden::machine {

/// As doctor::read_request(), with the inventory in the file of "expect". Fails with invalid_argument, and where the
/// file cannot be read.
Result<doctor::ExaminationRequest> read_examination(const NamedValues& values, const knowledge::Knowledge& knowledge);

/// What an examination looks at.
struct ExaminationScope {
  SurveyOptions survey = {};
  /// What messages beside the machine's facts say (logs::recognise_all).
  std::vector<doctor::ToldFinding> told = {};
  /// Puts the GPUs to work, where they are to be; nothing where they are not.
  std::function<Result<std::optional<facts::BurnInRun>>(const facts::Snapshot& snapshot)> test = {};
  std::stop_token stop = {};
};

struct Examined {
  facts::Snapshot snapshot;
  std::optional<facts::BurnInRun> burn_in;
  doctor::Examination examination;
};
/// For doctor::to_json(); both must outlive it.
doctor::MachineReport report_of(const Examined& examined, const doctor::ExaminationRequest& request);

/// Surveys the machine and judges it: what `gpuwarden doctor` and every other face answer. Fails as the test does.
Result<Examined> examine(const Machine& machine, const knowledge::Knowledge& knowledge,
                         const doctor::ExaminationRequest& request, ExaminationScope scope = {});

}  // namespace gpuwarden::machine
