// SPDX-License-Identifier: Apache-2.0
// gpuwarden driver status | recommend | plan | apply | rollback | history
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/availability.hpp"
#include "gpuwarden/driver/json.hpp"
#include "gpuwarden/driver/request.hpp"
#include "gpuwarden/facts/json.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/driver_text.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kDriverOptions = std::to_array<Option>({
    {"--branch", OptionKind::text, "N", "this driver branch: 580"},
    {"--driver-version", OptionKind::text, "VERSION", "exactly this driver: 580.126.09"},
    {"--packaging", OptionKind::text, "WHOSE", "distribution, cuda-repository or runfile",
     "distribution cuda-repository runfile"},
    {"--runfile", OptionKind::text, "FILE", "install this NVIDIA-Linux-*.run"},
    {"--module", OptionKind::text, "WHICH", "the open or the proprietary kernel module", "open proprietary"},
    {"--cuda", OptionKind::text, "VERSION", "programs of this CUDA version shall run"},
    {"--for", OptionKind::text, "PURPOSE", "a driver for: pytorch==2.5.1+cu124, vllm, sm_90"},
    {"--distribution", OptionKind::text, "ID[:VERSION]",
     "plan for a machine with it, with the GPUs of --from or --simulate: ubuntu:22.04, rhel:9"},
    {"--mirror", OptionKind::text, "URL",
     "plan: ask this mirror of NVIDIA's CUDA repositories whether it has the driver"},
    {"--offline", OptionKind::flag, "", "plan: do not ask the repository (GPUWARDEN_OFFLINE=1 does the same)"},
    {"--compute-only", OptionKind::flag, "", "no graphics libraries"},
    {"--through-reboot", OptionKind::flag, "", "do not unload modules: reboot instead"},
    {"--script", OptionKind::flag, "", "plan: print it as a shell script"},
    {"--yes", OptionKind::flag, "", "apply, rollback: do not ask"},
    {"--resume", OptionKind::flag, "", "apply: go on with the run that was cut off"},
    {"--force", OptionKind::list, "NAME...", "apply although these pre-checks say no"},
});

namespace fs = std::filesystem;
using driver::DriverFacts;
using driver::DriverProcedure;
using driver::DriverRequest;
using driver::DriverRun;
using driver::PreCheck;
using driver::RunState;

void print(const Context& context, nlohmann::json json, std::string_view text, bool simulated = false) {
  json["schema"] = facts::kJsonSchema;
  json["simulated"] = simulated;
  print_answer(context, json, text);
}

fs::path root_of(const Context& context) {
  std::error_code ignored;
  return fs::weakly_canonical(context.args.text("root").value_or("/"), ignored);
}

/// Of this machine or an image, or what a capture and a simulated fleet tell.
Result<DriverFacts> look(Context& context) {
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  const fs::path root = root_of(context);
  const bool told = machine.captured() || machine.simulated();
  const std::string distribution = context.args.text("distribution").value_or("");
  if (!distribution.empty() && (!told || root != "/"))
    return fail(ErrorCode::invalid_argument, "--distribution requires --from or --simulate",
                "the GPUs of the other machine: gpuwarden driver plan --from smi.txt --distribution ubuntu:22.04");
  auto snapshot = read_everything(context, machine, {.detail = probe::Detail::full, .holders = true});
  auto facts = driver::gather_driver_facts(std::move(snapshot), root, told, distribution);
  if (!facts) return std::unexpected(about("distribution", facts.error()));
  return facts;
}

struct Prepared {
  DriverRequest request;
  DriverFacts facts;
  driver::Plan plan;
};

/// Fails, naming the option, where what cannot be forced is to be.
Result<void> check_force_option(const std::vector<PreCheck>& checks, const DriverRequest& request,
                                const std::string& other) {
  const auto allowed = driver::check_forced(checks, request, {other});
  if (!allowed) return std::unexpected(about("force", allowed.error()));
  return {};
}

