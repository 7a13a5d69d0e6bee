// SPDX-License-Identifier: Apache-2.0
// gpuwarden compat: finds out what is asked and where, and prints the answer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/json.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"
#include "machine.hpp"
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
using knowledge::Version;
using Clock = std::chrono::system_clock;

/// --on 2027-06 or 2027-06-30; today otherwise.
Result<Clock::time_point> when(const Args& args) {
  const auto text = args.text("on");
  if (!text) return Clock::now();
  const auto parts = split(*text, '-');
  const auto number = [&](std::size_t i) { return i < parts.size() ? parse_integer(parts[i]).value_or(0) : 1; };
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(number(0))),
                                         std::chrono::month(static_cast<unsigned>(number(1))),
                                         std::chrono::day(static_cast<unsigned>(number(2))));
  if (parts.size() < 2 || parts.size() > 3 || !date.ok() || number(0) < 2000 || number(0) > 2200)
    return fail(ErrorCode::invalid_argument, fmt::format("--on: '{}' is not a date", printable(*text)),
                "for example 2027-06 or 2027-06-30");
  return std::chrono::sys_days(date);
}

/// "driver 550.54" is the same as --driver 550.54.
bool is_driver(Context& context, const std::string& text) {
  const auto words = split_words(text);
  if (words.size() != 2 || to_lower(words[0]) != "driver" || context.args.has("driver")) return false;
  context.args.set("driver", {std::string(words[1])});
  return true;
}

/// Reads the operands, --cuda, --for, --gpu and --matrix.
Result<Question> read_question(Context& context, const Knowledge& knowledge) {
  const Args& args = context.args;
  const std::string words(trim(join(args.rest, " ")));
  const auto cuda = args.text("cuda");
  const auto purpose = args.text("for");
  if (!words.empty() && (cuda || purpose))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}', --cuda and --for are separate questions", printable(words)), "ask one at a time");
  Question question;
  if (cuda) {
    GPUWARDEN_TRY(question.cuda, compat::parse_cuda(*cuda));
    question.kind = "cuda";
  } else if (purpose) {
    GPUWARDEN_TRY(doctor::Purpose read, doctor::read_purpose(*purpose, knowledge));
    question = compat::question_of(std::move(read));
  } else if (!words.empty() && !is_driver(context, words)) {
    GPUWARDEN_TRY(question, compat::parse_question(knowledge, words));
  } else if (args.all("gpus").size() == 1 && !args.has("driver") && !args.text("gpus")->contains(',')) {
    question.kind = "gpu";
    question.gpu = *args.text("gpus");
  }
  question.text = !words.empty() ? words : purpose ? *purpose : cuda ? "CUDA " + *cuda : "";
  question.matrix = question.matrix || args.has("matrix");
  if (question.matrix) question.kind = "matrix";
  return question;
}

Result<Place> place_of_machine(Context& context, const Knowledge& knowledge) {
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  Place place = compat::place_of(machine.read(), knowledge);
  place.captured = machine.captured().has_value();
  if (place.captured && !machine.simulated()) place.origin = machine.capture_name();
  return place;
}

/// What --gpu and --driver name, over what --from or --simulate tell; where nothing is given, this machine (if
/// `machine_counts`).
Result<Place> read_place(Context& context, const Knowledge& knowledge, bool machine_counts) {
  const auto names = context.args.all("gpus");
  const auto driver = context.args.text("driver");
  const bool told = context.args.has("from") || context.args.has("simulate");
  Place place{.gpus = {}, .driver = {}, .origin = "what was named"};
  if (told || (machine_counts && names.empty() && !driver)) {
    GPUWARDEN_TRY(place, place_of_machine(context, knowledge));
  }
  if (!names.empty()) {
    GPUWARDEN_TRY(place.gpus, compat::gpus_named(names, knowledge));
    place.named = true;
    place.machine.clear();  // theirs, not this one's
    place.torches.clear();
  }
  if (driver) {
    constexpr int kFirstBranch = 100;  // below that there was no CUDA
    place.driver = Version::parse(*driver);
    place.cuda.clear();
    if (!place.driver || place.driver->major < kFirstBranch)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--driver: '{}' is not a driver version", printable(*driver)),
                  "for example 550.54.15 or 550");
  }
  if (const auto least = driver ? compat::take_branch_for_serving(place) : std::nullopt)
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
  GPUWARDEN_TRY(const Question question, read_question(context, knowledge));
  GPUWARDEN_TRY(const Clock::time_point moment, when(context.args));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const Place place, read_place(context, knowledge, question.is_about_here()));
  const Asked asked{knowledge, place, moment};
  GPUWARDEN_TRY(const Answer found, compat::answer(asked, question));
  if (place.problem && question.kind == "machine" && !place.problem->message.empty()) warn(place.problem->message);
  if (context.args.has("json"))
    print_json(compat::to_json(asked, question, found));
  else
    print_text(asked, found, style, context.args.has("why"));
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
