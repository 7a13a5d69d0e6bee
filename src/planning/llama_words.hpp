// SPDX-License-Identifier: Apache-2.0
// Words about llama.cpp's files, cache and GPUs.
#pragma once

#include <string>

#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::planning {

/// The mixes of GGUF files, separated by commas.
std::string mix_titles();
/// Whether a GGUF file is meant: by the model's name, or by the quantization.
bool means_gguf(const ModelShape& model, const Words& words);
/// The KV cache's types: of both halves, or of keys and values apart (-ctk, -ctv).
Result<void> read_cache_types(const Words& words, const ModelShape& model, Settings& settings);
/// How llama.cpp spreads the model (-sm, -ts, -ngl), once the work's engine is known. Fails on words that are not the
/// engine's.
Result<void> read_layer_split(const Words& words, Workload& work);
/// What is assumed of the file, and what its options come to.
void note_gguf(const Words& words, Workload& work);

}  // namespace gpuwarden::planning
