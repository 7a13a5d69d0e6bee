// SPDX-License-Identifier: Apache-2.0
#include "planner/words.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <span>
#include <vector>

namespace gpuwarden::bench {

namespace {

using namespace planning;

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.contains(word); });
}

/// Small letters and digits alone: "ZeRO Stage-3" is "zerostage3".
std::string squeezed(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) result += c;
  }
  return result;
}

/// Runs of letters, digits and '_', '-' inside of them.
std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-') {
      tokens.back() += c;
    } else if (!tokens.back().empty()) {
      tokens.emplace_back();
    }
  }
  return tokens;
}

double number_at(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

Words words_of(const Row& row) {
  return {lower(row["task"]),        lower(row["precision"]),   lower(row["optimizer"]), lower(row["recompute"]),
          lower(row["parallelism"]), lower(row["offload"]),     lower(row["quant"]),     lower(row["peft"]),
          lower(row["attn"]),        lower(row["loss_kernel"]), lower(row["framework"]), lower(row["metric"]),
          lower(row["source"]),      lower(row["model"])};
}

std::uint32_t count_of(double value, std::uint32_t otherwise) {
  return value >= 1 && value < 4e9 ? static_cast<std::uint32_t>(value) : otherwise;
}

Task task_of(const Words& w) {
  if (has_any(w.task, {"infer", "generat"})) return Task::inference;
  if (has_any(w.task, {"serv"})) return Task::serving;
  if (has_any(w.task, {"lora", "adapter", "peft", "dora", "ia3", "prefix", "prompt"})) return Task::adapters;
  if (has_any(w.task, {"full", "train", "tun", "sft"})) return Task::full_training;
  return w.peft.empty() ? Task::full_training : Task::adapters;
}

Precision precision_of(const Words& w) {
  const std::string& text = w.precision;
  if (text.contains("fp32 params")) return Precision::mixed;
  if (is_one_of(squeezed(text), {"fp32", "float32", "32", "32true", "tf32", "fp32true"})) return Precision::fp32;
  if (text.contains("deepspeed")) return Precision::fp16;
  if (text.contains("master")) return Precision::master_weights;
  if (has_any(text, {"amp", "autocast"})) return Precision::mixed_low;
  if (text.contains("mixed")) return Precision::mixed;
  if (has_any(text, {"fp16", "float16", "16-true"}) && !has_any(text, {"bf16", "bfloat16"})) return Precision::fp16;
  return Precision::bf16;
}

Fp8 fp8_of(const Words& w) {
  const bool said = has_any(w.precision, {"fp8", "float8"}) || has_any(w.framework, {"fp8", "float8"});
  if (task_of(w) != Task::full_training || !said) return Fp8::none;
  const bool gathers = has_any(w.precision, {"all-gather", "all gather", "allgather"});
  return gathers ? Fp8::gathered : Fp8::matrices;
}

Optimizer optimizer_of(const Words& w) {
  const std::string text = squeezed(w.optimizer);
  if (has_any(text, {"8bit", "int8", "bnb"})) return text.contains("lion") ? Optimizer::lion : Optimizer::adamw_8bit;
  if (text.contains("adafactor")) return Optimizer::adafactor;
  if (text.contains("lion")) return Optimizer::lion;
  if (text.contains("sgd")) return text.contains("momentum") ? Optimizer::sgd_momentum : Optimizer::sgd;
  return Optimizer::adamw;
}

OptimizerStep step_of(const Words& w) {
  if (w.optimizer.contains("backward")) return OptimizerStep::in_backward;
  return w.optimizer.contains("fused") ? OptimizerStep::fused : OptimizerStep::foreach;
}

Quantization quantization_of(const Words& w) {
  const bool named = w.quant.empty() && task_of(w) != Task::full_training;
  const std::string text = squeezed(named ? w.model : w.quant);
  const bool cache_only = text.contains("kv");
  if (text.contains("mxfp4")) return Quantization::mxfp4;
  if (has_any(text, {"nf4", "bnb4bit", "bitsandbytes"})) {
    return has_any(text, {"dq", "double"}) ? Quantization::nf4_double : Quantization::nf4;
  }
  if (has_any(text, {"gptq", "awq", "int4", "w4a16", "q4k"}) && !has_any(text, {"int8", "8bit"}))
    return Quantization::int4;
  if (!cache_only && has_any(text, {"int8", "8bit", "w8a8"})) return Quantization::int8;
  if (has_any(text, {"fp8", "float8"}) || w.precision == "8-bit weights") return Quantization::fp8;
  return !named && text.contains("4bit") ? Quantization::nf4 : Quantization::none;
}

Recompute recompute_of(const Words& w) {
  const std::string& text = w.recompute;
  if (text.contains("offload")) return Recompute::full_offloaded;
  if (has_any(text, {"sel", "per-op", "sac"})) return Recompute::selective;
  const bool denied = has_any(text, {"false", "w/o", "without"}) || text.starts_with("no") || text.starts_with("off");
  if (denied || text.empty()) return Recompute::none;
  const bool said = has_any(text, {"full", "checkpoint", "yes", "true", "on", "uniform", "block", "every"});
  return said ? Recompute::full : Recompute::none;
}

Attention attention_of(const Words& w) {
  return has_any(w.attention, {"eager", "math", "naive", "vanilla"}) ? Attention::eager : Attention::flash;
}

LossKernel loss_of(const Words& w) {
  const std::string& text = w.loss;
  if (has_any(text, {"liger", "fused linear", "fused-linear", "cut cross", "cce"})) return LossKernel::fused_linear;
  if (has_any(text, {"chunk"})) return LossKernel::chunked;
  if (has_any(text, {"triton", "foak", "unsloth"})) return LossKernel::triton;
  return LossKernel::standard;
}

std::uint32_t degree(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || std::isalpha(static_cast<unsigned char>(text[at - 1])) == 0;
    const std::string_view rest = text.substr(at + word.size());
    const std::size_t digits = rest.find_first_not_of(" =:-");
    if (begins && digits != std::string_view::npos && std::isdigit(static_cast<unsigned char>(rest[digits])) != 0) {
      return count_of(number_at(rest.substr(digits)));
    }
  }
  return 1;
}

