// SPDX-License-Identifier: Apache-2.0
// How a model fits GPUs of a machine: where placement, which knows what is free, meets planning, which knows what is
// needed.
//
// Of GPUs of one kind the fewest are taken on which a strategy fits with room to spare, else (and for a model whose
// shape is a guess at once) the fewest on which one is tight; different kinds together only where no kind alone will
// do. What a GPU offers is what is free on it now; a serving engine takes its share of the whole, which must be free.
// MIG instances are never joined: each holds a whole model.
#pragma once

#include <cstdint>
#include <string>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/planning/answer.hpp"

namespace gpuwarden::placement {

struct ModelFit {
  std::string model;                                ///< its name
  std::string gpu;                                  ///< the devices' name
  std::uint32_t gpus = 1;                           ///< over which one copy of the job is spread, on each node
  planning::Candidate candidate;                    ///< strategy, settings, estimate
  planning::Fit fit = planning::Fit::does_not_fit;  ///< on the device that has the least
  Bytes needed{};                                   ///< free on each device, at least
  Bytes room{};        ///< what the device with the least offers: its free memory (serving: all of it)
  bool mixed = false;  ///< the devices are of different kinds
  std::string reason;  ///< a sentence: strategy, need with its range, and what is free
};

}  // namespace gpuwarden::placement
