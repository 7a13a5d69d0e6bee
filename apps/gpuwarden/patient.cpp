// SPDX-License-Identifier: Apache-2.0
#include "patient.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/logs/recognise.hpp"
#include "gpuwarden/machine/captures.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

Result<Patient> read_patient(const Context& context) {
  const Args& args = context.args;
  const auto files = args.list("from");
  if (files.empty() || args.has("simulate")) {
    GPUWARDEN_TRY(Machine machine, open_machine(context));
    return Patient{std::move(machine), {}};
  }
  GPUWARDEN_TRY(const auto texts, machine::read_texts(files));
  std::vector<doctor::ToldFinding> told;
  capture::Capture capture;
  std::optional<Error> unread;
  for (const auto& file : texts) {
    logs::Recognised known = logs::recognise(file.text, file.name);
    if (known.facts && capture.parts.empty())
      capture = std::move(*known.facts);
    else if (known.facts)
      capture::add_capture(capture, std::move(*known.facts));
    else if (known.told.empty())
      unread = std::move(known.unread);
    std::ranges::move(known.told, std::back_inserter(told));
  }
  if (unread) return std::unexpected(*unread);
  for (const std::string& warning : capture.warnings) warn(printable(warning));
  if (capture.parts.empty()) capture.snapshot.origin = texts.front().name + ": a log";
  GPUWARDEN_TRY(Machine machine, open_told_machine(context, {std::move(capture.snapshot), texts.front().name}));
  return Patient{std::move(machine), std::move(told)};
}

}  // namespace gpuwarden::cli
