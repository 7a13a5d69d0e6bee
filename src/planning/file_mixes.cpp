// SPDX-License-Identifier: Apache-2.0
// The mixes of llama.cpp's files: which tensors have another format than the one that gives the file its name. Source:
// llama.cpp src/llama-quant.cpp (llama_tensor_get_type_impl, tensor_type_fallback, llama_ftype_get_default_type), for
// files made with an importance matrix of IQ mixes and without one of the others, as most are published. Falcon's own
// exceptions are left out. Fused queries, keys and values have what they had before 2026, when most such files were
// made.
#include "planning/file_mixes.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

using Q = Quantization;
using T = GgmlType;

constexpr FileMix kFileMixes[] = {
    {Q::q8_0, "Q8_0", T::q8_0, T::q8_0, T::q8_0, Q::q8_0},
    {Q::q6_k, "Q6_K", T::q6_k, T::q6_k, T::q6_k, Q::q6_k},
    {Q::q5_0, "Q5_0", T::q5_0, T::q5_0, T::q6_k, Q::q5_0},
    {Q::q5_1, "Q5_1", T::q5_1, T::q5_1, T::q6_k, Q::q5_1},
    {Q::q5_k_s, "Q5_K_S", T::q5_k, T::q5_k, T::q6_k, Q::q5_k_s},
    {Q::q5_k_m, "Q5_K_M", T::q5_k, T::q5_k, T::q6_k, Q::q5_k_m},
    {Q::q4_0, "Q4_0", T::q4_0, T::q4_0, T::q6_k, Q::q4_0},
    {Q::q4_1, "Q4_1", T::q4_1, T::q4_1, T::q6_k, Q::q4_1},
    {Q::q4_k_s, "Q4_K_S", T::q4_k, T::q4_k, T::q6_k, Q::q4_k_s},
    {Q::q4_k_m, "Q4_K_M", T::q4_k, T::q4_k, T::q6_k, Q::q4_k_m},
    {Q::q3_k_s, "Q3_K_S", T::q3_k, T::q3_k, T::q6_k, Q::q3_k_s},
    {Q::q3_k_m, "Q3_K_M", T::q3_k, T::q3_k, T::q6_k, Q::q3_k_m},
    {Q::q3_k_l, "Q3_K_L", T::q3_k, T::q3_k, T::q6_k, Q::q3_k_l},
    {Q::q2_k, "Q2_K", T::q2_k, T::q2_k, T::q6_k, Q::q2_k},
    {Q::q2_k_s, "Q2_K_S", T::q2_k, T::q2_k, T::q6_k, Q::q2_k_s},
    {Q::iq4_nl, "IQ4_NL", T::iq4_nl, T::iq4_nl, T::q6_k, Q::iq4_nl},
    {Q::iq4_xs, "IQ4_XS", T::iq4_xs, T::iq4_xs, T::q6_k, Q::iq4_xs},
    {Q::iq3_m, "IQ3_M", T::iq3_s, T::iq3_s, T::q6_k, Q::iq3_m},
    {Q::iq3_s, "IQ3_S", T::iq3_s, T::iq3_s, T::q6_k, Q::iq3_s},
    {Q::iq3_xs, "IQ3_XS", T::iq3_s, T::iq3_s, T::q6_k, Q::iq3_xs},
    {Q::iq3_xxs, "IQ3_XXS", T::iq3_xxs, T::iq3_s, T::q5_k, Q::iq3_xxs},
    {Q::iq2_m, "IQ2_M", T::iq2_s, T::iq3_s, T::q5_k, Q::iq2_m},
    {Q::iq2_s, "IQ2_S", T::iq2_xs, T::iq3_s, T::q5_k, Q::iq2_s},
    {Q::iq2_xs, "IQ2_XS", T::iq2_xs, T::q2_k, T::q5_k, Q::iq2_xs},
    {Q::iq2_xxs, "IQ2_XXS", T::iq2_xxs, T::q2_k, T::q5_k, Q::iq2_xxs},
    {Q::iq1_m, "IQ1_M", T::iq1_m, T::q2_k, T::q5_k, Q::iq1_m},
    {Q::iq1_s, "IQ1_S", T::iq1_s, T::q2_k, T::q5_k, Q::iq1_s},
    {Q::tq1_0, "TQ1_0", T::tq1_0, T::q4_k, T::q6_k, Q::tq1_0},
    {Q::tq2_0, "TQ2_0", T::tq2_0, T::q4_k, T::q6_k, Q::tq2_0},
    {Q::mxfp4_moe, "MXFP4", T::q8_0, T::q8_0, T::q8_0, Q::mxfp4_moe},
    // "Uses Q8_0 for embed and output weights", say bartowski's pages, who publishes them.
    {Q::q6_k_l, "Q6_K_L", T::q6_k, T::q8_0, T::q8_0, Q::q6_k},
    {Q::q5_k_l, "Q5_K_L", T::q5_k, T::q8_0, T::q8_0, Q::q5_k_m},
    {Q::q4_k_l, "Q4_K_L", T::q4_k, T::q8_0, T::q8_0, Q::q4_k_m},
    {Q::q3_k_xl, "Q3_K_XL", T::q3_k, T::q8_0, T::q8_0, Q::q3_k_l},
    {Q::q2_k_l, "Q2_K_L", T::q2_k, T::q8_0, T::q8_0, Q::q2_k}};

