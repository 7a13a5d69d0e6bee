// SPDX-License-Identifier: Apache-2.0
#include "plan/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "plan/workload.hpp"

namespace gpuwarden::cli {
namespace {

using namespace planning;

/// CPU cores of the machine whose GPUs these are; 0: not known.
std::uint32_t cpus_beside(const Machine& machine, const facts::Snapshot& snapshot) {
  if (snapshot.environment && snapshot.environment->host.cpus)
    return static_cast<std::uint32_t>(std::clamp(*snapshot.environment->host.cpus, 0, 1 << 16));
  return machine.captured() || snapshot.simulated ? 0 : std::thread::hardware_concurrency();
}

Result<void> read_gpus(Context& context, PlanQuestion& question) {
  PlanRequest& request = question.request;
  if (const auto named = context.args.text("gpus")) {
    question.origin.gpus_from = "--gpus";
    auto gpus = gpus_named(*named);
    if (!gpus) return fail(gpus.error().code, "--gpus: " + gpus.error().message, gpus.error().hint);
    request.gpus = std::move(*gpus);
    return {};
  }
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  const facts::Snapshot snapshot = machine.read();
  question.origin.simulated = snapshot.simulated;
  question.origin.gpus_from = machine.captured()   ? printable(machine.capture_name())
                              : snapshot.simulated ? "simulated fleet"
                                                   : "this machine";
  auto group = gpus_of(snapshot);
  if (!group) {
    Error error = group.error();
    error.code = machine.captured() ? ErrorCode::invalid_argument : ErrorCode::unavailable;
    return std::unexpected(std::move(error));
  }
  request.gpus = std::move(*group);
  question.origin.other_gpus =
      static_cast<std::uint32_t>(std::ranges::count_if(snapshot.gpus, [&](const facts::GpuRecord& record) {
        return facts::is_usable(record) && record.gpu.name != request.gpus.name;
      }));
  question.origin.gpu_notes = gpus_left_unsaid(snapshot, request.gpus);
  if (request.cpus == 0) request.cpus = cpus_beside(machine, snapshot);
  return {};
}

Result<void> read_amounts(const Args& args, PlanRequest& request) {
  Words words = words_of(args, {"tokens", "mfu"});
  words.set("calibrate", args.list("calibrate"));
  GPUWARDEN_TRY(request.train_tokens, read_tokens(words, "tokens"));
  GPUWARDEN_TRY(request.mfu, read_share(words, "mfu"));
  GPUWARDEN_TRY(request.measured, read_peaks(words, "calibrate"));
  GPUWARDEN_TRY(const auto cpus, count_option(args, "cpus", 1U << 16U));
  if (cpus == 0U)
    return fail(ErrorCode::invalid_argument, "--cpus: must be at least 1", "leave it out where they are not known");
  request.cpus = cpus.value_or(0);
  GPUWARDEN_TRY(const auto per_node, count_option(args, "gpus-per-node", 1024));
  if (per_node == 0U) return fail(ErrorCode::invalid_argument, "--gpus-per-node: must be at least 1");
  request.gpus_per_node = per_node.value_or(request.gpus_per_node);
  return {};
}

/// The model of the operand, or of --params.
Result<ModelShape> read_plan_model(const Args& args) {
  const bool sized = args.has("params");
  const auto named = args.text("model");
  if (named && !args.rest.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("one model at a time: --model {} beside '{}'", printable(*named), printable(args.rest[0])));
  if (args.rest.size() > 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("one model at a time: '{}' is the second", printable(args.rest[1])));
  if (sized && !args.rest.empty())
    return fail(ErrorCode::invalid_argument, "a model and --params cannot be given together");
  if (sized) return sized_model(words_of(args, {"params"}), "params");
  GPUWARDEN_CHECK(refuse_sizes(words_of(args), "params"));
  if (named) return read_model(args, *named);
  if (args.rest.empty())
    return fail(ErrorCode::invalid_argument, "no model is given",
                "give a name (gpuwarden plan --list), a config.json or its folder, or --params 7B");
  return read_model(args, args.rest.front());
}

}  // namespace

Result<PlanQuestion> read_plan_question(Context& context) {
  PlanQuestion question;
  GPUWARDEN_TRY(ModelShape model, read_plan_model(context.args));
  GPUWARDEN_TRY(question.request.work,
                workload_from(std::move(model), words_of(context.args, {"tokens", "mfu"}), "train"));
  GPUWARDEN_CHECK(read_amounts(context.args, question.request));
  GPUWARDEN_CHECK(read_gpus(context, question));
  if (is_single(context.args)) question.request.gpus.count = 1;
  return question;
}

}  // namespace gpuwarden::cli
