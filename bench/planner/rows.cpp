// SPDX-License-Identifier: Apache-2.0
#include "planner/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "gpuwarden/knowledge/planning_figures.hpp"
#include "planner/models.hpp"
#include "planner/words.hpp"

namespace gpuwarden::bench {

namespace {

using namespace planning;

constexpr double kGiB = 1024.0 * 1024 * 1024;

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// A number of the knowledge base that only this table's kinds of runs need.
double figure(std::string_view name) {
  const knowledge::PlanningFigure* row = knowledge::find_planning_figure(name);
  return row == nullptr ? 0 : row->value;
}

/// "6144 prompt + 2048 generated", "2048 (max_length, truncated)", "<=4096 unpacked".
void read_lengths(const Row& row, Settings& s) {
  const std::string text = lower(row["seq_len"]);
  const std::vector<double> numbers = numbers_in(text);
  const double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
  if (text.contains("prompt") && text.contains("+")) {
    s.sequence = count_of(sum, 512);
    s.prompt = text.starts_with("prompt") ? 0 : count_of(numbers.empty() ? 0 : numbers.front(), 0);
  } else {
    s.sequence = count_of(numbers.empty() ? 0 : numbers.front(), 2048);
  }
  // Alpaca's samples are far shorter than the limit, and nothing packs them.
  if (text.contains("unpacked")) s.sequence = std::min(s.sequence, 900U);
}

void as_fms(const Words& w, Settings& s) {
  // scripts/benchmarks/refs/requirements*.txt: the tables of Liger and Granite were made with transformers 4.45.2, the
  // other with 4.48.1.
  const bool older = w.source.contains("liger") || w.source.contains("granite");
  s.framework = older ? Framework::transformers_legacy : Framework::transformers;
  s.fused_kernels = w.framework.contains("foak");
  if (s.quantization == Quantization::nf4) s.quantization = Quantization::nf4_double;  // says its table of runs
  s.fp32_residual = w.framework.contains("baseline") && s.parallel.data == 1;
}

void as_litgpt(const Words& w, const ModelShape& model, Settings& s) {
  s.framework = Framework::litgpt;
  s.adapters.fp32 = false;
  if (w.peft.contains("q,v")) s.adapters.targets = {.query = false, .value = false, .joint_qkv = true};
  // The second version of LLaMA-Adapter scales every matrix's output and keeps those.
  if (w.task == "adapter_v2") {
    const double mlp = static_cast<double>(model.intermediate) / std::max(1U, model.hidden);
    s.adapters.extra_saved_per_hidden = 2 * (5 + (model.gated_mlp ? 2 : 1) * mlp);
  }
}

void as_torchtune(const Words& w, Settings& s) {
  s.framework = Framework::torchtune;
  s.fused_kernels = true;
  if (s.step == OptimizerStep::foreach) s.step = OptimizerStep::fused;
  // Its table adds one option a row; compile is on from the third on.
  s.compiled = !w.framework.contains("packed") && !w.framework.contains("baseline");
}

void as_qwen_readme(Settings& s) {
  // torch 2.0; its Q-LoRA runs go through DeepSpeed, with its buckets and its own optimizer step.
  if (s.quantization == Quantization::none) s.step = OptimizerStep::foreach_twice;
  s.framework = Framework::transformers_legacy;
  s.adapters.dropout = true;
  if (s.task == Task::full_training && s.precision == Precision::bf16) s.precision = Precision::mixed;
  if (s.task == Task::adapters && s.precision == Precision::bf16) s.precision = Precision::mixed_low;
  if (s.quantization != Quantization::none) {
    s.parallel.sharding = Sharding::zero2;
    s.loss = LossKernel::low;
  }
}

void as_swift(const Words& w, Settings& s) {
  s.framework = Framework::transformers_legacy;
  s.varied_lengths = true;
  if (s.task == Task::adapters) s.precision = Precision::mixed_low;
  // Its flash attention reaches Qwen only: other models' memory grows with the square of the length. Baichuan2-7B's own
  // code (modeling_baichuan.py) calls torch's fused attention; the 13B one does not.
  const bool fused = w.model.contains("qwen") || w.model.contains("baichuan2-7b");
  if (!fused) s.attention = Attention::eager;
}

void as_torchtitan(const Words& w, Settings& s) {
  s.framework = Framework::torchtitan;
  s.step = OptimizerStep::fused;
  s.compiled = w.framework.contains("compile");
  s.fused_kernels = true;
  if (w.loss == "torch ce compiled") s.loss = LossKernel::low;
  // train_configs/llama3_405b.toml gathers weights in 8 bits, those of 8B and 70B do not.
  if (s.fp8 != Fp8::none && w.model.contains("405b")) s.fp8 = Fp8::gathered;
  if (s.parallel.pipeline == 1) return;
  // The local batch goes through a pipeline in as many micro-batches as it has ranks (pipelining_utils.py).
  s.accumulation = std::min(s.parallel.pipeline, s.micro_batch);
  s.micro_batch /= s.accumulation;
}

void as_megatron(const Row& row, Settings& s) {
  s.framework = Framework::megatron;
  s.precision = Precision::master_weights;
  const std::string batches = lower(row["grad_accum"]);
  const std::size_t global = batches.find("gbs");
  if (global == std::string::npos) return;
  const double samples = leading_number(std::string_view(batches).substr(global));
  const double each = static_cast<double>(s.micro_batch) * s.parallel.data;
  // A pipeline that says nothing of its global batch is filled.
  const std::uint32_t filled = s.parallel.pipeline > 1 ? 4 * s.parallel.pipeline : 1;
  s.accumulation = samples > 1 ? count_of(samples / each) : filled;
}

void apply_framework(const Row& row, const Words& w, const ModelShape& model, Settings& s) {
  if (w.is("fms-acceleration")) return as_fms(w, s);
  if (w.is("litgpt")) return as_litgpt(w, model, s);
  if (w.is("torchtune")) return as_torchtune(w, s);
  if (w.is("titan")) return as_torchtitan(w, s);
  if (w.is("megatron") || w.is("nemo")) {
    return as_megatron(row, s);
  }
  if (w.is("swift")) return as_swift(w, s);
  if (w.is("torch 2.0, cuda")) return as_qwen_readme(s);
  if (w.framework == "hf transformers") s.growing_cache = true;  // Qwen's chat tables, before transformers' Cache
  if (w.is("hf peft")) s.varied_lengths = true;
  if (w.is("liger") || w.is("unsloth")) s.fused_kernels = true;
}

Settings settings_of(const Row& row, const Words& w, const ModelShape& model) {
  Settings s;
  s.task = task_of(w);
  s.precision = precision_of(w);
  s.fp8 = fp8_of(w);
  s.optimizer = optimizer_of(w);
  s.step = step_of(w);
  s.quantization = quantization_of(w);
  s.recompute = recompute_of(w);
  s.attention = model.eager_only ? Attention::eager : attention_of(w);
  s.loss = loss_of(w);
  s.micro_batch = count_of(leading_number(row["micro_batch"]));
  if (s.trains() && !lower(row["grad_accum"]).contains("gbs"))
    s.accumulation = count_of(leading_number(row["grad_accum"]));
  s.kv_bytes = w.quant.contains("kv") ? 1 : 2;
  read_lengths(row, s);
  const double gpus = leading_number(row["n_gpus"]);
  // Megatron's release tests do not say how many GPUs; their recipes use several replicas.
  const bool unsaid = gpus < 1 && w.is("megatron");
  const std::uint32_t replicas = 8 * degree(w.parallelism, "tp") * degree(w.parallelism, "pp");
  s.parallel = parallelism_of(w, unsaid ? replicas : count_of(gpus, 0));
  s.adapters = adapters_of(w);
  if (s.task == Task::full_training) {
    if (s.quantization == Quantization::fp8 && s.fp8 == Fp8::none) s.fp8 = Fp8::matrices;
    s.quantization = Quantization::none;
  }
  apply_framework(row, w, model, s);
  return s;
}

Metric metric_of(const Words& w) {
  if (w.metric.contains("smi") && !w.metric.contains("not stated")) return Metric::whole_gpu;
  if (w.metric.contains("reserved") || w.metric.contains("wandb")) return Metric::reserved;
  if (w.metric.contains("startup log") || w.metric.contains("log line")) return Metric::weights;
  const bool training = w.task != "inference";
  if ((w.metric.contains("not stated") || w.metric.contains("gpu memory")) && training) return Metric::unstated;
  return Metric::allocated;
}

std::string source_of(const Words& w) {
  for (const std::string_view name : {"fms-acceleration", "litgpt", "torchtune", "torchtitan", "ms-swift", "vllm",
                                      "llama.cpp", "megatron", "hf peft"}) {
    if (w.framework.contains(name)) return std::string(name);
  }
  if (w.framework.contains("torch 2.0, cuda")) return "qwen-readme";
  if (w.framework == "hf transformers") return "qwen-readme-chat";
  return w.framework.starts_with("hf transformers") ? "qwen3-docs" : w.framework;
}

/// "A100-80GB": what nvidia-smi calls total is 1.1% less than GB times 2^30 on the cards measured.
double gpu_bytes(std::string_view name) {
  for (const double value : numbers_in(name)) {
    const std::string text = fmt::format("{}gb", value);
    if (value >= 8 && lower(name).contains(text)) return value * kGiB * 0.9894;
  }
  return 0;
}

}  // namespace

std::string_view to_string(Metric metric) {
  switch (metric) {
    case Metric::allocated:
      return "allocated";
    case Metric::reserved:
      return "reserved";
    case Metric::unstated:
      return "unstated";
    case Metric::whole_gpu:
      return "whole_gpu";
    case Metric::weights:
      return "weights";
  }
  return "?";
}

Result<Case> read_case(const Row& row) {
  const Words w = words_of(row);
  Case c;
  c.id = row["id"];
  c.model = row["model"];
  c.source = source_of(w);
  c.complete = row["settings_complete"] == "Y";
  c.measured = number(row["mem_gib"]) * kGiB;
  c.gpu_bytes = gpu_bytes(row["gpu"]);
  if (lower(row["mem_raw"]).contains("sum over gpus")) c.measured /= std::max(1.0, leading_number(row["n_gpus"]));
  c.out_of_memory = w.metric == "oom" && c.gpu_bytes > 0;
  if (c.measured <= 0 && !c.out_of_memory)
    return fail(ErrorCode::invalid_argument, "no measurement in mem_gib", "give GiB");
  GPUWARDEN_TRY(const ModelShape shape, model_named(row["model"], number(row["params"])));
  c.figures = figures_of(shape);
  if (const double stated = number(row["params"]); stated > 0) c.figures.total = stated;
  c.settings = settings_of(row, w, shape);
  c.metric = metric_of(w);
  return c;
}

Result<double> predict(const Case& c) {
  GPUWARDEN_TRY(const Estimate estimate, planning::estimate(c.figures, c.settings));
  const double held = estimate.allocated + estimate.reserve;
  switch (c.metric) {
    case Metric::allocated:
      return estimate.allocated;
    case Metric::reserved:
      return held;
    case Metric::unstated:
      return held + estimate.context + figure("eager_kernels");
    case Metric::whole_gpu:
      return estimate.expected();
    case Metric::weights:
      return estimate.moments[0].at(Use::weights);
  }
  return estimate.allocated;
}

double bounded(const Case& c, double predicted) {
  if (c.gpu_bytes <= 0) return predicted;
  if (c.metric == Metric::reserved) return std::min(predicted, 0.97 * c.gpu_bytes);
  if (c.metric == Metric::whole_gpu) return std::min(predicted, c.gpu_bytes);
  return predicted;
}

}  // namespace gpuwarden::bench
