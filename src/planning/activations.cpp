// SPDX-License-Identifier: Apache-2.0
// What a layer keeps, and what the loss keeps, for each token. In units of one token a tensor of width w takes 2w bytes
// in 16 bit and 4w in fp32; comments name the tensors.
#include <algorithm>

#include "equations.hpp"

namespace gpuwarden::planning {

namespace {

bool is_rms(const ModelShape& model) { return model.norm == NormKind::rms_norm; }
bool is_autocast(const Settings& settings) {
  return settings.precision == Precision::mixed || settings.precision == Precision::mixed_low;
}
bool trains_base(const Settings& settings) { return settings.task == Task::full_training; }

/// Inputs that adapters keep: a 16-bit copy of each adapted matrix's input (fp32 where nothing casts it back), and a
/// byte of dropout mask for each element. A fused backward over a quantised base keeps one input less.
double adapter_inputs(const ModelShape& model, const Widths& w, const Settings& settings) {
  if (trains_base(settings)) return 0;
  const Adapters& adapters = settings.adapters;
  const bool low = is_autocast(settings) || !adapters.fp32;
  const double each = (low ? 2 : 4) + (adapters.dropout ? 1 : 0);
  const AdapterTargets& on = adapters.targets;
  const double of_hidden = static_cast<double>(on.query) + on.key + on.value + on.joint_qkv + on.gate + on.up;
  const double mlp = model.experts.experts > 0 ? w.expert * w.experts_per_token : w.mlp;
  const double inputs = each * (of_hidden * w.hidden + on.output * w.query + on.down * mlp);
  const bool fused = settings.fused_kernels && settings.quantization != Quantization::none;
  return std::max(0.0, inputs - (fused ? 2 * w.hidden : 0)) + adapters.extra_saved_per_hidden * w.hidden;
}

/// The norm before attention. RMSNorm in Hugging Face keeps an fp32 copy, and where its weight is trained the
/// normalised input and the output; one fused kernel keeps only the output.
double first_norm(const ModelShape& model, const Widths& w, const Settings& settings) {
  const bool trained = trains_base(settings);
  if (!is_rms(model)) return (is_autocast(settings) ? 4 * w.hidden : 0) + (trained ? 2 * w.hidden : 0);
  if (settings.fused_kernels) return trained ? 2 * w.hidden : 0;
  return (trained ? 8 : 4) * w.hidden;
}

/// The sum behind attention and the norm before the MLP.
double second_norm(const ModelShape& model, const Widths& w, const Settings& settings) {
  const bool trained = trains_base(settings);
  if (!is_rms(model)) return (is_autocast(settings) ? 6 : 2) * w.hidden + (trained ? 2 * w.hidden : 0);
  if (settings.fused_kernels) return (trained ? 4 : 2) * w.hidden;
  return (trained ? 8 : 4) * w.hidden;
}

/// Queries, keys, values and attention's output. Mistral's code repeated keys and values for grouped queries
/// until 4.47.
double attention(const ModelShape& model, const Widths& w, const Settings& settings) {
  const bool repeats = model.family == "mistral" && settings.framework == Framework::transformers_legacy;
  const double key = repeats ? w.query : w.key;
  return 2 * w.query + 4 * key + 2 * w.query;
}

/// The MLP while its product is differentiated: what was kept, and the gradients of product, gate and up.
double mlp_at_work(const ModelShape& model, const Widths& w, const Settings& settings) {
  const bool trained = trains_base(settings);
  if (model.experts.experts > 0) {
    // Experts follow one another: all keep, one works. Each token's input and output are gathered for every expert.
    const double kept = w.experts_per_token * ((trained ? 8 : 6) * w.expert + 4 * w.hidden);
    const double working = 6 * w.expert * w.experts_per_token / std::max(1.0, w.experts);
    return kept + working + 6 * w.shared;
  }
  if (model.gated_mlp) return 12 * w.mlp;
  return (trained ? 8 : 6) * w.mlp;
}

/// Elements that go into the MLP's last matrix.
double last_input(const ModelShape& model, const Widths& w) {
  return model.experts.experts > 0 ? w.expert * w.experts_per_token + w.shared : w.mlp;
}

double kept_by_mlp(const ModelShape& model, const Widths& w, bool trained) {
  if (model.experts.experts > 0) {
    return w.experts_per_token * ((trained ? 8 : 6) * w.expert + 4 * w.hidden) + 8 * w.shared;
  }
  if (model.gated_mlp) return (trained ? 8 : 6) * w.mlp;
  return (trained ? 4 : 2) * w.mlp;
}

}  // namespace

double gathered_inputs(const Widths& w, const Settings& settings) {
  return (settings.framework == Framework::torchtitan && settings.recompute == Recompute::full ? 6 : 4) * w.gathered;
}

double layer_working_set(const ModelShape& model, const Widths& w, const Settings& settings) {
  return gathered_inputs(w, settings) + first_norm(model, w, settings) + adapter_inputs(model, w, settings) +
         attention(model, w, settings) + second_norm(model, w, settings) + mlp_at_work(model, w, settings) +
         4 * w.hidden;  // the layer's output and its gradient
}

double saved_by_layer(const ModelShape& model, const Widths& w, const Settings& settings) {
  const bool trained = trains_base(settings);
  const double mlp = kept_by_mlp(model, w, trained);
  const double heads = 2 * (w.query + 2 * w.key) + 2 * w.query;
  if (settings.framework == Framework::megatron) {
    // Korthikanti et al. 2022 (arXiv 2205.05198), without its 5as/h, which flash attention does away with, and without
    // dropout: inputs and outputs of both norms; queries and keys once more behind their rotary embedding. Transformer
    // Engine keeps the matrices' inputs in 8 bits instead, and attention its output besides.
    const double rotary = model.positions == Positions::rotary ? 2 * (w.query + w.key) : 0;
    const double spared = settings.fp8 == Fp8::none ? 0 : 2 * w.hidden + last_input(model, w) - w.query;
    return mlp + heads + rotary + 8 * w.hidden - spared;
  }
  if (settings.compiled) return mlp + heads + 8 * w.hidden;  // norms and rotary embeddings are fused
  if (!trained) {
    // Queries, keys and values before and after the rotary embedding, norms, and the adapters' inputs.
    const double quantised = settings.quantization == Quantization::none ? 0 : 10;
    return mlp + heads + 2 * (w.query + 2 * w.key) +
           ((is_rms(model) ? 8 : 4) + 5 + quantised + settings.adapters.extra_saved_per_hidden) * w.hidden;
  }
  const double rotary = 2 * (w.query + w.key);
  const double qk_norm = model.qk_norm == QkNorm::none ? 0 : 8 * (w.query + w.key);
  return mlp + heads + rotary + qk_norm + (is_rms(model) ? 20.5 : 9) * w.hidden;
}

double selective_bytes(const ModelShape& model, const Widths& w, const Settings& settings) {
  // Chosen on torchtitan's Llama 3 8B rows: 17.5 hidden widths, 14.5 compiled; told as the matrices' outputs (half of
  // them), attention's output and the residual, so that it follows other shapes.
  const double matrices =
      w.query + 2 * w.key + 2 * (model.experts.experts > 0 ? w.expert * w.experts_per_token : w.mlp);
  return matrices + 2 * w.query + (settings.compiled ? 4 : 7) * w.hidden;
}

double kept_maps(const Widths& w, const Settings& settings) {
  if (settings.attention == Attention::flash) return 0;
  return figures().eager_kept * w.heads * settings.sequence;  // softmax's output in 16 bit, its mask, the scores
}

double working_maps(const Widths& w, const Settings& settings) {
  if (settings.attention == Attention::flash) return 0;
  return figures().eager_working * w.heads *
         settings.sequence;  // scores, softmax in fp32, its copy, and their gradients
}

}  // namespace gpuwarden::planning