/// Other titles: llama-quantize's own for short, those of its table of types.
struct OtherTitle {
  std::string_view word;
  Quantization kind;
};
constexpr OtherTitle kOtherTitles[] = {
    {"q3_k", Q::q3_k_m}, {"q4_k", Q::q4_k_m}, {"q5_k", Q::q5_k_m}, {"mxfp4_moe", Q::mxfp4_moe}, {"q8", Q::q8_0}};

/// Which layers an exception is of.
enum class LayersAt { all, first_two, first_four, first_sixteenth, first_eighth, middle, more_bits };
/// Which models.
enum class MixFor {
  always,
  grouped,             ///< four heads of queries or more for one of keys
  grouped_or_experts,  ///< or four experts and more
  eight_experts,       ///< Mixtral's number
  other_experts,       ///< any but that number
};

struct MixException {
  std::uint64_t mixes;
  Role role;
  LayersAt where;
  MixFor when;
  GgmlType type;
};

template <class... Mix>
constexpr std::uint64_t of(Mix... mixes) {
  return ((std::uint64_t{1} << static_cast<unsigned>(mixes)) | ...);
}

constexpr std::uint64_t kTwoBits = of(Q::iq2_xxs, Q::iq2_xs, Q::iq1_s, Q::iq1_m);
constexpr std::uint64_t kTwoBitsMore = of(Q::iq2_s, Q::iq2_m);
constexpr std::uint64_t kWidenedByExperts = of(Q::q2_k, Q::iq3_xs, Q::iq3_xxs, Q::q3_k_s, Q::q3_k_m, Q::iq4_nl,
                                               Q::q4_k_s, Q::q4_k_m, Q::iq3_s, Q::iq3_m, Q::iq4_xs);

