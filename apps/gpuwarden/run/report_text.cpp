// SPDX-License-Identifier: Apache-2.0
#include "run/report_text.hpp"

#include <fmt/format.h>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/overview.hpp"
#include "render/diagnosis_text.hpp"
#include "render/recording_text.hpp"

namespace gpuwarden::cli {
namespace {

std::string energy_text(const std::optional<double>& joules, bool is_estimate) {
  if (!joules) return "-";
  const std::string text =
      *joules < 10000 ? fmt::format("{:.0f} J", *joules) : fmt::format("{:.2f} Wh", *joules / 3600);
  return is_estimate ? "~" + text : text;
}

std::string gpu_line(const launch::GpuReport& gpu) {
  std::string throttling;
  for (const auto reason : gpu.throttling)
    throttling += fmt::format("{}{}", throttling.empty() ? ", throttled: " : " ", facts::to_string(reason));
  return fmt::format("  GPU {}: peak memory {}, mean utilization {}, peak temperature {}, energy {}{}{}\n",
                     gpu.index.value, gpu.peak_memory ? format_size(*gpu.peak_memory) : "-",
                     gpu.mean_utilization ? fmt::format("{:.0f} %", *gpu.mean_utilization) : "-",
                     gpu.peak_temperature ? fmt::format("{} C", gpu.peak_temperature->value) : "-",
                     energy_text(gpu.energy_joules, gpu.energy_is_estimate), throttling,
                     gpu.trouble.empty() ? "" : "; trouble: " + gpu.trouble);
}

/// "rank 1 (standard error):4: what it says".
std::string line_text(const diagnosis::Evidence& evidence, const Style& style) {
  constexpr std::size_t kLongest = 160;
  const std::string text = printable(trim(evidence.text));
  return "    " +
         wrapped(
             fmt::format("{}: {}", printable(evidence.file), width_of(text) > kLongest ? fit(text, kLongest) : text), 4,
             6, style.width) +
         "\n";
}

/// The innermost frames of ranks that were given up, so that one sees where they stand.
std::string stacks_text(const launch::JobEnd& end, const Style& style) {
  constexpr std::size_t kRanks = 4;
  constexpr std::size_t kFrames = 6;
  std::string text;
  std::size_t shown = 0;
  for (const launch::RankEnd& rank : end.ranks) {
    if (rank.stacks.empty() || ++shown > kRanks) continue;
    text += fmt::format("  rank {} stood here:\n", rank.rank);
    std::size_t frames = 0;
    for (const std::string_view line : split(rank.stacks, '\n')) {
      if (trim(line).empty() || ++frames > kFrames) continue;
      const std::string shown_part = fit(printable(trim(line)), std::max<std::size_t>(style.width, 24) - 4);
      text += fmt::format("    {}\n", shown_part.substr(0, shown_part.find_last_not_of(' ') + 1));
    }
  }
  return text;
}

/// The likeliest cause with its first line and steps; else the program's own error. Empty: nothing is known.
std::string cause_text(const healing::Attempt& attempt, const Style& style) {
  constexpr std::size_t kSteps = 3;
  const diagnosis::Diagnosis& diagnosis = attempt.judgement.diagnosis;
  if (!diagnosis.causes.empty() && weight_among(diagnosis, diagnosis.causes.front()) >= diagnosis::kLikelyCause) {
    const diagnosis::Cause& cause = diagnosis.causes.front();
    const std::string sentence = cause.summary.empty() ? cause.title : cause.summary;
    std::string text = "  " + style.paint(wrapped("cause: " + printable(sentence), 2, 4, style.width), Tone::bold);
    text += fmt::format("\n    {}, {:.0f} %  [{}]\n", words_for(cause.confidence), cause.confidence * 100, cause.id);
    if (!cause.evidence.empty()) text += line_text(cause.evidence.front(), style);
    std::vector<std::string> steps = cause.fix;
    if (steps.size() > kSteps) steps.resize(kSteps);
    return text + steps_text("do", steps, 2, style);
  }
  if (!diagnosis.ordinary) return "";
  diagnosis::Evidence line = *diagnosis.ordinary;
  if (!diagnosis.ordinary_frame.empty()) line.text += fmt::format(" (at {})", diagnosis.ordinary_frame);
  return line_text(line, style);
}

}  // namespace

std::string run_report_text(const launch::RunReport& report, const healing::Total& total) {
  const bool several = total.tries > 1;
  const std::string after = several ? fmt::format("{} tries in {}", total.tries, format_duration(total.wall_time))
                                    : format_duration(report.end.wall_time);
  std::string text =
      fmt::format("\ngpuwarden: {}{} after {}, exit code {}\n", report.simulated ? "[simulated figures] " : "",
                  report.end.exit_code == 0 ? "finished" : "ended", after, report.end.exit_code);
  if (several)
    text += fmt::format("  all tries: ranks ran for {}, energy {}\n  the last try, {} long:\n",
                        format_duration(total.run_time), energy_text(total.energy_joules, total.energy_is_estimate),
                        format_duration(report.end.wall_time));
  if (report.end.first_failure && report.end.ranks.size() > 1)
    text += fmt::format("  rank {} failed first\n", *report.end.first_failure);
  if (const std::string signal = launch::signal_text(report.end); !signal.empty())
    text += fmt::format("  {}\n", signal);
  for (const auto& gpu : report.gpus) text += gpu_line(gpu);
  text += gpu_errors_text(launch::summary_of(report));  // one that failed was warned of
  for (const launch::Straggler& one : report.stragglers) text += "  " + one.sentence() + "\n";
  std::vector<recording::Waste> waste = report.waste;
  std::erase_if(waste, [](const recording::Waste& one) { return one.id == "gpu_lost"; });
  text += waste_text(waste, {}, 2);
  for (const launch::SiteFinding& finding : report.findings)
    text += fmt::format("  {}: {} [{}]{}\n", finding.severity, finding.message, finding.id,
                        finding.fix.empty() ? "" : ": " + finding.fix);
  return text;
}

std::string attempt_text(const healing::Attempt& attempt, bool alone, const Style& style) {
  if (alone) {
    const std::string cause = stacks_text(attempt.end, style) + cause_text(attempt, style);
    return cause.empty() ? "" : "\n" + cause;
  }
  std::string text =
      fmt::format("\ngpuwarden: try {} ended with exit code {} after {}: {}\n", attempt.number + 1,
                  attempt.end.exit_code, format_duration(attempt.end.wall_time), printable(attempt.judgement.why));
  text += stacks_text(attempt.end, style) + cause_text(attempt, style);
  if (!attempt.restarts) return text + fmt::format("  {}\n", printable(attempt.decision));
  if (!attempt.counts) return text + "  starting again, on what is left and others\n";
  text += fmt::format("  starting again in {:.1f} s{}", std::chrono::duration<double>(attempt.pause).count(),
                      attempt.judgement.restart == knowledge::Restart::other_gpus ? ", on other GPUs" : "");
  if (attempt.fewer_gpus) text += fmt::format(", with {} instead of {} GPUs", *attempt.fewer_gpus, attempt.gpus.size());
  if (!attempt.changes.empty())
    text += fmt::format(", with {}", printable(launch::settings_text(attempt.changes)));
  else if (!attempt.judgement.remedy.empty() && !attempt.fewer_gpus)
    text += fmt::format("; --heal would set {}", printable(launch::settings_text(attempt.judgement.remedy)));
  return text + "\n";
}

std::string no_restart_text(const healing::Attempt& attempt) {
  return fmt::format("gpuwarden: {}\n", printable(attempt.decision));
}

int write_reports(const std::vector<ReportFile>& files, int code) {
  bool all_written = true;
  for (const ReportFile& one : files) {
    const auto written = write_output(one.file, one.text);
    if (written) continue;
    complain(written.error());
    all_written = false;
  }
  return all_written || code != kFine ? code : kNo;
}

}  // namespace gpuwarden::cli
