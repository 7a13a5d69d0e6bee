// SPDX-License-Identifier: Apache-2.0
// Lists the GPUs of this machine, asks for the best one, plans a model, and takes as many GPUs as it needs.
#include <cstdio>
#include <string>

#include "gpuwarden/manager/gpu_manager.hpp"
#include "gpuwarden/manager/models.hpp"

namespace {

using namespace gpuwarden;

void list(manager::GpuManager& manager) {
  for (const auto& record : manager.available_gpus()) {
    std::printf("GPU %u: %s\n", record.gpu.index.value, record.gpu.name.c_str());
  }
  const auto best = manager.optimal_device();
  if (best)
    std::printf("the best one now: %s\n", best->uuid.value.c_str());
  else
    std::printf("no GPU: %s\n", best.error().message.c_str());
}

/// Memory and strategy of a model on GPUs that need not be there.
Result<void> plan(manager::GpuManager& manager, const planning::Workload& work, const std::string& gpus) {
  auto named = planning::gpus_named(gpus);
  if (!named) return std::unexpected(named.error());
  const auto plan = manager.plan({.work = work, .gpus = *named});
  if (!plan) return std::unexpected(plan.error());
  std::printf("%s on %s: %s\n", work.model.name.c_str(), gpus.c_str(), plan->search.reason.c_str());
  for (const auto& line : plan->lines)
    std::printf("  %-24s %6.2f GiB\n", line.name.c_str(), line.bytes / (1ULL << 30U));
  return {};
}

/// As many of this machine's GPUs as the model needs, held and made visible to what this process starts.
Result<void> take(manager::GpuManager& manager, const planning::Workload& work) {
  placement::Request request;
  request.work = work;
  const auto gpus = manager.reserve(request);
  if (!gpus && gpus.error().code != ErrorCode::unsatisfied) return std::unexpected(gpus.error());
  std::printf("%s\n", gpus ? gpus->decision().model->reason.c_str() : gpus.error().message.c_str());
  if (gpus) manager::set_visible(gpus->decision());  // the work is done here, while `gpus` lives
  return {};
}

Result<void> run(manager::GpuManager& manager) {
  const auto model = manager::load_model("llama-3.1-8b");
  if (!model) return std::unexpected(model.error());
  const auto settings = planning::settings_for(*model, "lora");
  if (!settings) return std::unexpected(settings.error());
  const planning::Workload work{.model = *model, .settings = *settings};
  if (const auto planned = plan(manager, work, "2xl40s"); !planned) return planned;
  return take(manager, work);
}

}  // namespace

int main() {
  manager::GpuManager manager({});
  list(manager);
  const auto done = run(manager);
  // Without a driver there is nothing to take: said, and no failure of the example.
  if (!done) std::printf("%s\n", done.error().message.c_str());
  return done || done.error().code == ErrorCode::unavailable ? 0 : 1;
}
