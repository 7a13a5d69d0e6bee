// SPDX-License-Identifier: Apache-2.0
// Reading a model's config.json, as Hugging Face's transformers write it, into a shape. Text in, value out: no file is
// opened here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/model.hpp"

namespace gpuwarden::planning {

/// The largest config.json that is read, in bytes; lists of class names make real ones long.
inline constexpr std::size_t kLargestConfig = std::size_t{16} << 20U;

/// The shape that a config.json describes. The family comes from `model_type`, else from `architectures`; `family`,
/// where given, overrides both ("llama", "gpt_neox" ...: names as known_families() has them, aliases too). Where the
/// file nests the language model (`text_config`), that one is read and a note says so. `name` stands in errors.
/// Fails with corrupt where the text is no JSON, is nested too deeply or too long; with invalid_argument on a family
/// that is not known, on a diffusion model's config, on missing fields (all are named), on values of a wrong type and
/// on sizes that no model has.
Result<ModelShape> read_config(std::string_view json, std::string_view name, std::string_view family = {});

/// Whether read_config knows this family or alias.
bool is_known_family(std::string_view family);
/// Names of all families, sorted.
std::vector<std::string> known_families();

/// What is known of a model of which only the parameter count was given. Unset numbers are chosen as Llama-like models
/// of that size have them.
struct ShapeHints {
  std::uint32_t hidden = 0;
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t intermediate = 0;
  std::uint32_t vocab = 0;
  bool operator==(const ShapeHints&) const = default;
};

/// A plausible Llama-like shape with about `parameters` parameters (1e6 to 1e14; within 1% unless hints prevent it).
/// `estimated` is set: how the parameters are spread over layers, heads and vocabulary is a guess. Fails with
/// invalid_argument out of that range, and on hints that no model of that size can have.
Result<ModelShape> shape_of_size(double parameters, const ShapeHints& hints = {});

/// "7B", "1.3b", "350M", "6738415616", "8x7B" is refused (experts need a shape): a count of parameters.
Result<double> parse_parameters(std::string_view text);

}  // namespace gpuwarden::planning
