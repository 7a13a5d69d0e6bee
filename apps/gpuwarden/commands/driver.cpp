// SPDX-License-Identifier: Apache-2.0
// gpuwarden driver status | recommend | plan | apply | rollback | history
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"
#include "gpuwarden/driver/availability.hpp"
#include "gpuwarden/driver/json.hpp"
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
using driver::Plan;
using driver::RunState;

void print_answer(nlohmann::json json, bool simulated = false) {
  json["schema"] = facts::kJsonSchema;
  json["simulated"] = simulated;
  print_json(json);
}

fs::path root_of(const Context& context) {
  const auto given = context.args.text("root");
  std::error_code ignored;
  return given ? fs::weakly_canonical(*given, ignored) : fs::path("/");
}

/// What is looked at: this machine or an image, or what a capture and a simulated fleet tell.
struct Look {
  DriverFacts facts;
  bool on_paper = false;  ///< of a capture or a simulated fleet alone: nothing can be applied to it
};

/// --distribution ubuntu:22.04: what the text of another machine does not tell, or another one than it tells.
Result<void> assume_distribution(const Args& args, Look& look) {
  const auto text = args.text("distribution");
  if (!text) return {};
  if (!look.on_paper)
    return fail(ErrorCode::invalid_argument, "--distribution requires --from or --simulate",
                "the GPUs of the other machine: gpuwarden driver plan --from smi.txt --distribution ubuntu:22.04");
  auto& environment = look.facts.snapshot.environment;
  if (!environment) environment.emplace();
  if (const auto named = driver::name_distribution(*text, environment->host); !named)
    return std::unexpected(about("distribution", named.error()));
  return {};
}

Result<Look> look(Context& context) {
  const fs::path root = root_of(context);
  if (!fs::is_directory(root))
    return fail(ErrorCode::not_found, fmt::format("--root: {} is not a directory", printable(root.string())));
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  Look result;
  result.facts.snapshot = read_everything(context, machine, {.detail = probe::Detail::full, .holders = true});
  result.on_paper = root == "/" && (machine.captured() || machine.simulated());
  GPUWARDEN_CHECK(assume_distribution(context.args, result));
  // What is on the bus of another root is read with its packages.
  if (root != "/") result.facts.snapshot.gpus.clear();
  if (result.on_paper)
    driver::assume_facts(result.facts);
  else
    driver::read_driver_facts(root, result.facts);
  return result;
}

Result<void> read_target(const Args& args, DriverRequest& request) {
  if (const auto text = args.text("branch")) {
    const auto number = parse_integer(text->starts_with('R') ? text->substr(1) : *text);
    if (!number || *number < 300 || *number > 9999)
      return fail(ErrorCode::invalid_argument, fmt::format("--branch: '{}' is not a driver branch", printable(*text)),
                  "for example --branch 580");
    request.branch = static_cast<int>(*number);
  }
  if (const auto text = args.text("driver-version")) {
    const auto version = knowledge::Version::parse(*text);
    if (!version || !text->contains('.') || text->find_first_not_of("0123456789.") != std::string::npos)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--driver-version: '{}' is not a driver version", printable(*text)),
                  "for example --driver-version 580.126.09");
    if (request.branch != 0 && request.branch != version->major)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--driver-version {} is not of the branch {}", *text, request.branch));
    request.version = *text;
  }
  if (const auto text = args.text("packaging")) {
    request.packaging = driver::packaging_from(*text);
    if (!request.packaging)
      return fail(ErrorCode::invalid_argument, fmt::format("--packaging: unknown value '{}'", printable(*text)),
                  "distribution, cuda-repository or runfile");
  }
  if (const auto text = args.text("module")) {
    request.flavour = facts::module_flavour_from(*text);
    if (!request.flavour)
      return fail(ErrorCode::invalid_argument, fmt::format("--module: unknown value '{}'", printable(*text)),
                  "open or proprietary");
  }
  return {};
}

