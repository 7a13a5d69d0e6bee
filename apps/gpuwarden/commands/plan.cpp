// SPDX-License-Identifier: Apache-2.0
// gpuwarden plan
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/manager/plan_question.hpp"
#include "gpuwarden/planning/catalog_list.hpp"
#include "gpuwarden/planning/chart.hpp"
#include "gpuwarden/planning/emit.hpp"
#include "gpuwarden/planning/foreign_options.hpp"
#include "gpuwarden/planning/json.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "plan/workload_options.hpp"
#include "render/plan_text.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kPlanOptions = with_foreign_names(std::to_array<Option>({
    {"--model", OptionKind::text, "NAME", "the model, as an option: a name, a config.json or its folder"},
    {"--params", OptionKind::text, "N", "a model of which only the size is known: 7B; its shape is guessed"},
    {"--list", OptionKind::flag, "", "show the models that are known by name"},
    {"--gpus", OptionKind::text, "SPEC", "plan for these instead of this machine's: 8xh100, 4xa100-40gb, rtx4090"},
    {"--gpus-per-node", OptionKind::text, "N", "how many GPUs a node has (8)"},
    {"--cpus", OptionKind::text, "N", "CPU cores of a node (this machine's, a capture's): advice on data loading"},
    {"--tokens", OptionKind::text, "N", "train on so many: how long it takes (300B)"},
    {"--mfu", OptionKind::text, "SHARE", "utilization that you measured, instead of what was published"},
    {"--calibrate", OptionKind::list, "M=GiB...",
     "peaks that you measured at two or three micro-batches: 1=23.4,2=30.1"},
    {"--draft-model", OptionKind::text, "NAME", "serve: a draft model beside it, for speculative decoding"},
    {"--explain", OptionKind::flag, "", "show the formula and the source of every line"},
    {"--chart", OptionKind::text, "FILE", "draw the memory: FILE ends with .svg or .html"},
    {"--emit", OptionKind::text, "FORMAT", "print what starts it: torchrun, accelerate, deepspeed, slurm",
     "torchrun accelerate deepspeed slurm"},
    {"--program", OptionKind::text, "FILE", "with --emit: the training program (train.py)"},
}));

using namespace planning;

constexpr Clash kClashes[] = {{"list", "emit", "--list shows the models and plans nothing"},
                              {"list", "chart", "--list shows the models and plans nothing"},
                              {"gpus", "from", "the GPUs are either named or those of a capture"},
                              {"gpus", "simulate", "the GPUs are either named or those of a fleet"},
                              {"params", "model", "a model has its own size"},
                              {"params", "family", "a shape that is guessed from a size is Llama's"},
                              {"emit", "json", "what --emit prints is for other tools as it is"}};

Result<int> show_list(bool as_json) {
  GPUWARDEN_TRY(const auto entries, list_catalog());
  if (as_json) {
    print_json(to_json(entries));
    return kFine;
  }
  for (const CatalogEntry& one : entries) fmt::print("{:<48} {:<12} {:>16}\n", one.name, one.family, one.parameters);
  return kFine;
}

Result<LaunchFormat> format_of(const std::string& name) {
  if (const auto format = launch_format_from(name)) return *format;
  return fail(ErrorCode::invalid_argument, fmt::format("--emit: unknown value '{}'", printable(name)),
              "torchrun, accelerate, deepspeed or slurm");
}

/// The model of the operand or of --model, its task and the GPUs. Asks the machine only where no --gpus are named.
Result<manager::PlanQuestion> read_question(const Context& context) {
  const Args& args = context.args;
  Words words = words_of(args, plan_names());
  if (args.has("calibrate")) words.set("calibrate", args.list("calibrate"));
  auto models = args.all("model");
  models.insert(models.end(), args.rest.begin(), args.rest.end());
  if (!models.empty()) words.set("model", std::move(models));
  GPUWARDEN_TRY(auto question, manager::read_plan_question(words, manager::model_downloads(context.environment)));
  if (words.has("gpus")) return question;
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  GPUWARDEN_CHECK(manager::plan_for(machine, question));
  return question;
}

/// The chosen strategy as another tool's input.
Result<std::string> emitted(const Context& context, const PlanAnswer& answer) {
  GPUWARDEN_TRY(const LaunchFormat format, format_of(*context.args.text("emit")));
  Launch launch = launch_of(answer);
  launch.program = shell_word(context.args.text("program").value_or("train.py"));
  if (context.args.has("lora-targets")) launch.adapter_modules = context.args.list("lora-targets");
  return emit(launch, format);
}

Result<void> draw(const Context& context, const PlanAnswer& answer) {
  const auto file = context.args.text("chart");
  if (!file) return {};
  const auto picture = draw_chart(chart_of(answer), *file);
  if (!picture) return std::unexpected(about("chart", picture.error()));
  return write_output(*file, *picture);
}

Result<int> run_plan(Context& context) {
  if (context.args.has("list") && !context.args.has("emit") && !context.args.has("chart"))
    return show_list(context.args.has("json"));
  GPUWARDEN_CHECK(check_clashes(context.args, kClashes));
  if (context.args.has("emit")) GPUWARDEN_CHECK(format_of(*context.args.text("emit")));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(auto question, read_question(context));
  GPUWARDEN_TRY(const PlanAnswer answer, planning::answer(std::move(question.request)));
  GPUWARDEN_CHECK(draw(context, answer));
  if (context.args.has("emit")) {
    if (!answer.fits)
      return fail(ErrorCode::unsatisfied, answer.search.reason, "plan without --emit to see what makes it fit");
    if (answer.best().misses_global_batch)
      return fail(ErrorCode::unsatisfied, answer.search.reason,
                  fmt::format("give --global-batch {}, or another number of GPUs", answer.best().effective_batch));
    GPUWARDEN_TRY(const std::string text, emitted(context, answer));
    fmt::print("{}", text);
    return kFine;
  }
  if (context.args.has("json"))
    print_json(to_json(answer, question.origin));
  else
    fmt::print("{}", plan_text(answer, question.origin, style, context.args.has("explain")));
  return answer.fits ? kFine : kNo;
}

}  // namespace

constinit const Subcommand kPlanCommand{
    .name = "plan",
    .summary = "say whether a model fits, on how many GPUs, with which strategy",
    .usage = "gpuwarden plan MODEL | CONFIG.json | DIR | --params 7B [--task TASK] [--gpus 8xh100] [options]",
    .groups = {OptionGroup{kPlanOptions}, OptionGroup{kFromOptions}, kTaskGroup},
    .rest = Rest::operands,
    .elsewhere = planning::kForeignOptions,
    .run = run_plan};

}  // namespace gpuwarden::cli
