// SPDX-License-Identifier: Apache-2.0
// A plan as a shell script that a person can read, keep and run.
#include <fmt/format.h>

#include <algorithm>

#include "driver/checks.hpp"
#include "driver/packagings.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

namespace {

std::string indented(std::string_view text) {
  std::string result;
  for (const auto line : split(text, '\n')) {
    if (!line.empty()) result += fmt::format("  {}\n", line);
  }
  return result.empty() ? "  :\n" : result;
}

std::string function_name(std::string_view prefix, std::string_view id) {
  std::string name = fmt::format("{}_{}", prefix, id);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string head(const Plan& plan) {
  std::string text = fmt::format(
      "#!/bin/sh\n# NVIDIA driver: from {} to {}.\n# Made by gpuwarden driver plan. Read it, then: sh FILE; the way "
      "back: "
      "sh FILE undo\n",
      plan.from.empty() ? "none" : printable(plan.from), printable(plan.to));
  for (const auto& reason : plan.target.reasons) text += fmt::format("# - {}\n", printable(reason));
  for (const auto& note : plan.notes) text += fmt::format("# Note: {}\n", printable(note));
  text += fmt::format("set -eu\nB={}/{}\n", kDriverFolder, shell_word(plan.id));
  return text + "\n# ---- what the steps share ----\n" + plan.prelude;
}

std::string checks(const Plan& plan, const DriverRequest& request) {
  std::string text = "\n# ---- before anything is changed ----\nrefuse() { die \"refused: $1\"; }\npre_checks() {\n";
  for (const PreCheck& check : plan.checks) {
    text += fmt::format("  # {}: {} ({})\n", printable(check.title), to_string(check.state), printable(check.found));
    if (is_forced(check, request))
      text += fmt::format("  # overruled: --force {}\n", printable(check.id));
    else if (!check.command.empty())
      text += fmt::format("  ( {}\n  ) || refuse {}\n", indented(check.command).substr(2), shell_quoted(check.title));
  }
  return text + "}\n";
}

}  // namespace

std::string script_of(const Plan& plan, const DriverRequest& request) {
  std::string text = head(plan) + checks(plan, request) + "\n# ---- the steps ----\n";
  std::string forward;
  std::string backward;
  int number = 0;
  for (const Step& step : plan.steps) {
    const std::string title = printable(step.title);
    text += fmt::format("\n# {}. {}\n{}() {{\n{}}}\n", ++number, title, function_name("step", step.id),
                        indented(step.commands));
    if (!step.undo.empty()) text += fmt::format("{}() {{\n{}}}\n", function_name("undo", step.id), indented(step.undo));
    forward +=
        fmt::format("    say {}\n    {}\n", shell_quoted(fmt::format("{}/{} {}", number, plan.steps.size(), title)),
                    function_name("step", step.id));
    if (step.reboot)
      forward += "    say 'reboot now, then run this script with the word: after-reboot'; exit 0 ;;\n  after-reboot)\n";
    if (!step.undo.empty())
      backward = fmt::format("    say {}\n    {}\n", shell_quoted("back: " + title), function_name("undo", step.id)) +
                 backward;
  }
  return text +
         fmt::format(
             "\ncase ${{1:-apply}} in\n  apply)\n    mkdir -p \"$B\"\n    pre_checks\n{}    ;;\n"
             "  undo)\n    [ -e \"$B/complete\" ] || die \"nothing was recorded in $B: there is nothing to undo\"\n"
             "{}    ;;\n"
             "  *) die \"usage: sh $0 [apply|undo]\" ;;\nesac\n",
             forward, backward);
}

}  // namespace gpuwarden::driver