/// The first that holds is taken.
constexpr MixException kExceptions[] = {
    {kTwoBits | kTwoBitsMore, Role::value, LayersAt::all, MixFor::grouped_or_experts, T::q4_k},
    {kTwoBits, Role::value, LayersAt::all, MixFor::always, T::q2_k},
    {kTwoBitsMore, Role::value, LayersAt::all, MixFor::always, T::iq3_s},
    {kTwoBits | kTwoBitsMore, Role::key, LayersAt::all, MixFor::eight_experts, T::q4_k},
    {kTwoBits | kTwoBitsMore, Role::output, LayersAt::all, MixFor::eight_experts, T::q5_k},
    {of(Q::iq1_s, Q::iq1_m), Role::output, LayersAt::all, MixFor::always, T::iq2_xxs},
    {kTwoBitsMore, Role::output, LayersAt::all, MixFor::always, T::iq3_s},
    {kTwoBits, Role::down, LayersAt::first_eighth, MixFor::always, T::q2_k},
    {kTwoBitsMore, Role::down, LayersAt::first_eighth, MixFor::always, T::iq3_s},

    {~std::uint64_t{0}, Role::value, LayersAt::all, MixFor::eight_experts, T::q8_0},
    {~std::uint64_t{0}, Role::key, LayersAt::all, MixFor::eight_experts, T::q8_0},
    {of(Q::q2_k, Q::q2_k_s, Q::iq3_xxs, Q::iq3_xs, Q::iq3_s), Role::value, LayersAt::all, MixFor::grouped, T::q4_k},
    {of(Q::q2_k), Role::value, LayersAt::all, MixFor::always, T::q3_k},
    {of(Q::iq3_m), Role::value, LayersAt::all, MixFor::always, T::q4_k},
    {of(Q::q3_k_m), Role::value, LayersAt::first_two, MixFor::always, T::q5_k},
    {of(Q::q3_k_m), Role::value, LayersAt::all, MixFor::always, T::q4_k},
    {of(Q::q3_k_l), Role::value, LayersAt::all, MixFor::always, T::q5_k},
    {of(Q::iq4_nl, Q::iq4_xs), Role::value, LayersAt::all, MixFor::grouped, T::q5_k},
    {of(Q::q4_k_m, Q::q5_k_m), Role::value, LayersAt::more_bits, MixFor::always, T::q6_k},
    {of(Q::q4_k_s), Role::value, LayersAt::first_four, MixFor::always, T::q5_k},

    {of(Q::iq3_xs), Role::key, LayersAt::all, MixFor::always, T::iq3_xxs},
    {of(Q::iq3_xs), Role::query, LayersAt::all, MixFor::always, T::iq3_xxs},
    {of(Q::iq3_xxs), Role::key, LayersAt::all, MixFor::always, T::iq2_s},
    {of(Q::iq3_xxs), Role::query, LayersAt::all, MixFor::always, T::iq2_s},

    {of(Q::q3_k_m, Q::q3_k_l, Q::iq3_m), Role::qkv, LayersAt::all, MixFor::always, T::q4_k},
    {of(Q::q4_k_m), Role::qkv, LayersAt::all, MixFor::always, T::q5_k},
    {of(Q::q5_k_m), Role::qkv, LayersAt::all, MixFor::always, T::q6_k},

    {kWidenedByExperts, Role::output, LayersAt::all, MixFor::eight_experts, T::q5_k},
    {of(Q::q2_k), Role::output, LayersAt::all, MixFor::other_experts, T::q3_k},
    {of(Q::iq3_xxs), Role::output, LayersAt::all, MixFor::other_experts, T::iq3_s},
    {of(Q::q3_k_m, Q::iq3_m), Role::output, LayersAt::all, MixFor::other_experts, T::q4_k},
    {of(Q::q3_k_l), Role::output, LayersAt::all, MixFor::other_experts, T::q5_k},

    {of(Q::q2_k), Role::down, LayersAt::all, MixFor::always, T::q3_k},
    {of(Q::q2_k_s), Role::down, LayersAt::first_eighth, MixFor::always, T::q4_k},
    {of(Q::q3_k_m), Role::down, LayersAt::first_sixteenth, MixFor::always, T::q5_k},
    {of(Q::q3_k_m), Role::down, LayersAt::all, MixFor::always, T::q4_k},
    {of(Q::q3_k_l), Role::down, LayersAt::all, MixFor::always, T::q5_k},
    {of(Q::iq3_m), Role::down, LayersAt::first_eighth, MixFor::always, T::q4_k},
    {of(Q::iq3_m), Role::down, LayersAt::more_bits, MixFor::eight_experts, T::q4_k},
    {of(Q::q4_k_m, Q::q5_k_m), Role::down, LayersAt::more_bits, MixFor::always, T::q6_k},
    {of(Q::q4_k_s), Role::down, LayersAt::first_eighth, MixFor::always, T::q5_k},

    {of(Q::iq3_xs), Role::gate, LayersAt::middle, MixFor::always, T::iq3_xxs},
    {of(Q::iq3_xs), Role::up, LayersAt::middle, MixFor::always, T::iq3_xxs}};

