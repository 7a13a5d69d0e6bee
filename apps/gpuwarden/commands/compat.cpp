// SPDX-License-Identifier: Apache-2.0
// gpuwarden compat: finds out what is asked, and prints the answer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compat/answer.hpp"
#include "compat/question.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {
namespace {

using compat::Answer;
using compat::Asked;
using compat::Place;
using compat::Question;
using doctor::Purpose;
using knowledge::Knowledge;
using knowledge::Version;
using Json = nlohmann::json;
using Clock = std::chrono::system_clock;

/// The CUDA of the work that --for or --cuda names, for the matrix.
std::optional<Version> work_of(const Asked& asked, const Question& question) {
  if (question.cuda || !question.purpose || !question.purpose->package) return question.cuda;
  const Purpose::Package& package = *question.purpose->package;
  if (package.build) return knowledge::cuda_of_build(*package.build);
  const auto version = package.version ? Version::parse(*package.version) : std::nullopt;
  if (package.name == "vllm") {
    const auto* row = version ? asked.knowledge.vllm(*version) : nullptr;
    return row != nullptr ? std::optional(row->cuda) : std::nullopt;
  }
  if (package.name != "torch" || !version) return std::nullopt;
  for (const auto* build : asked.knowledge.torch_builds_of(*version)) {
    if (build->is_default) return knowledge::cuda_of_build(build->build);
  }
  return std::nullopt;
}

Result<Answer> answer(const Asked& asked, const Question& question) {
  if (question.matrix) return answer_matrix(asked, work_of(asked, question), question.text);
  if (question.xid) return answer_xid(asked, *question.xid);
  if (question.cuda) return answer_cuda(asked, *question.cuda);
  if (!question.component.empty()) return answer_component(asked, question.component, question.version);
  if (!question.gpu.empty()) return answer_gpu(asked, question.gpu);
  if (!question.purpose) return answer_machine(asked);
  if (question.purpose->package) return answer_package(asked, *question.purpose->package);
  if (question.purpose->architecture) return answer_architecture(asked, *question.purpose->architecture);
  return answer_job(asked, {question.purpose->work->training, question.purpose->work->parameters});
}

/// Which questions are about a place: what this machine is then matters without being named.
bool is_about_here(const Question& question) {
  return question.kind == "machine" || question.kind == "cuda" || question.kind == "package";
}

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
    return fail(ErrorCode::invalid_argument, fmt::format("--on: '{}' is no date", printable(*text)),
                "for example 2027-06 or 2027-06-30");
  return std::chrono::sys_days(date);
}

Json place_json(const Place& place) {
  if (place.is_empty()) return nullptr;
  Json gpus = Json::array();
  for (const auto& gpu : place.gpus)
    gpus.push_back(
        {{"name", gpu.name},
         {"count", gpu.count},
         {"compute_capability", gpu.architecture ? Json(compat::capability_text(*gpu.architecture)) : Json()},
         {"known", gpu.model != nullptr}});
  return {{"origin", place.origin},
          {"driver", place.driver ? Json(to_string(*place.driver)) : Json()},
          {"gpus", std::move(gpus)}};
}

void print_json(const Asked& asked, const Question& question, const Answer& answer) {
  const Json json{{"schema", facts::kJsonSchema},
                  {"simulated", asked.place.simulated},
                  {"question", question.text.empty() ? Json() : Json(question.text)},
                  {"kind", question.kind},
                  {"place", place_json(asked.place)},
                  {"answer", answer.json},
                  {"knowledge",
                   {{"newest_cuda", to_string(asked.knowledge.newest_toolkit())},
                    {"newest_driver_branch", asked.knowledge.newest_branch()},
                    {"newest_torch", to_string(asked.knowledge.newest_torch())},
                    {"overlays", asked.knowledge.overlays()}}},
                  {"sources", answer.sources}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_text(const Asked& asked, const Answer& answer, bool sources) {
  if (asked.place.simulated || asked.place.captured)
    fmt::print("{}\n",
               printable(asked.place.simulated ? "SIMULATED " + asked.place.origin : "FROM " + asked.place.origin));
  fmt::print("{}", answer.text);
  if (!sources) return;
  fmt::print("{}", compat::heading(asked, "sources"));
  for (const std::string& source : answer.sources)
    fmt::print("  {}\n", wrapped(printable(source), 2, 4, asked.style.width));
}

Result<int> answer_and_print(Context& context) {
  GPUWARDEN_TRY(const Knowledge knowledge, open_knowledge(context));
  GPUWARDEN_TRY(const Question question, compat::read_question(context, knowledge));
  GPUWARDEN_TRY(const Clock::time_point moment, when(context.args));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const Place place, compat::read_place(context, knowledge, is_about_here(question)));
  const Asked asked{knowledge, place, moment, style};
  GPUWARDEN_TRY(const Answer found, answer(asked, question));
  if (place.problem && question.kind == "machine" && !place.problem->message.empty()) warn(place.problem->message);
  if (context.args.has("json"))
    print_json(asked, question, found);
  else
    print_text(asked, found, context.args.has("why"));
  return found.exit_code;
}

}  // namespace

int run_compat(Context& context) {
  const auto code = answer_and_print(context);
  return code ? *code : complain(code.error());
}

}  // namespace gpuwarden::cli
