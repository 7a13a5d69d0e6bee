// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/recognise.hpp"

#include <fmt/format.h>

#include <utility>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/logs/findings.hpp"

namespace gpuwarden::logs {

Recognised recognise(std::string_view text, const std::string& name) {
  Recognised result{.facts = {}, .unread = {}, .told = findings_of(diagnosis::diagnose_text(text, name))};
  auto capture = capture::read_capture(text, name);
  if (capture)
    result.facts = std::move(*capture);
  else
    result.unread = std::move(capture.error());
  return result;
}

Error without_facts(std::string_view text, const std::string& name) {
  Recognised known = recognise(text, name);
  Error unread = known.unread.value_or(Error{ErrorCode::corrupt, name + ": no facts of a machine", ""});
  if (known.told.empty()) return unread;
  const std::string file = name == "standard input" ? "-" : shell_word(name);
  return {ErrorCode::corrupt,
          fmt::format("{}: a log of a failure, without facts of a machine: {}", printable(name),
                      known.told.front().finding.title),
          fmt::format("gpuwarden diagnose {} says what to do", file)};
}

}  // namespace gpuwarden::logs
