// SPDX-License-Identifier: Apache-2.0
#include "planner/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "gpuwarden/knowledge/planning_figures.hpp"
#include "planner/models.hpp"

namespace gpuwarden::bench {

namespace {

using namespace planning;

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// A row's columns in lower case, and what was concluded so far.
struct Words {
  std::string task, precision, optimizer, recompute, parallelism, quant, peft, attention, loss, framework, metric,
      source;
  std::string model;
  bool is(std::string_view name) const { return framework.contains(name); }
};

Words words_of(const Row& row) {
  return {lower(row["task"]),        lower(row["precision"]), lower(row["optimizer"]), lower(row["recompute"]),
          lower(row["parallelism"]), lower(row["quant"]),     lower(row["peft"]),      lower(row["attn"]),
          lower(row["loss_kernel"]), lower(row["framework"]), lower(row["metric"]),    lower(row["source"]),
          lower(row["model"])};
}

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

std::uint32_t count_of(double value, std::uint32_t otherwise = 1) {
  return value >= 1 && value < 4e9 ? static_cast<std::uint32_t>(value) : otherwise;
}

Task task_of(const Words& w) {
  if (w.task == "full" || w.task == "pretrain") return Task::full_training;
  if (w.task.starts_with("infer")) return Task::inference;
  if (w.task == "serving") return Task::serving;
  return Task::adapters;
}

Precision precision_of(const Words& w) {
  if (w.precision.contains("fp32 params")) return Precision::mixed;
  if (w.precision == "fp32") return Precision::fp32;
  if (w.precision.contains("deepspeed")) return Precision::fp16;
  if (w.precision.contains("amp")) return Precision::mixed_low;
  if (w.precision.contains("fp16") && !w.precision.contains("bf16")) return Precision::fp16;
  return Precision::bf16;
}

Quantization quantization_of(const Words& w) {
  if (w.quant.contains("nf4")) return w.quant.contains("dq") ? Quantization::nf4_double : Quantization::nf4;
  if (w.quant.contains("int4") || w.quant.contains("awq")) return Quantization::int4;
  if (w.quant.contains("int8") && !w.quant.contains("kv")) return Quantization::int8;
  if (w.quant.contains("fp8") || w.precision == "8-bit weights") return Quantization::fp8;
  return Quantization::none;
}

Recompute recompute_of(const Words& w) {
  if (w.recompute.contains("offload")) return Recompute::full_offloaded;
  if (w.recompute.starts_with("full")) return Recompute::full;
  if (w.recompute.starts_with("sel")) return Recompute::selective;
  return Recompute::none;
}

/// The number behind a word: "TP8" and "tp 8" give 8.
std::uint32_t degree(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || std::isalpha(static_cast<unsigned char>(text[at - 1])) == 0;
    const std::string_view rest = text.substr(at + word.size());
    const std::size_t digits = rest.find_first_not_of(' ');
    if (begins && digits != std::string_view::npos && std::isdigit(static_cast<unsigned char>(rest[digits])) != 0) {
      return count_of(number(rest.substr(digits)));
    }
  }
  return 1;
}

Parallelism parallelism_of(const Words& w, std::uint32_t gpus) {
  Parallelism p;
  const std::string& text = w.parallelism;
  p.tensor = degree(text, "tp");
  p.pipeline = degree(text, "pp");
  p.context = std::max(degree(text, "cp"), degree(text, "sp"));
  const std::uint32_t others = p.tensor * p.pipeline * p.context;
  p.data = std::max(1U, gpus / std::max(1U, others));
  p.expert = std::min(degree(text, "ep"), p.data * p.tensor);
  if (text.contains("fsdp2"))
    p.sharding = Sharding::fsdp2;
  else if (text.contains("fsdp"))
    p.sharding = Sharding::fsdp1;
  else if (text.contains("zero-3"))
    p.sharding = Sharding::zero3;
  else if (text.contains("zero-2"))
    p.sharding = Sharding::zero2;
  else if (text.contains("zero-1") || w.optimizer.contains("distributed"))
    p.sharding = Sharding::zero1;
  if (text.contains("device_map")) {
    p.layer_stages = gpus;
    p.data = 1;
  }
  return p;
}

AdapterTargets targets_of(const Words& w) {
  AdapterTargets on;
  const std::string& text = w.peft;
  if (text.contains("c_attn,c_proj") || text.contains("all linear")) {
    on = {.query = false, .value = false, .output = true, .joint_qkv = true, .gate = true, .up = true, .down = true};
  } else if (text.contains("attn qkv") || text.contains("default") || text.contains("c_attn")) {
    on = {.query = false, .value = false, .joint_qkv = true};
  } else if (text.contains("q,k,v,o")) {
    on = {.query = true, .key = true, .value = true, .output = true};
  } else if (text.contains("key")) {
    const bool mlp = text.contains("mlp");
    on = {.query = true, .key = true, .value = true, .output = true, .gate = mlp, .up = mlp, .down = mlp};
  }
  return on;
}

Adapters adapters_of(const Words& w) {
  Adapters adapters;
  if (const std::size_t rank = w.peft.find("r="); rank != std::string::npos) {
    adapters.rank = count_of(leading_number(std::string_view(w.peft).substr(rank)), 16);
  }
  adapters.targets = targets_of(w);
  adapters.embeddings_trained = w.peft.contains("embed");
  if (const std::size_t trainable = w.peft.find("trainable "); trainable != std::string::npos) {
    std::string digits;
    for (const char c : std::string_view(w.peft).substr(trainable)) {
      if (std::isdigit(static_cast<unsigned char>(c)) != 0) digits += c;
    }
    adapters.stated_parameters = static_cast<std::uint64_t>(number(digits));
  }
  return adapters;
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
  // The tables name no versions. The one with Liger was made with later libraries; the other still copies the logits.
  s.framework = w.source.contains("liger") ? Framework::transformers : Framework::transformers_legacy;
  s.fused_kernels = w.framework.contains("foak");
  if (s.quantization == Quantization::nf4) s.quantization = Quantization::nf4_double;  // says its table of runs
  s.fp32_residual = w.framework.contains("baseline") && s.parallel.data == 1;
  s.loss = w.loss.contains("liger")  ? LossKernel::fused_linear
           : w.loss.contains("foak") ? LossKernel::triton
                                     : LossKernel::standard;
}

void as_litgpt(const Words& w, const ModelShape& model, Settings& s) {
  s.framework = Framework::litgpt;
  s.adapters.fp32 = false;
  if (w.peft.contains("q,v")) s.adapters.targets = {.query = false, .value = false, .joint_qkv = true};
  // LLaMA-Adapter keeps less of a layer than LoRA; its second version scales every matrix's output and keeps those.
  if (w.task == "adapter") s.adapters.extra_saved_per_hidden = -figure("llama_adapter_spared");
  if (w.task == "adapter_v2") {
    const double mlp = static_cast<double>(model.intermediate) / std::max(1U, model.hidden);
    s.adapters.extra_saved_per_hidden = 2 * (5 + (model.gated_mlp ? 2 : 1) * mlp) - figure("llama_adapter_v2_spared");
  }
}

void as_torchtune(const Words& w, Settings& s) {
  s.framework = Framework::torchtune;
  s.fused_kernels = true;
  s.step = w.optimizer.contains("backward") ? OptimizerStep::in_backward : OptimizerStep::fused;
  if (w.optimizer.contains("8bit")) s.optimizer = Optimizer::adamw_8bit;
  s.loss = w.loss.contains("chunked") ? LossKernel::chunked : LossKernel::standard;
  // Its table adds one option a row; compile is on from the third on.
  s.compiled = !w.framework.contains("packed") && !w.framework.contains("baseline");
}

void as_qwen_readme(Settings& s) {
  s.adapters.dropout = true;
  if (s.task == Task::full_training && s.precision == Precision::bf16) s.precision = Precision::mixed;
  if (s.task == Task::adapters && s.precision == Precision::bf16) s.precision = Precision::mixed_low;
  if (s.quantization != Quantization::none) {
    s.parallel.sharding = Sharding::zero2;  // its Q-LoRA runs go through DeepSpeed, with its buckets
    s.loss = LossKernel::low;
  }
}

void as_swift(const Words& w, Settings& s) {
  s.varied_lengths = true;
  if (s.task == Task::adapters) s.precision = Precision::mixed_low;
  // Its flash attention reaches Qwen only: other models' memory grows with the square of the length.
  if (w.attention.contains("eager") || !w.model.contains("qwen")) s.attention = Attention::eager;
}

void apply_framework(const Words& w, const ModelShape& model, Settings& s) {
  if (w.is("fms-acceleration")) return as_fms(w, s);
  if (w.is("litgpt")) return as_litgpt(w, model, s);
  if (w.is("torchtune")) return as_torchtune(w, s);
  if (w.is("torchtitan")) {
    s.framework = Framework::torchtitan;
    s.step = OptimizerStep::fused;
    s.compiled = w.framework.contains("compile");
    s.fused_kernels = true;
    if (w.loss == "torch ce compiled") s.loss = LossKernel::low;
    return;
  }
  if (w.is("megatron")) {
    s.framework = Framework::megatron;
    s.precision = Precision::master_weights;
    return;
  }
  if (w.is("swift")) return as_swift(w, s);
  if (w.is("torch 2.0, cuda")) return as_qwen_readme(s);
  if (w.framework == "hf transformers") s.growing_cache = true;  // Qwen's chat tables, before transformers' Cache
  if (w.is("hf peft")) s.varied_lengths = true;
}

Settings settings_of(const Row& row, const Words& w, const ModelShape& model) {
  Settings s;
  s.task = task_of(w);
  s.precision = precision_of(w);
  s.quantization = quantization_of(w);
  s.recompute = recompute_of(w);
  s.attention = w.attention.contains("eager") ? Attention::eager : Attention::flash;
  s.micro_batch = count_of(leading_number(row["micro_batch"]));
  s.kv_bytes = w.quant.contains("kv") ? 1 : 2;
  read_lengths(row, s);
  const double gpus = leading_number(row["n_gpus"]);
  // Megatron's release tests do not say how many GPUs; their recipes use several replicas.
  const bool unsaid = gpus < 1 && w.is("megatron");
  const std::uint32_t replicas = 8 * degree(w.parallelism, "tp") * degree(w.parallelism, "pp");
  s.parallel = parallelism_of(w, unsaid ? replicas : count_of(gpus));
  s.adapters = adapters_of(w);
  if (s.task == Task::full_training && s.quantization != Quantization::fp8) s.quantization = Quantization::none;
  apply_framework(w, model, s);
  // A pipeline takes the batch in micro-batches of one sample, torchtitan's default.
  if (s.parallel.pipeline > 1 && w.is("torchtitan")) s.accumulation = std::exchange(s.micro_batch, 1U);
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
  c.figures = figures_of(shape, static_cast<std::uint64_t>(number(row["params"])));
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
