// SPDX-License-Identifier: Apache-2.0
// The whole of what `gpuwarden plan` answers, as a value: the memory of one GPU under the strategy that is recommended
// or was asked for, a verdict for each strategy, and what follows from them.
//
//     auto model = find_model("llama-3.1-8b");
//     auto settings = settings_for(*model, "lora");
//     auto gpus = gpus_named("8xh100");
//     auto plan = answer({.work = {.model = *model, .settings = *settings}, .gpus = *gpus});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/calibrate.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/gpus.hpp"
#include "gpuwarden/planning/layer_split.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "gpuwarden/planning/search.hpp"
#include "gpuwarden/planning/serving.hpp"
#include "gpuwarden/planning/throughput.hpp"
#include "gpuwarden/planning/words.hpp"
#include "gpuwarden/planning/workload.hpp"

namespace gpuwarden::planning {

struct PlanRequest {
  Workload work;
  GpuGroup gpus;
  std::uint32_t gpus_per_node = 8;     ///< that NVLink joins
  std::uint32_t cpus = 0;              ///< cores of a node; 0: not known
  std::optional<double> train_tokens;  ///< that training goes on for
  std::optional<double> mfu;           ///< utilization that was measured, 0 to 1
  std::vector<MeasuredPeak> measured;  ///< peaks of one strategy, which work.settings then names
};

/// A plan of this model as words ask for it: the task of workload_from(), "tokens", "mfu", "calibrate", "cpus" and
/// "gpus-per-node" (whole numbers from 1, at most 65536 and 1024), and "gpus" as gpus_named() reads them. Without
/// "gpus" the request has none yet. Fails with invalid_argument or not_found, naming the word.
Result<PlanRequest> plan_request(ModelShape model, const Words& words);

struct PlanAnswer {
  PlanRequest request;
  ModelFigures figures;
  ParameterCount count;
  Search search;           ///< over all GPUs or fewer; one candidate where the strategy was given
  std::size_t chosen = 0;  ///< of its candidates: the one that is told of
  bool fits = false;
  std::vector<ExplainedUse> lines;  ///< of the chosen candidate's peak
  std::optional<ServingPool> pool;  ///< of serving
  std::optional<LayerLoads> loads;  ///< of an engine that splits layers
  std::string engine_options;       ///< of such an engine: what says so on its command line
  /// Tokens of the longest request that the pool would hold, where it holds not one of those asked for.
  std::optional<std::uint32_t> longest_request;
  std::optional<Calibration> calibration;
  std::optional<Speed> speed;      ///< empty: the GPU's peak is not known, nothing fits, or nothing is trained
  std::vector<std::string> notes;  ///< what these GPUs do not have of what was asked for, a sentence each
  std::optional<Loading> loading;  ///< empty: the node's CPUs are not known

  const Candidate& best() const { return search.candidates[chosen]; }
};

/// Where nothing over all GPUs fits and no strategy is given, the answer is a plan on fewer of them, if one fits: the
/// most on which one does, for what does not train a divisor of them if one will do; its reason says so, and
/// best().settings.parallel.gpus() is then less than request.gpus.count. So more GPUs never make misfit what fitted.
/// Fails with unsatisfied where the GPUs cannot share the task at all (the hint says what can), with
/// invalid_argument on settings that check() refuses, on measured peaks that calibrate() refuses, on a fixed strategy
/// that does not divide the GPUs, and on GPUs without memory.
Result<PlanAnswer> answer(PlanRequest request);

/// What search.hpp is asked for this work on these GPUs: speeds of arithmetic and links are the GPUs' own.
SearchRequest search_request(const Workload& work, const GpuGroup& gpus, std::uint32_t gpus_per_node);

/// The strategy to run on these GPUs, judged: the one that answer() recommends, which uses fewer of them where nothing
/// over all of them fits (settings.parallel.gpus() says how many). A serving engine fits only if its pool holds a
/// request. Empty: these GPUs cannot share the work, nor does it fit fewer of them. Computes no fewest GPUs and no
/// changes, and so costs a fraction of plan(). `figures` are those of work.model.
std::optional<Candidate> best_strategy(const ModelFigures& figures, const Workload& work, const GpuGroup& gpus,
                                       std::uint32_t gpus_per_node);

/// Bytes that must be free on each GPU for a candidate to start: what it is expected to need; of a serving engine, its
/// share of the GPU's `usable` memory, if that is more (vLLM refuses to start with less).
Bytes needed_free(const Workload& work, const Candidate& candidate, Bytes usable);

}  // namespace gpuwarden::planning