namespace {

Sharding sharding_of(const Words& w) {
  const std::string text = squeezed(w.parallelism);
  const bool function = text.contains("fullyshard") && !text.contains("fullysharded");
  if (function || has_any(text, {"fsdp2", "fsdpv2"})) return Sharding::fsdp2;
  if (has_any(text, {"fsdp", "fullshard", "fullysharded", "hsdp"})) return Sharding::fsdp1;
  if (has_any(text, {"zero3", "stage3"})) return Sharding::zero3;
  if (has_any(text, {"zero2", "stage2"})) return Sharding::zero2;
  if (has_any(text, {"zero1", "stage1"}) || w.optimizer.contains("distributed")) return Sharding::zero1;
  return Sharding::none;
}

Offload offload_of(const Words& w, Sharding sharding) {
  if (!has_any(w.offload, {"cpu", "host", "offload", "nvme", "disk", "optim", "yes", "all"})) return Offload::none;
  const bool all = sharding != Sharding::zero2 && !w.offload.contains("optim");
  return all ? Offload::all : Offload::optimizer;
}

}  // namespace

Parallelism parallelism_of(const Words& w, std::uint32_t gpus) {
  Parallelism p;
  const std::string& text = w.parallelism;
  p.tensor = std::max(degree(text, "tp"), degree(text, "tensor parallel"));
  p.pipeline = std::max(degree(text, "pp"), degree(text, "pipeline parallel"));
  p.context = std::max({degree(text, "cp"), degree(text, "sp"), degree(text, "context parallel")});
  p.virtual_stages = std::max(degree(text, "vpp"), text.contains("interleaved") && p.pipeline > 1 ? 2U : 1U);
  const std::uint32_t others = p.tensor * p.pipeline * p.context;
  const std::uint32_t said = std::max({degree(text, "fsdp2"), degree(text, "fsdp"), degree(text, "dp")});
  p.data = gpus > 0 ? std::max(1U, gpus / std::max(1U, others)) : said;
  const std::uint32_t expert = std::max(degree(text, "ep"), degree(text, "expert parallel"));
  p.expert = std::min(expert, p.data * p.tensor);
  p.sharding = sharding_of(w);
  if (has_any(text, {"device_map", "naive model parallel"})) {
    p.layer_stages = std::max(1U, gpus);
    p.data = 1;
  }
  p.offload = offload_of(w, p.sharding);
  // DDP keeps all on each GPU; what is offloaded goes through DeepSpeed.
  if (p.offload != Offload::none && p.sharding == Sharding::none) p.sharding = Sharding::zero3;
  return p;
}

namespace {

AdapterTargets named_targets(std::span<const std::string> tokens) {
  AdapterTargets on{.query = false, .value = false};
  for (const std::string& token : tokens) {
    if (is_one_of(token, {"q", "q_proj", "query", "wq"})) on.query = true;
    if (is_one_of(token, {"k", "k_proj", "key", "wk"})) on.key = true;
    if (is_one_of(token, {"v", "v_proj", "value", "wv"})) on.value = true;
    if (is_one_of(token, {"o", "o_proj", "output", "proj", "projection", "wo", "out_proj"})) on.output = true;
    if (is_one_of(token, {"gate", "gate_proj", "mlp", "w1"})) on.gate = true;
    if (is_one_of(token, {"up", "up_proj", "mlp", "w3"})) on.up = true;
    if (is_one_of(token, {"down", "down_proj", "mlp", "w2"})) on.down = true;
  }
  return on;
}

AdapterTargets targets_of(const Words& w) {
  const std::string& text = w.peft;
  if (has_any(text, {"c_attn,c_proj", "all linear", "all-linear", "all_linear"})) {
    return {.query = false, .value = false, .output = true, .joint_qkv = true, .gate = true, .up = true, .down = true};
  }
  if (has_any(text, {"attn qkv", "default", "c_attn", "qkv"})) {
    return {.query = false, .value = false, .joint_qkv = true};
  }
  const std::vector<std::string> tokens = tokens_of(text);
  const AdapterTargets on = named_targets(tokens);
  const bool none = !on.query && !on.key && !on.value && !on.output && !on.gate && !on.up && !on.down;
  return none ? AdapterTargets{} : on;
}

}  // namespace

Adapters adapters_of(const Words& w) {
  Adapters adapters;
  for (const std::string_view word : {"r=", "rank=", "rank "}) {
    const std::size_t at = w.peft.find(word);
    if (at == std::string::npos) continue;
    adapters.rank = count_of(leading_number(std::string_view(w.peft).substr(at + word.size())), adapters.rank);
    break;
  }
  adapters.targets = targets_of(w);
  adapters.embeddings_trained = w.peft.contains("embed");
  if (const std::size_t trainable = w.peft.find("trainable "); trainable != std::string::npos) {
    std::string digits;
    for (const char c : std::string_view(w.peft).substr(trainable)) {
      if (std::isdigit(static_cast<unsigned char>(c)) != 0) digits += c;
    }
    adapters.stated_parameters = static_cast<std::uint64_t>(number_at(digits));
  }
  return adapters;
}

}  // namespace gpuwarden::bench