Result<DriverRequest> read_request(const Args& args, const knowledge::Knowledge& knowledge) {
  DriverRequest request;
  GPUWARDEN_CHECK(read_target(args, request));
  request.runfile = args.text("runfile").value_or("");
  if (request.branch == 0 && request.version.empty()) request.version = driver::version_of_runfile(request.runfile);
  if (const auto text = args.text("cuda")) {
    // Its beginning alone would be another version than the one that was asked for.
    if (text->find_first_not_of("0123456789.") == std::string::npos) request.cuda = knowledge::Version::parse(*text);
    if (!request.cuda)
      return fail(ErrorCode::invalid_argument, fmt::format("--cuda: '{}' is not a version", printable(*text)),
                  "for example --cuda 12.8");
  }
  if (const auto text = args.text("for")) {
    GPUWARDEN_TRY(request.purpose, doctor::read_purpose(*text, knowledge));
  }
  request.compute_only = args.has("compute-only");
  request.through_reboot = args.has("through-reboot");
  request.forced = args.list("force");
  return request;
}

struct Prepared {
  DriverRequest request;
  Look look;
  Plan plan;
};

/// Fails, naming the option, where what cannot be forced is to be.
Result<void> check_force_option(const std::vector<driver::PreCheck>& checks, const DriverRequest& request,
                                const std::string& other) {
  const auto allowed = driver::check_forced(checks, request, {other});
  if (!allowed) return std::unexpected(about("force", allowed.error()));
  return {};
}

Result<Prepared> prepare(Context& context) {
  Prepared result;
  GPUWARDEN_TRY(const knowledge::Knowledge knowledge, open_knowledge(context));
  GPUWARDEN_TRY(result.request, read_request(context.args, knowledge));
  GPUWARDEN_TRY(result.look, look(context));
  const auto now = system_clock().wall_now();
  GPUWARDEN_TRY(const std::string id,
                result.look.on_paper ? driver::run_id_at(now) : driver::plan_run_id(root_of(context), now));
  GPUWARDEN_TRY(result.plan, driver::plan_driver(result.look.facts, result.request, knowledge, now, id));
  GPUWARDEN_CHECK(check_force_option(result.plan.checks, result.request, "way-back"));
  return result;
}

Result<int> status(Context& context) {
  GPUWARDEN_TRY(const auto seen, look(context));
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  const auto answer = driver::driver_status(seen.facts, knowledge, system_clock().wall_now());
  if (context.args.has("json"))
    print_answer(to_json(answer), seen.facts.snapshot.simulated);
  else
    fmt::print("{}", status_text(answer, style));
  return answer.problems.empty() ? kFine : kNo;
}

Result<int> recommend(Context& context) {
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  GPUWARDEN_TRY(const auto request, read_request(context.args, knowledge));
  GPUWARDEN_TRY(const auto seen, look(context));
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto answer, driver::recommend_driver(seen.facts, request, knowledge, system_clock().wall_now()));
  if (context.args.has("json"))
    print_answer(to_json(answer), seen.facts.snapshot.simulated);
  else
    fmt::print("{}", recommendation_text(answer, style));
  return answer.branch_known ? kFine : kNo;
}

/// How the repository is asked whether it has the driver.
Result<driver::AskRepository> how_to_ask(const Context& context, bool on_paper) {
  driver::AskRepository how{.on_paper = on_paper, .base = context.args.text("mirror").value_or("")};
  if (!how.base.empty() && !how.base.starts_with("http://") && !how.base.starts_with("https://"))
    return fail(ErrorCode::invalid_argument, fmt::format("--mirror: '{}' is not a URL", printable(how.base)),
                "the folder above ubuntu2204, rhel9 ...: https://mirror.example.org/compute/cuda/repos");
  const auto variable = context.environment.find("GPUWARDEN_OFFLINE");
  const bool by_variable =
      variable != context.environment.end() && !variable->second.empty() && variable->second != "0";
  // Who names a mirror wants it asked.
  how.offline = context.args.has("offline") || (by_variable && how.base.empty());
  // Another root's package manager is not this machine's.
  how.on_paper = on_paper || root_of(context) != "/";
  return how;
}