Result<Prepared> prepare(Context& context) {
  Prepared result;
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  GPUWARDEN_TRY(result.request, driver::read_request(context.args, knowledge));
  GPUWARDEN_TRY(result.facts, look(context));
  GPUWARDEN_TRY(result.plan, driver::make_plan(result.facts, result.request, knowledge, system_clock().wall_now()));
  GPUWARDEN_CHECK(check_force_option(result.plan.checks, result.request, "way-back"));
  return result;
}

Result<int> status(Context& context) {
  GPUWARDEN_TRY(const auto facts, look(context));
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  const auto answer = driver::driver_status(facts, knowledge, system_clock().wall_now());
  print(context, to_json(answer), status_text(answer, style), facts.snapshot.simulated);
  return answer.problems.empty() ? kFine : kNo;
}

Result<int> recommend(Context& context) {
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  GPUWARDEN_TRY(const auto request, driver::read_request(context.args, knowledge));
  GPUWARDEN_TRY(const auto facts, look(context));
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto answer, driver::recommend_driver(facts, request, knowledge, system_clock().wall_now()));
  print(context, to_json(answer), recommendation_text(answer, style), facts.snapshot.simulated);
  return answer.branch_known ? kFine : kNo;
}

Result<int> plan(Context& context) {
  GPUWARDEN_TRY(auto prepared, prepare(context));
  auto& [request, facts, plan] = prepared;
  GPUWARDEN_TRY(const auto how, driver::read_asking(context.args, context.environment));
  plan.checks.push_back(driver::check_repository(facts, request, plan.target, how));
  const PreCheck& there = plan.checks.back();
  const bool in_doubt = driver::is_in_doubt(plan);
  if (in_doubt)
    warn(fmt::format("R{} is not in the tables: newer than they are, or never released, and no repository confirmed it",
                     plan.target.branch));
  const bool script = context.args.has("script");
  if (script && there.state != PreCheck::State::ok) warn(printable(there.found));
  GPUWARDEN_TRY(const auto style, style_of(context));
  constexpr std::string_view kNext =
      "\ngpuwarden driver plan --script prints the commands, gpuwarden driver apply carries them out\n";
  print(context, to_json(plan), script ? script_of(plan, request) : plan_text(plan, request, style).append(kNext),
        facts.snapshot.simulated);
  return in_doubt ? kNo : kFine;
}

/// Tells each step on stderr while it proceeds.
void tell(const driver::StepReport& report) {
  using driver::StepState;
  const driver::Step& step = *report.step;
  if (report.state == StepState::started) say("{} ...\n", step.title);
  if (report.state == StepState::undoing && !step.undo.empty()) say("back: {} ...\n", step.title);
  if (report.state == StepState::failed || report.state == StepState::undo_failed)
    say("  failed: {}\n", printable(report.message));
}

/// The end of a run in words, and the exit code.
Result<int> conclude(const Context& context, const DriverRun& run) {
  print(context, to_json(run), "");
  if (run.state == RunState::completed) {
    say("done: {} -> {}\n", run.plan.from.empty() ? "none" : run.plan.from, run.plan.to);
    for (const std::string& note : run.plan.notes) say("note: {}\n", printable(note));
    return kFine;
  }
  if (run.state == RunState::rolled_back || run.state == RunState::waiting_for_reboot) {
    if (run.state == RunState::rolled_back)
      say("back at what was recorded: {}\n", run.plan.from.empty() ? "no driver" : run.plan.from);
    else
      say("reboot now, then: gpuwarden driver apply --resume\n");
    return kFine;
  }
  return fail(
      ErrorCode::failed, fmt::format("the run {} stopped: {}", run.plan.id, printable(run.message)),
      fmt::format("its log is {}; fix the cause, then: gpuwarden driver {}", log_of(root_of(context), run).string(),
                  driver::is_on_the_way_back(run) ? "rollback, which goes on with the way back"
                                                  : "apply --resume, or roll it back: gpuwarden driver rollback"));
}

bool is_agreed(const Context& context, std::string_view question) { return context.args.has("yes") || ask(question); }

int nothing_changed() {
  say("nothing was changed\n");
  return kNo;
}

