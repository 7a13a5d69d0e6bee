// SPDX-License-Identifier: Apache-2.0
// What to change where nothing fits, by what it costs: first what costs nothing, last what changes the task.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/serving.hpp"
#include "search_parts.hpp"

namespace gpuwarden::planning {

namespace {

constexpr std::size_t kMostChanges = 4;

/// One change; `apply` says false where it would change nothing.
struct Step {
  std::string_view what;
  bool (*apply)(SearchRequest&);
};

template <class T>
bool set(T& place, T value) {
  if (place == value) return false;
  place = value;
  return true;
}

bool trains(const SearchRequest& request) { return request.settings.trains(); }
bool trains_all(const SearchRequest& request) { return request.settings.task == Task::full_training; }
/// Megatron has its own loss and fp32 masters, and keeps gradients on the GPU; neither it nor torchtitan has
/// bitsandbytes.
bool is_megatron(const SearchRequest& request) { return request.settings.framework == Framework::megatron; }
bool has_bitsandbytes(const SearchRequest& request) {
  return !is_megatron(request) && request.settings.framework != Framework::torchtitan;
}

bool make_adapters(SearchRequest& request, Quantization quantization) {
  if (!trains(request)) return false;
  const bool task = set(request.settings.task, Task::adapters);
  const bool weights = set(request.settings.quantization, quantization);
  if (task) request.settings.precision = Precision::mixed_low;
  return task || weights;
}

/// A GGUF file that has more bits than Q4_K_M's.
bool is_wide_mix(Quantization quantization) {
  const FileMix* const mix = find_mix(quantization);
  return mix != nullptr && bytes_per_element(mix->base) > bytes_per_element(GgmlType::q4_k);
}

constexpr std::array kSteps{
    Step{"use flash attention", [](SearchRequest& r) { return set(r.settings.attention, Attention::flash); }},
    Step{"compute the loss without storing logits (fused linear cross entropy)",
         [](SearchRequest& r) {
           return trains(r) && !is_megatron(r) && set(r.settings.loss, LossKernel::fused_linear);
         }},
    Step{"use a fused optimizer step",
         [](SearchRequest& r) {
           return trains(r) && !is_megatron(r) && r.settings.step == OptimizerStep::foreach &&
                  set(r.settings.step, OptimizerStep::fused);
         }},
    Step{"use a smaller micro-batch",
         [](SearchRequest& r) { return trains(r) && r.micro_batch > 1 && set(r.micro_batch, std::uint32_t{1}); }},
    Step{"take one sequence at a time",
         [](SearchRequest& r) { return !trains(r) && r.micro_batch > 1 && set(r.micro_batch, std::uint32_t{1}); }},
    Step{"use gradient checkpointing",
         [](SearchRequest& r) { return trains(r) && r.fixed_recompute && set(r.settings.recompute, Recompute::full); }},
    Step{"keep the KV cache in 8 bit",
         [](SearchRequest& r) { return !trains(r) && r.settings.kv_bytes > 1 && set(r.settings.kv_bytes, 1.0); }},
    Step{"keep the weights in 8 bit",
         [](SearchRequest& r) {
           return !trains(r) && r.settings.quantization == Quantization::none &&
                  set(r.settings.quantization, Quantization::fp8);
         }},
    Step{"keep the weights in 4 bit",
         [](SearchRequest& r) {
           return !trains(r) && find_mix(r.settings.quantization) == nullptr &&
                  set(r.settings.quantization, Quantization::int4);
         }},
    Step{"take a file in Q4_K_M",
         [](SearchRequest& r) {
           return !trains(r) && is_wide_mix(r.settings.quantization) &&
                  set(r.settings.quantization, Quantization::q4_k_m);
         }},
    Step{"use 8-bit AdamW",
         [](SearchRequest& r) {
           return trains_all(r) && has_bitsandbytes(r) && r.settings.optimizer == Optimizer::adamw &&
                  set(r.settings.optimizer, Optimizer::adamw_8bit);
         }},
    Step{"train in pure bf16",
         [](SearchRequest& r) {
           return trains_all(r) && !is_megatron(r) && set(r.settings.precision, Precision::bf16);
         }},
    Step{"keep the optimizer's states on the host",
         [](SearchRequest& r) {
           return trains_all(r) && !is_megatron(r) && set(r.settings.parallel.offload, Offload::optimizer);
         }},
    Step{"train LoRA adapters instead of all weights",
         [](SearchRequest& r) { return trains_all(r) && make_adapters(r, Quantization::none); }},
    Step{"train QLoRA adapters beside 4-bit weights",
         [](SearchRequest& r) { return has_bitsandbytes(r) && make_adapters(r, Quantization::nf4_double); }},
};

void try_request(const ModelFigures& model, const SearchRequest& request, std::string what,
                 std::vector<Change>& changes, std::size_t& searched) {
  std::optional<Candidate> best = best_of(model, request, searched);
  if (!best || best->fit == Fit::does_not_fit) return;
  // FSDP moves all that it stores.
  const Parallelism& parallel = best->settings.parallel;
  const bool fsdp = parallel.sharding == Sharding::fsdp1 || parallel.sharding == Sharding::fsdp2;
  if (request.settings.parallel.offload == Offload::optimizer && fsdp)
    what = "keep weights, gradients and the optimizer's states on the host";
  if (best->other_framework) what += fmt::format(", in {}", title_of(best->settings.framework));
  changes.push_back({std::move(what), std::move(*best)});
}

std::string use_words(std::uint32_t gpus) { return fmt::format("use {} GPU{}", gpus, gpus == 1 ? "" : "s"); }

/// A serving engine's settings, and its own.
struct PoolStep {
  std::string_view what;
  bool (*apply)(SearchRequest&, ServingBudget&);
};

constexpr double kMostUtilization = 0.95;
constexpr std::uint32_t kFewBatchedTokens = 2048;  ///< vLLM's default where prompts come in pieces
constexpr std::uint32_t kShortestSequence = 512;

constexpr std::array kPoolSteps{
    PoolStep{"let the engine take 95% of the GPU's memory",
             [](SearchRequest&, ServingBudget& b) {
               return b.static_share == 0 && b.utilization < kMostUtilization && set(b.utilization, kMostUtilization);
             }},
    PoolStep{"read prompts in pieces of 2,048 tokens (max_num_batched_tokens)",
             [](SearchRequest&, ServingBudget& b) {
               return b.batched_tokens > kFewBatchedTokens && set(b.batched_tokens, kFewBatchedTokens);
             }},
    PoolStep{"keep the KV cache in 8 bit",
             [](SearchRequest& r, ServingBudget&) {
               return !r.settings.split && r.settings.kv_bytes > 1 && set(r.settings.kv_bytes, 1.0);
             }},
    PoolStep{"keep the KV cache in 8 bit (-ctk q8_0 -ctv q8_0)",
             [](SearchRequest& r, ServingBudget&) {
               const double bytes = bytes_per_element(GgmlType::q8_0);
               if (!r.settings.split || r.settings.attention != Attention::flash) return false;
               r.settings.split->keys = r.settings.split->values = "q8_0";
               return r.settings.kv_bytes > bytes && set(r.settings.kv_bytes, bytes);
             }},
    PoolStep{"take a file in Q8_0",
             [](SearchRequest& r, ServingBudget&) {
               return r.settings.split && r.settings.quantization == Quantization::none &&
                      set(r.settings.quantization, Quantization::q8_0);
             }},
    PoolStep{"take a file in Q4_K_M",
             [](SearchRequest& r, ServingBudget&) {
               const bool narrow =
                   find_mix(r.settings.quantization) != nullptr && !is_wide_mix(r.settings.quantization);
               return r.settings.split && !narrow && set(r.settings.quantization, Quantization::q4_k_m);
             }},
    PoolStep{"keep the weights in 8 bit",
             [](SearchRequest& r, ServingBudget&) {
               return !r.settings.split && r.settings.quantization == Quantization::none &&
                      set(r.settings.quantization, Quantization::fp8);
             }},
    PoolStep{"keep the weights in 4 bit",
             [](SearchRequest& r, ServingBudget&) {
               const Quantization now = r.settings.quantization;
               const bool wider = now == Quantization::none || now == Quantization::fp8 || now == Quantization::int8;
               return !r.settings.split && wider && set(r.settings.quantization, Quantization::int4);
             }},
};

/// The best strategy for the request if its pool holds a whole sequence.
std::optional<Candidate> holds_a_sequence(const ModelFigures& model, const SearchRequest& request,
                                          const ServingBudget& budget, std::size_t& searched) {
  std::optional<Candidate> best = best_of(model, request, searched);
  if (!best || best->fit == Fit::does_not_fit) return {};
  const Result<ServingPool> pool = serving_pool(model, best->settings, budget);
  return pool && pool->requests >= 1 ? best : std::nullopt;
}

/// With so many layers on GPUs, the others on the host.
SearchRequest with_layers(SearchRequest request, std::uint32_t layers) {
  request.settings.split->gpu_layers = layers;
  return request;
}

/// With all layers on GPUs, but for the experts of the first so many.
SearchRequest with_host_experts(SearchRequest request, std::uint32_t layers) {
  request.settings.split->host_experts = layers;
  return request;
}

/// The fewest of `most` for which it holds, where it holds for more if it holds for some; none: not even for all.
template <class Holds>
std::optional<std::uint32_t> fewest_of(std::uint32_t most, Holds holds) {
  if (!holds(most)) return {};
  std::uint32_t held = most;
  std::uint32_t missed = 0;
  while (held - missed > 1) {
    const std::uint32_t middle = missed + (held - missed) / 2;
    (holds(middle) ? held : missed) = middle;
  }
  return held;
}

/// What llama.cpp can leave to the CPU so that a request fits: experts, else whole layers.
void leave_to_the_cpu(const ModelFigures& model, const SearchRequest& request, const ServingBudget& budget,
                      std::vector<Change>& changes) {
  if (!request.settings.split) return;
  std::size_t searched = 0;
  const auto held = [&](const SearchRequest& changed) {
    return holds_a_sequence(model, changed, budget, searched).has_value();
  };
  const auto add = [&](const SearchRequest& changed, std::string what) {
    if (auto best = holds_a_sequence(model, changed, budget, searched))
      changes.push_back({std::move(what), std::move(*best)});
  };
  const std::uint32_t layers = model.shape.layers + model.shape.encoder_layers;
  if (model.shape.experts.experts > 0) {
    const auto experts = fewest_of(layers, [&](std::uint32_t n) { return held(with_host_experts(request, n)); });
    if (experts)
      add(with_host_experts(request, *experts),
          fmt::format("leave experts of the first layers to the CPU, which is slow (--n-cpu-moe {})", *experts));
  }
  const auto on_host = fewest_of(layers, [&](std::uint32_t n) { return held(with_layers(request, layers + 1 - n)); });
  if (on_host)
    add(with_layers(request, layers + 1 - *on_host),
        fmt::format("leave the first layers to the CPU, which is slow (-ngl {}; ollama: num_gpu)",
                    layers + 1 - *on_host));
}

SearchRequest with_length(SearchRequest request, std::uint32_t tokens) {
  request.settings.sequence = tokens;
  request.settings.prompt = std::min(request.settings.prompt, tokens);
  return request;
}

}  // namespace

std::uint32_t longest_request(const ModelFigures& model, const SearchRequest& request, const ServingBudget& budget) {
  std::size_t searched = 0;
  const auto holds = [&](std::uint32_t tokens) {
    return tokens > 0 && holds_a_sequence(model, with_length(request, tokens), budget, searched).has_value();
  };
  if (budget.block_tokens == 0) return 0;
  if (holds(request.settings.sequence)) return request.settings.sequence;
  std::uint32_t held = 0;  // in blocks
  std::uint32_t missed = request.settings.sequence / budget.block_tokens + 1;
  while (missed - held > 1) {
    const std::uint32_t middle = held + (missed - held) / 2;
    (holds(middle * budget.block_tokens) ? held : missed) = middle;
  }
  return held * budget.block_tokens;
}

std::vector<Change> pool_changes(const ModelFigures& model, const SearchRequest& request, const ServingBudget& budget,
                                 std::uint32_t longest, std::optional<std::uint32_t> smallest) {
  std::vector<Change> changes;
  std::size_t searched = 0;
  const auto attempt = [&](const SearchRequest& changed, const ServingBudget& with, std::string what) {
    std::optional<Candidate> best = holds_a_sequence(model, changed, with, searched);
    if (best) changes.push_back({std::move(what), std::move(*best)});
  };
  SearchRequest all = request;
  ServingBudget with_all = budget;
  std::string words;
  attempt(request, budget, "");
  if (!changes.empty()) return {};
  for (const PoolStep& step : kPoolSteps) {
    SearchRequest changed = request;
    ServingBudget with = budget;
    if (changes.size() < kMostChanges && step.apply(changed, with)) attempt(changed, with, std::string(step.what));
    if (!changes.empty() || !step.apply(all, with_all)) continue;
    words += fmt::format("{}{}", words.empty() ? "" : ", ", step.what);
    if (words != step.what) attempt(all, with_all, words);
  }
  leave_to_the_cpu(model, request, budget, changes);
  if (longest >= kShortestSequence)
    attempt(with_length(request, longest), budget, fmt::format("take requests of {} tokens at most", longest));
  if (smallest && *smallest != request.gpus) {
    SearchRequest more = request;
    more.gpus = *smallest;
    attempt(more, budget, use_words(*smallest));
  }
  return changes;
}

std::vector<Change> changes_for(const ModelFigures& model, const SearchRequest& request,
                                std::optional<std::uint32_t> smallest, std::size_t& searched) {
  std::vector<Change> changes;
  const auto use_smallest = [&] {
    SearchRequest others = request;
    others.gpus = *smallest;
    try_request(model, others, use_words(*smallest), changes, searched);
  };
  // Fewer than there are cost nothing.
  if (smallest && *smallest < request.gpus) use_smallest();
  for (const Step& step : kSteps) {
    SearchRequest changed = request;
    if (changes.size() >= kMostChanges || !step.apply(changed)) continue;
    try_request(model, changed, std::string(step.what), changes, searched);
  }
  if (request.fixed_strategy) {
    SearchRequest free = request;
    free.fixed_strategy = false;
    const Offload offload = request.settings.parallel.offload;
    free.settings.parallel = {.sharding = request.settings.parallel.sharding, .offload = offload};
    try_request(model, free, "share the work by another strategy", changes, searched);
  }
  // Where none is enough alone, one is added to the other.
  SearchRequest all = request;
  std::string words;
  for (const Step& step : kSteps) {
    if (!changes.empty()) break;
    if (!step.apply(all)) continue;
    words += fmt::format("{}{}", words.empty() ? "" : ", ", step.what);
    try_request(model, all, words, changes, searched);
  }
  if (smallest && *smallest > request.gpus) use_smallest();
  return changes;
}

}  // namespace gpuwarden::planning