Result<int> plan(Context& context) {
  GPUWARDEN_TRY(auto prepared, prepare(context));
  GPUWARDEN_TRY(const auto how, how_to_ask(context, prepared.look.on_paper));
  prepared.plan.checks.push_back(
      driver::check_repository(prepared.look.facts, prepared.request, prepared.plan.target, how));
  const driver::PreCheck& there = prepared.plan.checks.back();
  // A branch of which nothing is known may not be there at all: only the repository can tell.
  const bool in_doubt = !prepared.plan.target.branch_known && there.state != driver::PreCheck::State::ok;
  if (in_doubt)
    warn(fmt::format("R{} is not in the tables: newer than they are, or never released, and no repository confirmed it",
                     prepared.plan.target.branch));
  if (context.args.has("script") && there.state != driver::PreCheck::State::ok) warn(printable(there.found));
  GPUWARDEN_TRY(const auto style, style_of(context));
  if (context.args.has("json")) {
    print_answer(to_json(prepared.plan), prepared.look.facts.snapshot.simulated);
  } else if (context.args.has("script")) {
    fmt::print("{}", script_of(prepared.plan, prepared.request));
  } else {
    fmt::print("{}\ngpuwarden driver plan --script prints the commands, gpuwarden driver apply carries them out\n",
               plan_text(prepared.plan, prepared.request, style));
  }
  return in_doubt ? kNo : kFine;
}

/// Tells each step on stderr while it proceeds.
void tell(const driver::StepReport& report) {
  using driver::StepState;
  const driver::Step& step = *report.step;
  switch (report.state) {
    case StepState::started:
      say("{} ...\n", step.title);
      break;
    case StepState::undoing:
      if (!step.undo.empty()) say("back: {} ...\n", step.title);
      break;
    case StepState::failed:
    case StepState::undo_failed:
      say("  failed: {}\n", printable(report.message));
      break;
    case StepState::pending:
    case StepState::done:
    case StepState::undone:
      break;
  }
}

/// The end of a run in words, and the exit code. `records`: where its log is.
Result<int> conclude(const Context& context, const DriverRun& run) {
  if (context.args.has("json")) print_answer(to_json(run));
  const std::string log = fmt::format(
      "{}/{}/log", (root_of(context) / fs::path(driver::kDriverFolder).relative_path()).string(), run.plan.id);
  switch (run.state) {
    case RunState::completed:
      say("done: {} -> {}\n", run.plan.from.empty() ? "none" : run.plan.from, run.plan.to);
      for (const std::string& note : run.plan.notes) say("note: {}\n", printable(note));
      return kFine;
    case RunState::rolled_back:
      say("back at what was recorded: {}\n", run.plan.from.empty() ? "no driver" : run.plan.from);
      return kFine;
    case RunState::waiting_for_reboot:
      say("reboot now, then: gpuwarden driver apply --resume\n");
      return kFine;
    case RunState::in_progress:
    case RunState::rolling_back:
    case RunState::failed:
      break;
  }
  return fail(
      ErrorCode::failed, fmt::format("the run {} stopped: {}", run.plan.id, printable(run.message)),
      fmt::format("its log is {}; fix the cause, then: gpuwarden driver {}", log,
                  driver::is_on_the_way_back(run) ? "rollback, which goes on with the way back"
                                                  : "apply --resume, or roll it back: gpuwarden driver rollback"));
}

bool is_agreed(const Context& context, std::string_view question) { return context.args.has("yes") || ask(question); }

int nothing_changed() {
  say("nothing was changed\n");
  return kNo;
}

Result<DriverProcedure> open_procedure(const Context& context, driver::Records records) {
  if (::geteuid() != 0)
    return fail(ErrorCode::permission_denied, "only root can change the driver", "sudo gpuwarden driver ...");
  const fs::path root = root_of(context);
  return DriverProcedure::open(root, driver::shell_in(root), system_clock(), records);
}

