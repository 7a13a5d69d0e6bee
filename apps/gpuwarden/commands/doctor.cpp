// SPDX-License-Identifier: Apache-2.0
// gpuwarden doctor
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "burn_in.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/fixes.hpp"
#include "gpuwarden/machine/examine.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/doctor_text.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kDoctorOptions = std::to_array<Option>({
    {"--for", OptionKind::text, "PURPOSE", "judge for: pytorch==2.5.1+cu124, vllm, sm_90, \"train llama-3-8b\""},
    {"--expect", OptionKind::text, "FILE", "compare with a site's inventory: count, model, memory, driver, link width"},
    {"--only", OptionKind::list, "ID...", "only these checks or areas"},
    {"--skip", OptionKind::list, "ID...", "not these checks or areas"},
    {"--fail-on", OptionKind::text, "SEVERITY", "exit code 1 from this severity on (error)",
     "info warning error critical"},
    {"--why", OptionKind::flag, "", "with the source of every rule"},
    {"--junit", OptionKind::text, "FILE", "write a JUnit report too"},
    {"--fix", OptionKind::flag, "", "print the commands that fix what was found"},
    {"--apply", OptionKind::flag, "", "with --fix: run those that are safe, asking before each"},
    {"--yes", OptionKind::flag, "", "with --apply: do not ask"},
    {"--compare", OptionKind::flag, "", "compare machines: the operands are their captures"},
    {"--list", OptionKind::flag, "", "show all checks"},
});

constexpr auto kBurnInOptions = std::to_array<Option>({
    {"--deep", OptionKind::flag, "", "put the GPUs to work: test memory, links, bandwidth and arithmetic"},
    {"--deep-seconds", OptionKind::text, "N", "with --deep: how long each GPU may take (30)"},
    {"--deep-memory", OptionKind::text, "PERCENT", "with --deep: how much of the free memory is tested (90)"},
    {"--gpus", OptionKind::list, "ID...", "with --deep: only these GPUs"},
    {"--force", OptionKind::flag, "", "with --deep: test GPUs that others use, too"},
});

using doctor::Examination;
using doctor::Severity;

Result<int> compare_machines(Context& context) {
  const auto& files = context.args.rest;
  if (files.size() < 2)
    return fail(ErrorCode::invalid_argument, "--compare needs two machines at least",
                "gpuwarden doctor --compare A.json B.json ...   (gpuwarden snapshot -o A.json writes one)");
  std::vector<doctor::NamedMachine> machines;
  for (const std::string& name : doctor::names_of_machines(files)) {
    GPUWARDEN_TRY(auto captured, read_captures({files[machines.size()]}));
    machines.push_back({name, std::move(captured.snapshot)});
  }
  const doctor::Comparison comparison = doctor::compare(machines);
  print_answer(context, doctor::to_json(comparison), comparison_text(comparison));
  return comparison.differences.empty() ? kFine : kNo;
}

/// What was looked at: "SIMULATED h100x8", "FROM report.txt: ...", "node1".
std::string subject_of(const facts::Snapshot& snapshot, const doctor::Purpose& purpose) {
  std::string text = snapshot.simulated         ? "SIMULATED " + snapshot.fleet
                     : !snapshot.origin.empty() ? "FROM " + snapshot.origin
                                                : snapshot.host;
  if (!purpose.text.empty()) text += "  for " + purpose.text;
  return printable(text);
}

void tell(const doctor::FixOutcome& outcome) {
  if (outcome.state == doctor::FixState::done) fmt::print("done: {}\n", outcome.fix.command);
  if (outcome.state == doctor::FixState::failed)
    warn(fmt::format("failed: {}: {}", outcome.fix.command, printable(outcome.problem)));
}

/// Runs the fixes that undo easily and stop no work, asking before each.
Result<int> apply(const Context& context, const Machine& machine, const Examination& examination) {
  if (machine.captured() || machine.simulated())
    return fail(ErrorCode::invalid_argument, "--apply works on this machine only", "without --from and --simulate");
  const auto fixes = doctor::safe_fixes(examination);
  if (fixes.empty())
    fmt::print("nothing here is safe to be done by itself; gpuwarden doctor --fix shows the commands\n");
  const bool unasked = context.args.has("yes");
  const auto is_agreed = [&](const doctor::Fix& fix) { return unasked || ask(fmt::format("run: {}\n ", fix.command)); };
  const auto outcomes = doctor::apply_fixes(fixes, {.agree = is_agreed, .run = run_command, .told = tell});
  return std::ranges::count(outcomes, doctor::FixState::failed, &doctor::FixOutcome::state) > 0 ? kNo : kFine;
}

