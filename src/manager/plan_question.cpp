// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/plan_question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/manager/models.hpp"

namespace gpuwarden::manager {
namespace {

using planning::ModelShape;
using planning::Words;

Result<ModelShape> read_shape(const Words& words, const ModelDownloads& downloads) {
  return load_model(words.text("model").value_or(""), words.text("family").value_or(""), downloads);
}

Result<ModelShape> read_plan_model(const Words& words, const ModelDownloads& downloads) {
  const auto models = words.list("model");
  if (models.size() > 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("one model at a time: '{}' is the second", printable(models[1])));
  if (words.has("params")) {
    if (!models.empty())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("a model and {} cannot be given together", words.shown("params")));
    return planning::sized_model(words, "params");
  }
  GPUWARDEN_CHECK(planning::refuse_sizes(words, "params"));
  if (models.empty())
    return fail(ErrorCode::invalid_argument, "no model is given",
                fmt::format("give a name (gpuwarden plan --list), a config.json or its folder, or {} 7B",
                            words.shown("params")));
  return read_shape(words, downloads);
}

/// A draft model that is not known leaves the plan of the model itself as it is.
Result<void> read_draft(const Words& words, const ModelDownloads& downloads, planning::Workload& work) {
  const auto name = words.text("draft-model");
  if (!name) return {};
  const auto draft = load_model(*name, "", downloads);
  if (draft) return planning::add_draft(*draft, work);
  work.notes.push_back(fmt::format("the draft model is left out: {}", draft.error().message));
  return {};
}

/// CPU cores of the machine whose GPUs these are; 0: not known.
std::uint32_t cpus_beside(const machine::Machine& machine, const facts::Snapshot& snapshot) {
  if (snapshot.environment && snapshot.environment->host.cpus)
    return static_cast<std::uint32_t>(std::clamp(*snapshot.environment->host.cpus, 0, 1 << 16));
  return machine.captured() || snapshot.simulated ? 0 : std::thread::hardware_concurrency();
}

}  // namespace

Result<PlanQuestion> read_plan_question(const Words& words, const ModelDownloads& downloads) {
  PlanQuestion question;
  GPUWARDEN_TRY(ModelShape model, read_plan_model(words, downloads));
  GPUWARDEN_TRY(question.request, planning::plan_request(std::move(model), words));
  GPUWARDEN_CHECK(read_draft(words, downloads, question.request.work));
  if (words.has("gpus")) question.origin.gpus_from = words.shown("gpus");
  question.single = planning::normal_word(words.text("strategy").value_or("")) == "single";
  if (question.single) question.request.gpus.count = 1;
  return question;
}

Result<void> plan_for(const machine::Machine& machine, PlanQuestion& question) {
  planning::PlanRequest& request = question.request;
  const facts::Snapshot snapshot = machine.read();
  question.origin.simulated = snapshot.simulated;
  question.origin.gpus_from = machine.captured()   ? printable(machine.capture_name())
                              : snapshot.simulated ? "simulated fleet"
                                                   : "this machine";
  auto group = planning::gpus_of(snapshot);
  if (!group)
    return fail(machine.captured() ? ErrorCode::invalid_argument : ErrorCode::unavailable, group.error().message,
                group.error().hint);
  request.gpus = *std::move(group);
  question.origin.other_gpus =
      static_cast<std::uint32_t>(std::ranges::count_if(snapshot.gpus, [&](const facts::GpuRecord& record) {
        return facts::is_usable(record) && record.gpu.name != request.gpus.name;
      }));
  question.origin.gpu_notes = planning::gpus_left_unsaid(snapshot, request.gpus);
  if (request.cpus == 0) request.cpus = cpus_beside(machine, snapshot);
  if (question.single) request.gpus.count = 1;
  return {};
}

Result<std::optional<planning::Workload>> read_work(const Words& words, const ModelDownloads& downloads) {
  static constexpr auto kModelNames = std::to_array<std::string_view>({"model"});
  if (words.has("model") && words.has("model-size"))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} and {} cannot be used together", words.shown("model"), words.shown("model-size")),
                "a model has its own size");
  const Words about = words.without(kModelNames);
  if (words.has("model-size")) return planning::workload_of_size(about, "model-size");
  if (!words.has("model")) {
    const auto names = about.names();
    if (names.empty()) return std::nullopt;
    return fail(
        ErrorCode::invalid_argument, fmt::format("{} is about a model, but none is named", words.shown(names.front())),
        fmt::format("add {0} NAME, {0} config.json or {1} 7B", words.shown("model"), words.shown("model-size")));
  }
  GPUWARDEN_CHECK(planning::refuse_sizes(words, "model-size"));
  GPUWARDEN_TRY(ModelShape model, read_shape(words, downloads));
  return planning::workload_from(std::move(model), about, "train");
}

}  // namespace gpuwarden::manager