int refuse(const std::vector<const PreCheck*>& checks) {
  for (const auto* const check : checks)
    say("gpuwarden: refused, {}: {}\nhint: {}{}\n", check->title, printable(check->found),
        check->remedy.empty() ? "nothing was changed" : printable(check->remedy),
        check->can_be_forced ? fmt::format("; --force {} overrules", check->id) : "");
  return kNo;
}

Result<int> resume(Context& context) {
  GPUWARDEN_TRY(auto procedure, DriverProcedure::open_as_root(root_of(context), driver::Records::must_exist));
  const DriverRun* const open = procedure.open_run();
  if (open != nullptr && !is_agreed(context, fmt::format("Go on with the run {}?", open->plan.id)))
    return nothing_changed();
  GPUWARDEN_CHECK(procedure.resume(tell));
  return conclude(context, *procedure.latest());
}

Result<int> apply(Context& context) {
  if (context.args.has("resume")) return resume(context);
  GPUWARDEN_TRY(const auto prepared, prepare(context));
  const auto& [request, facts, plan] = prepared;
  if (facts.on_paper)
    return fail(ErrorCode::invalid_argument, "a plan for a capture or a simulated fleet cannot be applied",
                "without --from and --simulate, or with --root DIR");
  GPUWARDEN_TRY(auto procedure, DriverProcedure::open_as_root(facts.root, driver::Records::make));
  if (const auto refused = refusals(plan.checks, request); !refused.empty()) return refuse(refused);
  say("{}\n", plan_text(plan, request, {}));
  if (!is_agreed(context, fmt::format("Apply these {} steps?", plan.steps.size()))) return nothing_changed();
  GPUWARDEN_CHECK(procedure.apply(plan, tell));
  return conclude(context, *procedure.latest());
}

/// The checks that a way back must pass once the new driver serves.
Result<std::vector<PreCheck>> checks_of_way_back(Context& context, const DriverRun* run) {
  if (run == nullptr || !driver::serves_again(*run)) return std::vector<PreCheck>{};
  GPUWARDEN_TRY(const DriverFacts facts, look(context));
  return driver::way_back_checks(facts);
}

Result<int> rollback(Context& context) {
  GPUWARDEN_TRY(auto procedure, DriverProcedure::open_as_root(root_of(context), driver::Records::must_exist));
  GPUWARDEN_TRY(const auto checks, checks_of_way_back(context, procedure.to_roll_back()));
  const DriverRequest request{.forced = context.args.list("force")};
  GPUWARDEN_CHECK(check_force_option(checks, request, "sessions"));
  if (const auto refused = refusals(checks, request); !refused.empty()) return refuse(refused);
  if (!is_agreed(context, "Return to the driver that was recorded?")) return nothing_changed();
  GPUWARDEN_CHECK(procedure.rollback(tell));
  return conclude(context, *procedure.latest());
}

Result<int> history(Context& context) {
  GPUWARDEN_TRY(const auto runs, DriverProcedure::history(root_of(context)));
  GPUWARDEN_TRY(const auto style, style_of(context));
  auto json = nlohmann::json::array();
  for (const DriverRun& run : runs) json.push_back(to_json(run));
  print(context, {{"runs", std::move(json)}}, history_text(runs, style));
  return kFine;
}

constexpr auto kVerbs = std::to_array<Action>({{"status", status},
                                               {"recommend", recommend},
                                               {"plan", plan},
                                               {"apply", apply},
                                               {"rollback", rollback},
                                               {"history", history}});

}  // namespace

constinit const Subcommand kDriverCommand{
    .name = "driver",
    .summary = "judge, plan, change and bring back NVIDIA's driver",
    .usage = "gpuwarden driver [status | recommend | plan | apply | rollback | history] [options]",
    .groups = {OptionGroup{kDriverOptions}, OptionGroup{kFromManyOptions}, OptionGroup{kKnowledgeOptions}},
    .rest = Rest::operands,
    .actions = "status recommend plan apply rollback history",
    .run = [](Context& context) { return run_action(context, kVerbs, "plan"); }};

}  // namespace gpuwarden::cli
