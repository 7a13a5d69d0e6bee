// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "gpuwarden/planning/answer.hpp"
#include "planning/word_count.hpp"

namespace gpuwarden::planning {

Result<PlanRequest> plan_request(ModelShape model, const Words& words) {
  PlanRequest request;
  GPUWARDEN_TRY(request.work, workload_from(std::move(model), words.without(plan_names()), "train"));
  GPUWARDEN_TRY(request.train_tokens, read_tokens(words, "tokens"));
  GPUWARDEN_TRY(request.mfu, read_share(words, "mfu"));
  GPUWARDEN_TRY(request.measured, read_peaks(words, "calibrate"));
  GPUWARDEN_CHECK(read_word_count(words, "cpus", 1U << 16U, request.cpus));
  GPUWARDEN_CHECK(read_word_count(words, "gpus-per-node", 1024, request.gpus_per_node));
  const auto named = words.text("gpus");
  if (!named) return request;
  auto gpus = gpus_named(*named);
  if (!gpus) return fail(gpus.error().code, words.shown("gpus") + ": " + gpus.error().message, gpus.error().hint);
  request.gpus = *std::move(gpus);
  return request;
}

}  // namespace gpuwarden::planning
