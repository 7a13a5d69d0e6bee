// SPDX-License-Identifier: Apache-2.0
// The machine that a command's options name.
#pragma once

#include <functional>
#include <vector>

#include "command.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/probe/survey.hpp"

namespace gpuwarden::cli {

using machine::Machine;

/// Reads --from, --simulate / GPUWARDEN_SIMULATE, --timeout, --wake, --probe, and the GPUWARDEN_* variables that
/// machine::options_from knows.
Result<Machine> open_machine(const Context& context);
/// What the doctor looks at: a machine, and what messages say of it.
struct Patient {
  Machine machine;
  std::vector<doctor::ToldFinding> told;
};
/// The machine that the options name, by all that the texts of --from tell: one may be a log alone. Fails as
/// open_machine() and logs::recognise_all().
Result<Patient> open_patient(const Context& context);
/// The fleet of this name; of options only what the environment says.
Result<Machine> open_fleet(const Context& context, const std::string& spec);

/// What is built in, under the overlays of the environment (knowledge::overlay_files) and the files of --knowledge.
Result<knowledge::Knowledge> open_knowledge(const Context& context);

/// Where leases and the records of runs are kept: GPUWARDEN_LEASE_DIR, else /run/lock/gpuwarden.
std::filesystem::path lease_directory(const Context& context);

/// Several captures of one machine, joined; warnings go to stderr. "-" is standard input.
Result<capture::Capture> read_captures(const std::vector<std::string>& files);

/// The time of --timeout that the survey's probes may take where it is longer than their own; at most an hour.
std::chrono::milliseconds probe_deadline(const Context& context);

/// --root, --no-environment, --ask-pythons and --timeout.
machine::SurveyOptions survey_options(const Context& context);
/// All facts that judges look at, by these options.
facts::Snapshot read_everything(const Context& context, const Machine& machine, const probe::ReadRequest& request);

/// Whether --watch is there; fails where --count is without it.
Result<bool> is_watched(const Args& args);
/// --watch and --count: shows until a signal, an error, the count or the end of standard output; the last code.
Result<int> show_again_and_again(const Context& context, const Machine& machine,
                                 const std::function<Result<int>()>& show);

}  // namespace gpuwarden::cli
