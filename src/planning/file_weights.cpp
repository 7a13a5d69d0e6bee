// SPDX-License-Identifier: Apache-2.0
// A model's tensors as llama.cpp's files hold them, layer by layer.
#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "planning/file_mixes.hpp"
#include "planning/formats.hpp"

namespace gpuwarden::planning {
namespace {

/// Norms, biases and routers (convert_hf_to_gguf.py of llama.cpp).
constexpr double kUnpacked = 4;

bool is_in_layers(Component component) {
  return component != Component::embedding && component != Component::head && component != Component::tower;
}

/// Bytes of a model's tensors in one quantization.
class TensorBytes {
 public:
  TensorBytes(const ModelShape& model, const Settings& settings)
      : model_(model),
        mix_(find_mix(settings.quantization)),
        frozen_(frozen_format(model, settings.quantization)),
        whole_(settings.precision == Precision::fp32 ? 4 : 2) {}

  /// Of one copy of a layer's weight.
  double of_layer(const Weight& weight, std::uint32_t layer) const {
    const double bias = weight.bias ? kUnpacked * static_cast<double>(weight.outputs) : 0;
    if (!weight.linear) return kUnpacked * matrix_elements(weight) + bias;
    return packed(weight, layer) + bias;
  }
  /// Of a table of tokens, or the output.
  double of_table(const Weight& weight, bool output) const {
    const double bias = weight.bias ? kUnpacked * static_cast<double>(weight.outputs) : 0;
    if (mix_ == nullptr) return whole_ * matrix_elements(weight) + bias;
    // A table has its rows as inputs, the output has them as outputs.
    const std::uint64_t row = output && weight.component == Component::head ? weight.inputs : weight.outputs;
    GgmlType type = output ? mix_->output : mix_->embedding;
    if (output && !model_.estimated && row % format_of(mix_->base).weights != 0) type = GgmlType::q8_0;
    return of_elements(type, row) * matrix_elements(weight) + bias;
  }
  double whole(const Weight& weight) const { return whole_ * static_cast<double>(weight.elements()); }

 private:
  static double matrix_elements(const Weight& weight) {
    return static_cast<double>(weight.inputs) * static_cast<double>(weight.outputs);
  }
  /// Rows of a guessed shape are as long as no model's are.
  double of_elements(GgmlType type, std::uint64_t row) const {
    return bytes_per_element(model_.estimated ? type : whole_blocks(type, row));
  }
  double packed(const Weight& weight, std::uint32_t layer) const {
    const bool experts = weight.component == Component::experts;
    if (mix_ == nullptr) {
      const bool kept = frozen_.experts_only && !experts;
      return (kept ? whole_ : frozen_bytes(frozen_, whole_)) * matrix_elements(weight);
    }
    // What was published in mxfp4 is copied as it is, whatever the others become.
    const bool copied = model_.mxfp4_experts || stored_quantization(model_) == Quantization::mxfp4 ||
                        mix_->kind == Quantization::mxfp4_moe;
    const GgmlType type = experts && copied ? GgmlType::mxfp4 : type_in_mix(*mix_, model_, weight.role, layer);
    return of_elements(type, weight.inputs) * matrix_elements(weight);
  }

  const ModelShape& model_;
  const FileMix* mix_;
  FrozenFormat frozen_;
  double whole_;
};

/// The layers that a weight is in: experts behind the dense ones, their MLPs in these, all else in all alike.
std::pair<std::uint32_t, std::uint32_t> layers_of(const Weight& weight, const ModelShape& model) {
  const std::uint32_t all = model.layers + model.encoder_layers;
  const std::uint32_t dense = all - expert_layers(model);
  const bool of_experts = weight.component == Component::experts || weight.component == Component::shared_expert ||
                          weight.component == Component::router;
  if (of_experts) return {dense, all};
  if (weight.component == Component::mlp && expert_layers(model) > 0) return {0, dense};
  return {0, all};
}

void add_to_layers(const Weight& weight, const ModelShape& model, const TensorBytes& bytes, FileWeights& file) {
  const auto [first, last] = layers_of(weight, model);
  if (first >= last) return;
  const double copies = static_cast<double>(weight.copies) / (last - first);
  const bool dense = weight.linear && weight.component != Component::experts;
  for (std::uint32_t layer = first; layer < last; ++layer) {
    const double added = copies * bytes.of_layer(weight, layer);
    file.layers[layer] += added;
    if (dense) file.dense[layer] += added;
    if (weight.component == Component::experts) file.experts[layer] += added;
  }
}

void add_outside(const Weight& weight, const TensorBytes& bytes, bool tied, FileWeights& file) {
  const auto copies = static_cast<double>(weight.copies);
  if (weight.module == "embed_tokens") {
    const double table = bytes.of_table(weight, tied);
    file.embedding += table;
    if (tied) file.copied += table;
  } else if (weight.module == "embed_tokens_per_layer")
    file.embedding += bytes.of_table(weight, false);
  else if (weight.component == Component::tower)
    file.towers += 2.0 * static_cast<double>(weight.elements());
  else if (weight.module == "lm_head")
    file.output += bytes.of_table(weight, true);
  else
    file.output += copies * bytes.whole(weight);
}

}  // namespace

bool is_own_file(const ModelShape& model, const Settings& settings) {
  return model.file != nullptr && settings.quantization == stored_quantization(model);
}

double FileWeights::file() const { return std::accumulate(layers.begin(), layers.end(), embedding + output - copied); }

FileWeights file_weights(const ModelShape& model, const Settings& settings) {
  if (is_own_file(model, settings)) return *model.file;
  const TensorBytes bytes(model, settings);
  FileWeights file;
  const bool tied = model.tied_embeddings && model.output_head;
  file.layers.resize(std::max(1U, model.layers + model.encoder_layers));
  file.dense.resize(file.layers.size());
  file.experts.resize(file.layers.size());
  for (const Weight& weight : weights_of(model)) {
    // The last norm is no layer's.
    if (is_in_layers(weight.component) && weight.module != "final_norm")
      add_to_layers(weight, model, bytes, file);
    else if (weight.module == "final_norm")
      file.output += kUnpacked * static_cast<double>(weight.elements());
    else
      add_outside(weight, bytes, tied, file);
  }
  file.output += file.copied;
  return file;
}

}  // namespace gpuwarden::planning