int refuse(const std::vector<const driver::PreCheck*>& checks) {
  for (const auto* const check : checks)
    say("gpuwarden: refused, {}: {}\nhint: {}{}\n", check->title, printable(check->found),
        check->remedy.empty() ? "nothing was changed" : printable(check->remedy),
        check->can_be_forced ? fmt::format("; --force {} overrules", check->id) : "");
  return kNo;
}

Result<int> resume(Context& context) {
  GPUWARDEN_TRY(auto procedure, open_procedure(context, driver::Records::must_exist));
  const DriverRun* const open = procedure.open_run();
  if (open != nullptr && !is_agreed(context, fmt::format("Go on with the run {}?", open->plan.id)))
    return nothing_changed();
  GPUWARDEN_CHECK(procedure.resume(tell));
  return conclude(context, *procedure.latest());
}

Result<int> apply(Context& context) {
  if (context.args.has("resume")) return resume(context);
  GPUWARDEN_TRY(const auto prepared, prepare(context));
  if (prepared.look.on_paper)
    return fail(ErrorCode::invalid_argument, "a plan for a capture or a simulated fleet cannot be applied",
                "without --from and --simulate, or with --root DIR");
  GPUWARDEN_TRY(auto procedure, open_procedure(context, driver::Records::make));
  if (const auto refused = refusals(prepared.plan, prepared.request); !refused.empty()) return refuse(refused);
  say("{}\n", plan_text(prepared.plan, prepared.request, {}));
  if (!is_agreed(context, fmt::format("Apply these {} steps?", prepared.plan.steps.size()))) return nothing_changed();
  GPUWARDEN_CHECK(procedure.apply(prepared.plan, tell));
  return conclude(context, *procedure.latest());
}

/// The checks that a way back must pass once the new driver serves.
Result<std::vector<driver::PreCheck>> checks_of_way_back(Context& context, const DriverRun* run) {
  if (run == nullptr || !driver::serves_again(*run)) return std::vector<driver::PreCheck>{};
  GPUWARDEN_TRY(const Look seen, look(context));
  return driver::way_back_checks(seen.facts);
}

Result<int> rollback(Context& context) {
  GPUWARDEN_TRY(auto procedure, open_procedure(context, driver::Records::must_exist));
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
  if (!context.args.has("json")) {
    fmt::print("{}", history_text(runs, style));
    return kFine;
  }
  auto json = nlohmann::json::array();
  for (const DriverRun& run : runs) json.push_back(to_json(run));
  print_answer({{"runs", std::move(json)}});
  return kFine;
}

struct Verb {
  std::string_view name;
  Result<int> (*run)(Context&);
};
constexpr auto kVerbs = std::to_array<Verb>({{"status", status},
                                             {"recommend", recommend},
                                             {"plan", plan},
                                             {"apply", apply},
                                             {"rollback", rollback},
                                             {"history", history}});

Result<int> run_driver(Context& context) {
  if (context.args.rest.empty()) return plan(context);
  const auto* const verb = std::ranges::find(kVerbs, context.args.rest[0], &Verb::name);
  if (verb != kVerbs.end() && context.args.rest.size() == 1) return verb->run(context);
  return std::unexpected(unknown_action(context, join(context.args.rest, " ")));
}

}  // namespace

constinit const Subcommand kDriverCommand{
    .name = "driver",
    .summary = "judge, plan, change and bring back NVIDIA's driver",
    .usage = "gpuwarden driver [status | recommend | plan | apply | rollback | history] [options]",
    .groups = {OptionGroup{kDriverOptions}, OptionGroup{kFromManyOptions}, OptionGroup{kKnowledgeOptions}},
    .rest = Rest::operands,
    .actions = "status recommend plan apply rollback history",
    .run = run_driver};

}  // namespace gpuwarden::cli
