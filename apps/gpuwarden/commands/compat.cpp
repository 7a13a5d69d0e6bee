// SPDX-License-Identifier: Apache-2.0
// gpuwarden compat: finds out what is asked and where, and prints the answer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/json.hpp"
#include "gpuwarden/machine/compat_place.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/compat_text.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kCompatOptions = std::to_array<Option>({
    {"--gpu,--gpus", OptionKind::repeated, "NAME",
     "judge for these GPUs instead of this machine's: \"H100\", \"RTX 4090\""},
    {"--driver", OptionKind::text, "VERSION", "judge for this driver instead of this machine's"},
    {"--cuda", OptionKind::text, "VERSION", "what a CUDA toolkit needs"},
    {"--for", OptionKind::text, "PURPOSE", "\"train llama-3-8b\": which GPU; a package: for --matrix"},
    {"--matrix", OptionKind::flag, "", "minimum, required, recommended and optimal driver of each GPU"},
    {"--on", OptionKind::text, "DATE", "judge what is supported then (2027-06), not today"},
    {"--why", OptionKind::flag, "", "show the sources"},
});

using compat::Answer;
using compat::Asked;
using compat::Place;
using compat::Question;
using knowledge::Knowledge;
using Clock = std::chrono::system_clock;

/// --on; today otherwise.
Result<Clock::time_point> when(const Args& args) {
  const auto text = args.text("on");
  if (!text) return Clock::now();
  const auto date = compat::parse_date(*text);
  if (!date) return std::unexpected(about("on", date.error()));
  return *date;
}

/// What --gpu and --driver name, over what --from or --simulate tell; where nothing is given, this machine, if the
/// question is about one.
Result<Place> read_place(Context& context, const compat::Inquiry& inquiry, const Question& question,
                         const Knowledge& knowledge) {
  std::optional<Machine> machine;
  if (machine::counts_for(inquiry, question, context.args.has("from") || context.args.has("simulate"))) {
    GPUWARDEN_TRY(machine, open_machine(context));
  }
  GPUWARDEN_TRY(Place place, machine::place_for(inquiry, machine ? &*machine : nullptr, knowledge));
  if (const auto least = inquiry.driver ? compat::take_branch_for_serving(place) : std::nullopt)
    warn(fmt::format("--driver {0}: of this branch {1} and newer know the GPU; judged as {1}: which {0} is it?",
                     least->major, to_string(*least)));
  return place;
}

void print_text(const Asked& asked, const Answer& answer, const Style& style, bool sources) {
  if (asked.place.simulated || asked.place.captured)
    fmt::print("{}\n",
               printable(asked.place.simulated ? "SIMULATED " + asked.place.origin : "FROM " + asked.place.origin));
  fmt::print("{}{}", compat_text(asked, answer, style), sources ? sources_text(compat::verdict_of(answer), style) : "");
}

int exit_code_of(const Answer& answer, const Place& place) {
  const auto* machine = std::get_if<compat::MachineAnswer>(&answer);
  if (machine != nullptr && machine->nothing_to_judge && place.problem) return kUnavailable;
  return compat::verdict_of(answer).positive ? kFine : kNo;
}

Result<int> run_compat(Context& context) {
  GPUWARDEN_TRY(const Knowledge knowledge, open_knowledge(context));
  const Args& args = context.args;
  compat::Inquiry inquiry{.text = join(args.rest, " "),
                          .cuda = args.text("cuda"),
                          .purpose = args.text("for"),
                          .matrix = args.has("matrix"),
                          .gpus = args.all("gpus"),
                          .driver = args.text("driver")};
  GPUWARDEN_TRY(const Question question, compat::read_question(inquiry, knowledge));
  GPUWARDEN_TRY(const Clock::time_point moment, when(args));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const Place place, read_place(context, inquiry, question, knowledge));
  const Asked asked{knowledge, place, moment};
  GPUWARDEN_TRY(const Answer found, compat::answer(asked, question));
  if (place.problem && question.kind == "machine" && !place.problem->message.empty()) warn(place.problem->message);
  if (args.has("json"))
    print_json(compat::to_json(asked, question, found));
  else
    print_text(asked, found, style, args.has("why"));
  return exit_code_of(found, place);
}

}  // namespace

constinit const Subcommand kCompatCommand{
    .name = "compat",
    .summary = "which driver, toolkit, framework and GPU go together",
    .usage =
        "gpuwarden compat [QUESTION] [options]\n"
        "              no question: what this machine's driver and GPUs run\n"
        "              cu128 | torch==2.5.1+cu124 | vllm==0.9 | RTX 5090 | sm_89 | xid 79 | driver 550.54",
    .groups = {OptionGroup{kCompatOptions}, OptionGroup{kFromOptions}, OptionGroup{kKnowledgeOptions}},
    .rest = Rest::operands,
    .run = run_compat};

}  // namespace gpuwarden::cli
