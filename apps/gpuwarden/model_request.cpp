// SPDX-License-Identifier: Apache-2.0
#include "model_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/config.hpp"
#include "options.hpp"
#include "plan/request.hpp"
#include "plan/workload.hpp"
#include "plan/workload_options.hpp"

namespace gpuwarden::cli {
namespace {

using namespace planning;

constexpr Clash kClashes[] = {{"model", "model-size", "a model has its own size"},
                              {"model-size", "family", "a shape that is guessed from a size is Llama's"}};

/// "7B", "350M", "8x7B": a number of parameters, not of bytes.
bool counts_parameters(std::string_view text) {
  text = trim(text);
  if (text.size() < 2 || !std::string_view("kKmMbBtT").contains(text.back())) return false;
  const char before = text[text.size() - 2];
  return before >= '0' && before <= '9';
}

/// A model of --model-size, and what is done with it where no --task says so.
Result<Workload> read_sized(const Args& args) {
  const std::string text = args.text("model-size").value_or("");
  if (counts_parameters(text)) {
    GPUWARDEN_TRY(ModelShape model, read_sized_model(args, "model-size"));
    return read_workload(args, std::move(model), "train");
  }
  const auto weights = parse_size(text);
  if (!weights)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--model-size: '{}' is neither a number of parameters nor a size of weights", printable(text)),
        "for example 7B or 350M parameters, 140GB or 13GiB of 16-bit weights");
  auto held = workload_of_size(*weights);
  if (!held) return fail(held.error().code, "--model-size: " + held.error().message, held.error().hint);
  GPUWARDEN_CHECK(refuse_sizes(args, "model-size 7B"));
  held->model.name = "a model of " + printable(text);
  return read_workload(args, std::move(held->model), "inference");
}

/// Whether fewer GPUs can be had, now or later, than were asked for: a smaller model would not help.
bool asks_for_too_many(const placement::Request& request, const placement::Decision& decision) {
  const std::size_t asked = request.gpu_ids.empty() ? request.count.value_or(0) : request.gpu_ids.size();
  const auto can_be_had = std::ranges::count_if(
      decision.verdicts, [](const placement::Verdict& verdict) { return verdict.reason.empty() || verdict.transient; });
  return asked > static_cast<std::size_t>(can_be_had);
}

}  // namespace

Result<std::optional<Workload>> read_model_request(const Args& args) {
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  if (!args.has("model") && !args.has("model-size")) {
    for (const Option& option : kWorkloadOptions) {
      const std::string key = key_of(option);
      if (args.has(key))
        return fail(ErrorCode::invalid_argument, fmt::format("--{} is about a model, but none is named", key),
                    "add --model NAME, --model config.json or --model-size 7B");
    }
    return std::nullopt;
  }
  if (args.has("model-size")) return read_sized(args);
  GPUWARDEN_CHECK(refuse_sizes(args, "model-size"));
  GPUWARDEN_TRY(ModelShape model, read_model(args, *args.text("model")));
  return read_workload(args, std::move(model), "train");
}

std::string ways_to_fit(const placement::Request& request, const placement::Inputs& inputs,
                        const placement::Decision& decision) {
  const bool has_model = request.work || request.model_size;
  if (!has_model || decision.satisfied || decision.may_come_true) return "";
  if (asks_for_too_many(request, decision)) return "";
  const auto plan = placement::plan_if_free(request, inputs);
  if (!plan) return plan.error().hint;
  std::string text;
  for (const Change& change : plan->search.changes)
    text += fmt::format("\n  {} ({}: {} of each)", change.what, change.candidate.name,
                        format_size(Bytes(static_cast<std::uint64_t>(change.candidate.estimate.expected()))));
  if (!text.empty()) return "what would make it fit, cheapest first:" + text;
  if (request.mig || request.mig_profile) return "an instance holds a whole model or none; whole GPUs can share one";
  if (!plan->search.smallest_gpus) return "";
  const std::uint32_t fewest = *plan->search.smallest_gpus;
  return fewest == 1 ? "one GPU of this kind is enough" : fmt::format("{} GPUs of this kind are enough", fewest);
}

void show_model_fit(const placement::Decision& decision) {
  if (decision.satisfied && decision.model) fmt::print(stderr, "gpuwarden: {}\n", decision.model->reason);
}

}  // namespace gpuwarden::cli
