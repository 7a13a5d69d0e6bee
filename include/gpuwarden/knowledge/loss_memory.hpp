// SPDX-License-Identifier: Apache-2.0
// What a training step's loss keeps of each token's logits, by kernel and framework. From knowledge/loss_memory.csv;
// the first row that fits is meant.
#pragma once

#include <span>
#include <string_view>

namespace gpuwarden::knowledge {

struct LossMemory {
  std::string_view kernel;     ///< "standard", "triton" ...
  std::string_view framework;  ///< "transformers" ..., "any"
  std::string_view when;       ///< "keeps_low", "keeps_low_autocast", "tensor_parallel", "any"
  double per_logit = 0;        ///< bytes for each token and entry of the vocabulary
  double per_hidden = 0;       ///< bytes for each token and hidden width
  std::string_view chosen_on;  ///< measured rows that it was chosen on; "none": counted in the code alone
  std::string_view source;
};

std::span<const LossMemory> loss_memories();

}  // namespace gpuwarden::knowledge
