// SPDX-License-Identifier: Apache-2.0
// gpuwarden report: what a recording or a run comes to, as text, JSON, Markdown and HTML.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/healing/run.hpp"
#include "gpuwarden/recording/compare.hpp"
#include "gpuwarden/recording/html.hpp"
#include "gpuwarden/recording/markdown.hpp"
#include "gpuwarden/recording/open.hpp"
#include "options.hpp"
#include "render/diagnosis_text.hpp"
#include "render/print_json.hpp"
#include "render/recording_text.hpp"

namespace gpuwarden::cli {
namespace {

using recording::Told;

constexpr auto kReportOptions = std::to_array<Option>({
    {"--html", OptionKind::text, "FILE", "write one HTML file with charts that needs no network (-: standard output)"},
    {"--markdown", OptionKind::text, "FILE", "write Markdown, for a ticket (-: standard output)"},
    {"--force", OptionKind::flag, "", "replace files that are there"},
    {"--compare", OptionKind::list, "FILE...", "show two side by side: report A --compare B"},
    {"--from", OptionKind::text, "TIME", "from then on: 14:03, 2026-11-20T14:03:07Z (UTC), 10m after the beginning"},
    {"--to", OptionKind::text, "TIME", "up to then"},
});

/// One file, or two to compare.
Result<std::vector<std::string>> files_of(const Args& args) {
  std::vector<std::string> files = args.rest;
  for (const std::string& file : args.all("compare")) files.push_back(file);
  const std::size_t wanted = args.has("compare") ? 2 : 1;
  if (files.empty())
    return fail(ErrorCode::invalid_argument, "report needs a file",
                "gpuwarden record writes one, and so does gpuwarden run --record FILE");
  if (files.size() == wanted) return files;
  if (wanted == 1)
    return fail(ErrorCode::invalid_argument, fmt::format("unexpected argument '{}'", printable(files[1])),
                "report A --compare B shows two recordings side by side");
  return fail(ErrorCode::invalid_argument, fmt::format("--compare needs two files, not {}", files.size()),
              "gpuwarden report A --compare B");
}

/// Files that are there stay, unless --force replaces them; pipes and devices are written to as they are.
Result<void> check_outputs(const Args& args) {
  for (const char* option : {"html", "markdown"}) {
    const auto file = args.text(option);
    std::error_code ignored;
    if (file && *file != "-" && !args.has("force") && std::filesystem::is_regular_file(*file, ignored))
      return fail(ErrorCode::invalid_argument, fmt::format("--{}: {} exists already", option, printable(*file)),
                  "choose another name, or replace it with --force");
    if (file && !can_write_output(*file))
      return fail(ErrorCode::invalid_argument, fmt::format("--{}: cannot write {}", option, printable(*file)));
  }
  return check_standard_output(args, {"html", "markdown"});
}

Result<void> write_text(const std::string& file, const std::string& text) {
  GPUWARDEN_CHECK(write_output(file, text));
  if (file != "-") say("gpuwarden: wrote {}\n", printable(file));
  return {};
}

/// Of a run that failed: why.
Result<void> show_failures(const std::vector<std::string>& files, const Style& style) {
  for (const std::string& file : files) {
    if (const std::string signal = healing::read_signal_text(file); !signal.empty())
      fmt::print("\n{}{}\n", files.size() > 1 ? printable(file) + ": " : "", signal);
    GPUWARDEN_TRY(const auto why, healing::read_post_mortem(file));
    if (why)
      fmt::print("\n{}{}", files.size() > 1 ? printable(file) + ":\n" : "",
                 diagnosis_text(logs::report_of(*why), {}, style));
  }
  return {};
}

/// Everything that is asked for, of one file or of two side by side.
Result<void> show(const Args& args, const std::vector<Told>& told, const Style& style) {
  const bool two = told.size() == 2;
  const Told& a = told.front();
  const Told& b = told.back();
  if (const auto file = args.text("html"))
    GPUWARDEN_CHECK(write_text(*file, two ? recording::compare_html(a, b) : recording::to_html(a)));
  if (const auto file = args.text("markdown"))
    GPUWARDEN_CHECK(
        write_text(*file, two ? recording::compare_markdown(a.summary, b.summary) : recording::to_markdown(a.summary)));
  if (args.has("json"))
    print_json(two ? recording::to_json(recording::compare(a.summary, b.summary), a.summary, b.summary)
                   : recording::to_json(a.summary));
  else if (!args.has("html") && !args.has("markdown"))
    fmt::print("{}", two ? compare_text(a.summary, b.summary, style) : summary_text(a.summary, style));
  return {};
}

Result<int> run_report(Context& context) {
  const Args& args = context.args;
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto files, files_of(args));
  GPUWARDEN_CHECK(check_outputs(args));
  const recording::Within within{args.text("from").value_or(""), args.text("to").value_or("")};
  std::vector<Told> told;
  for (const std::string& file : files) {
    GPUWARDEN_TRY(told.emplace_back(), recording::open_report(file, within));
  }
  GPUWARDEN_CHECK(show(args, told, style));
  const bool documents = args.has("json") || args.has("html") || args.has("markdown");
  if (!documents) GPUWARDEN_CHECK(show_failures(files, style));
  return kFine;
}

}  // namespace

constinit const Subcommand kReportCommand{
    .name = "report",
    .summary = "show what a recording or a run comes to; as HTML with charts, too",
    .usage = "gpuwarden report [options] FILE",
    .groups = {OptionGroup{kReportOptions}},
    .rest = Rest::operands,
    .details =
        "Reads recordings (gpuwarden record, gpuwarden run --record) and the JSON of gpuwarden run --report. Says "
        "what each GPU did, who used it, what happened, and what was wasted.",
    .run = run_report};

}  // namespace gpuwarden::cli