bool is_at(LayersAt where, std::uint32_t layer, std::uint32_t layers) {
  const std::uint32_t eighth = layers / 8;
  switch (where) {
    case LayersAt::all:
      return true;
    case LayersAt::first_two:
      return layer < 2;
    case LayersAt::first_four:
      return layer < 4;
    case LayersAt::first_sixteenth:
      return layer < layers / 16;
    case LayersAt::first_eighth:
      return layer < eighth;
    case LayersAt::middle:
      return layer >= eighth && layer < 7 * layers / 8;
    case LayersAt::more_bits:
      return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
  }
  return false;
}

bool is_of(MixFor when, const ModelShape& model) {
  constexpr std::uint32_t kEight = 8;
  constexpr std::uint32_t kFew = 4;
  const bool grouped = model.heads >= kFew * std::max(1U, model.kv_heads);
  switch (when) {
    case MixFor::always:
      return true;
    case MixFor::grouped:
      return grouped;
    case MixFor::grouped_or_experts:
      return grouped || model.experts.experts >= kFew;
    case MixFor::eight_experts:
      return model.experts.experts == kEight;
    case MixFor::other_experts:
      return model.experts.experts != kEight;
  }
  return false;
}

/// What llama.cpp takes where a row is not made of whole blocks.
GgmlType instead_of(GgmlType type) {
  switch (type) {
    case T::q2_k:
    case T::q3_k:
    case T::tq1_0:
    case T::tq2_0:
      return T::q4_0;
    case T::q4_k:
      return T::q5_0;
    case T::q5_k:
      return T::q5_1;
    case T::q6_k:
      return T::q8_0;
    default:
      return T::iq4_nl;
  }
}

/// Models whose every eight heads share keys and values get more for these at little cost: its "70B" are those of 80
/// layers with grouped heads (from memory; held against published files of Llama 3).
bool is_seventy_billion(const ModelShape& model) { return model.layers == 80 && model.heads > model.kv_heads; }

}  // namespace

std::span<const FileMix> file_mixes() { return kFileMixes; }

const FileMix* find_mix(Quantization quantization) {
  const auto* const found = std::ranges::find(kFileMixes, quantization, &FileMix::kind);
  return found == std::end(kFileMixes) ? nullptr : found;
}

const FileMix* mix_named(std::string_view word) {
  std::string lower = to_lower(trim(word));
  std::ranges::replace(lower, '-', '_');
  const auto* const found =
      std::ranges::find_if(kFileMixes, [&](const FileMix& row) { return to_lower(row.title) == lower; });
  if (found != std::end(kFileMixes)) return found;
  const auto* const other = std::ranges::find(kOtherTitles, lower, &OtherTitle::word);
  return other == std::end(kOtherTitles) ? nullptr : find_mix(other->kind);
}

GgmlType whole_blocks(GgmlType type, std::uint64_t row) {
  if (row % format_of(type).weights == 0) return type;
  const GgmlType other = instead_of(type);
  return row % format_of(other).weights == 0 ? other : T::f16;
}

GgmlType type_in_mix(const FileMix& mix, const ModelShape& model, Role role, std::uint32_t layer) {
  const std::uint64_t own = of(mix.rules);
  const std::uint32_t layers = model.layers + model.encoder_layers;
  GgmlType type = mix.base;
  for (const MixException& row : kExceptions) {
    if ((row.mixes & own) == 0 || row.role != role || !is_at(row.where, layer, layers) || !is_of(row.when, model))
      continue;
    type = row.type;
    break;
  }
  const bool few_bits = ((kTwoBits | kTwoBitsMore) & own) != 0;
  if (role == Role::value && !few_bits && is_seventy_billion(model) && (type == T::q3_k || type == T::q4_k))
    return T::q5_k;
  return type;
}

}  // namespace gpuwarden::planning
