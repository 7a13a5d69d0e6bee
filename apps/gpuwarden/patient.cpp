// SPDX-License-Identifier: Apache-2.0
#include "patient.hpp"

#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/logs/captures.hpp"

namespace gpuwarden::cli {

Result<Patient> read_patient(const Context& context) {
  const Args& args = context.args;
  const auto files = args.list("from");
  if (files.empty() || args.has("simulate")) {
    GPUWARDEN_TRY(Machine machine, open_machine(context));
    return Patient{std::move(machine), {}};
  }
  GPUWARDEN_TRY(auto told, logs::read_told_machine(files));
  for (const std::string& warning : told.capture.warnings) warn(printable(warning));
  const std::string name = files.front() == "-" ? "standard input" : files.front();
  GPUWARDEN_TRY(Machine machine, open_told_machine(context, {std::move(told.capture.snapshot), name}));
  return Patient{std::move(machine), std::move(told.findings)};
}

}  // namespace gpuwarden::cli
