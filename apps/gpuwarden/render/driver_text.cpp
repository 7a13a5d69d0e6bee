// SPDX-License-Identifier: Apache-2.0
#include "render/driver_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

using driver::DriverRun;
using driver::Plan;
using driver::PreCheck;

constexpr std::size_t kDriverLabel = 16;

void add_list(std::string& text, std::string_view title, const std::vector<std::string>& lines, Tone tone,
              const Style& style) {
  if (lines.empty()) return;
  text += fmt::format("\n{}\n", style.paint(title, Tone::bold));
  for (const std::string& line : lines) text += fmt::format("  {}\n", style.paint(printable(line), tone));
}

std::string branch_words(const driver::DriverStatus& status) {
  if (status.branch == 0) return "";
  std::string text = fmt::format("R{}", status.branch);
  if (status.branch_type == "LTSB") text += ", long-term support";
  if (status.branch_type == "PB") text += ", production";
  if (status.branch_type == "NFB") text += ", new features";
  if (status.end_of_life == "past") return text + ", past its end of life";
  if (!status.end_of_life.empty())
    text += fmt::format(", end of life {}{}", status.end_of_life, status.past_end_of_life ? " (past)" : "");
  return text;
}

std::string check_line(const PreCheck& check, const driver::DriverRequest& request, const Style& style) {
  using State = PreCheck::State;
  const bool forced = check.can_be_forced && std::ranges::find(request.forced, check.id) != request.forced.end();
  std::string_view word = to_string(check.state);
  if (check.state == State::failed) word = forced ? "forced" : "no";
  Tone tone = check.state == State::ok ? Tone::good : Tone::dim;
  if (check.state == State::warning || word == "forced") tone = Tone::warning;
  if (word == "no") tone = Tone::bad;
  std::string text = fmt::format("  {} {} {}\n", style.paint(fit(word, 8), tone), fit(check.id, kDriverLabel),
                                 check.found.empty() ? "not known" : printable(check.found));
  if (check.state != State::ok && !check.remedy.empty())
    text +=
        fmt::format("  {}{}\n", std::string(kDriverLabel + 10, ' '), style.paint(printable(check.remedy), Tone::dim));
  return text;
}

Tone tone_of(driver::RunState state) {
  if (state == driver::RunState::completed) return Tone::good;
  if (state == driver::RunState::rolled_back) return Tone::dim;
  return state == driver::RunState::failed ? Tone::bad : Tone::warning;
}

}  // namespace

std::string status_text(const driver::DriverStatus& status, const Style& style) {
  const auto on_or_off = status.secure_boot.value_or(false) ? "on" : "off";
  const std::pair<std::string_view, std::string> rows[] = {
      {"loaded", status.loaded.value_or("none")},
      {"on disk", status.on_disk.value_or("")},
      {"libraries", status.library.value_or("")},
      {"firmware", status.firmware.value_or("")},
      {"fabric manager", status.fabric_manager.value_or("")},
      {"module", status.flavour ? std::string(to_string(*status.flavour)) : ""},
      {"branch", branch_words(status)},
      {"from", status.packaging ? std::string(words_of(*status.packaging)) : ""},
      {"package", status.package.value_or("")},
      {"DKMS", join(status.dkms_built_for, ", ")},
      {"Secure Boot", status.secure_boot ? on_or_off : ""}};
  std::string text = style.paint("NVIDIA driver", Tone::bold) + "\n";
  for (const auto& [label, value] : rows) {
    if (!value.empty()) text += fmt::format("  {}{}\n", fit(label, kDriverLabel), printable(value));
  }
  add_list(text, "what is wrong", status.problems, Tone::bad, style);
  return text;
}

std::string recommendation_text(const driver::Recommendation& target, const Style& style) {
  std::string text = fmt::format("{}\n", style.paint(fmt::format("R{}, {} kernel module, from {}", target.branch,
                                                                 to_string(target.flavour), words_of(target.packaging)),
                                                     Tone::bold));
  if (target.at_least) text += fmt::format("  at least {}\n", knowledge::to_string(target.at_least));
  add_list(text, "why", target.reasons, Tone::plain, style);
  add_list(text, "but", target.warnings, Tone::warning, style);
  return text;
}

std::string plan_text(const Plan& plan, const driver::DriverRequest& request, const Style& style) {
  std::string text = fmt::format("driver: {} -> {}\n", plan.from.empty() ? "none" : printable(plan.from),
                                 style.paint(printable(plan.to), Tone::bold));
  add_list(text, "why", plan.target.reasons, Tone::plain, style);
  text += fmt::format("\n{}\n", style.paint("before anything is changed", Tone::bold));
  for (const PreCheck& check : plan.checks) text += check_line(check, request, style);
  text += fmt::format("\n{}\n", style.paint("steps", Tone::bold));
  std::size_t number = 0;
  for (const driver::Step& step : plan.steps)
    text += fmt::format("  {:>2} {} {}\n", ++number, fit(step.id, kDriverLabel - 2), step.title);
  add_list(text, "notes", plan.notes, Tone::plain, style);
  return text;
}

std::string history_text(const std::vector<DriverRun>& runs, const Style& style) {
  if (runs.empty()) return "no driver was changed by gpuwarden here\n";
  std::string text;
  for (const DriverRun& run : runs) {
    const auto done = std::ranges::count(run.steps, driver::StepState::done);
    text += fmt::format("{}  {}  {}\n  {} -> {}\n  {} of {} steps are done\n", run.plan.id, run.started_at,
                        style.paint(spaced(to_string(run.state)), tone_of(run.state)),
                        run.plan.from.empty() ? "none" : printable(run.plan.from), printable(run.plan.to), done,
                        run.steps.size());
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      if (run.steps[i] == driver::StepState::failed || run.steps[i] == driver::StepState::undo_failed ||
          run.steps[i] == driver::StepState::started || run.steps[i] == driver::StepState::undoing)
        text += fmt::format("  {}: {}\n", run.plan.steps[i].id, spaced(to_string(run.steps[i])));
    }
    if (!run.message.empty() && !is_over(run.state))
      text += fmt::format("  {}\n", style.paint(printable(run.message), Tone::bad));
  }
  return text;
}

}  // namespace gpuwarden::cli
