// SPDX-License-Identifier: Apache-2.0
#include "plan/select_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/search.hpp"
#include "plan/settings.hpp"

namespace gpuwarden::cli {
namespace {

using namespace planning;

/// The model's share of the options, as `plan` reads them.
Result<ModelShape> model_of(const Args& args) {
  Args plan_args = args;
  plan_args.rest = {*args.text("model")};
  return read_plan_model(plan_args);
}

}  // namespace

Result<void> request_for_model(const Context& context, const facts::Snapshot& snapshot, placement::Request& request) {
  if (!context.args.has("model")) return {};
  if (request.model_size || request.all || !request.gpu_ids.empty())
    return fail(ErrorCode::invalid_argument,
                "--model says how many GPUs are needed: --model-size, --all and --gpu-ids do not go with it");
  GPUWARDEN_TRY(const ModelShape model, model_of(context.args));
  GPUWARDEN_TRY(const Settings settings, read_plan_settings(context.args, model));
  GPUWARDEN_TRY(const GpuGroup gpus, gpus_of(snapshot));
  const ModelFigures figures = figures_of(model);
  SearchRequest search{.settings = settings, .gpu = {gpus.usable}, .micro_batch = settings.micro_batch};
  search.gpus_per_node = std::max(search.gpus_per_node, gpus.count);
  const std::uint32_t last = request.count.value_or(gpus.count);
  search.gpus = last;
  if (!request.count) search.gpus = fewest_gpus(figures, search, last).value_or(last);
  GPUWARDEN_TRY(const Search found, plan(figures, search));
  if (found.recommended) {
    const Candidate& best = found.candidates[*found.recommended];
    request.count = search.gpus;
    const Bytes needed(static_cast<std::uint64_t>(best.estimate.expected()));
    request.min_free_memory = std::max(request.min_free_memory.value_or(Bytes{}), needed);
    fmt::print(stderr, "gpuwarden: {} needs {} of each of {} GPUs ({})\n", printable(model.name), format_size(needed),
               search.gpus, best.name);
    return {};
  }
  return fail(ErrorCode::unsatisfied,
              fmt::format("{} GPUs are too few for {}: {}", last, printable(model.name), found.reason),
              "gpuwarden plan tells what would make it fit");
}

}  // namespace gpuwarden::cli