Result<void> print(const Context& context, const doctor::MachineReport& report, Severity fail_on) {
  GPUWARDEN_TRY(const auto style, style_of(context));
  if (const auto file = context.args.text("junit"))
    GPUWARDEN_CHECK(write_output(*file, doctor::to_junit(report.examination, fail_on)));
  std::string text =
      doctor_text(report.examination, subject_of(report.snapshot, report.purpose), context.args.has("why"), style);
  if (report.burn_in != nullptr) text += burn_in_text("Deep test", *report.burn_in, style);
  print_answer(context, doctor::to_json(report), text);
  return {};
}

/// Options that mean nothing together are told, not left out in silence.
Result<void> check_options(const Context& context) {
  static constexpr auto kClashes = std::to_array<Clash>({
      {"fix", "json", "--json has the steps of every finding under fix"},
      {"fix", "junit", "run it once for each"},
      {"compare", "junit", "--json is for programs"},
      {"compare", "fix", "judge one machine to fix it: --from FILE --fix"},
      {"compare", "for", "judge each machine for it"},
      {"compare", "expect", "judge each machine by it"},
      {"compare", "from", "the machines are the operands of --compare"},
      {"compare", "deep", "--deep is for one machine"},
      {"list", "json", "the list is text"},
      {"simulate", "root", "a simulated fleet has no software on disks"},
  });
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  if (args.has("apply") && !args.has("fix"))
    return fail(ErrorCode::invalid_argument, "--apply needs --fix", "gpuwarden doctor --fix --apply");
  if (args.has("yes") && !args.has("apply"))
    return fail(ErrorCode::invalid_argument, "--yes needs --fix --apply", "gpuwarden doctor --fix --apply --yes");
  return {};
}

Result<int> examine_machine(Context& context) {
  GPUWARDEN_TRY(const knowledge::Knowledge knowledge, open_knowledge(context));
  if (context.args.has("list")) {
    fmt::print("{}", check_list(knowledge));
    return kFine;
  }
  GPUWARDEN_TRY(const auto request, machine::read_examination(context.args, knowledge));
  GPUWARDEN_TRY(Patient patient, open_patient(context));
  const Machine& machine = patient.machine;
  const auto test = [&](const facts::Snapshot& snapshot) { return run_burn_in(context, machine, snapshot, knowledge); };
  GPUWARDEN_TRY(const auto done, machine::examine(machine, knowledge, request,
                                                  {survey_options(context), std::move(patient.told), test}));
  const Examination& examination = done.examination;
  if (context.args.has("apply")) return apply(context, machine, examination);
  if (context.args.has("fix"))
    fmt::print("{}", doctor::fix_script(examination));
  else
    GPUWARDEN_CHECK(print(context, machine::report_of(done, request), request.fail_on));
  return examination.worst >= request.fail_on ? kNo : kFine;
}

Result<int> run_doctor(Context& context) {
  GPUWARDEN_CHECK(check_options(context));
  if (context.args.has("compare")) return compare_machines(context);
  if (!context.args.rest.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("doctor: unexpected argument '{}'", printable(context.args.rest[0])),
                "--from FILE looks at a capture, --compare A B compares machines");
  return examine_machine(context);
}

}  // namespace

constinit const Subcommand kDoctorCommand{
    .name = "doctor",
    .summary = "judge driver, GPUs, toolkits, frameworks and machine, and say what to do first",
    .usage = "gpuwarden doctor [--for PURPOSE] [--from FILE...] | --compare A.json B.json...",
    .groups = {OptionGroup{kDoctorOptions}, OptionGroup{kBurnInOptions}, OptionGroup{kFromManyOptions},
               OptionGroup{kKnowledgeOptions}},
    .rest = Rest::operands,
    .run = run_doctor};

}  // namespace gpuwarden::cli
