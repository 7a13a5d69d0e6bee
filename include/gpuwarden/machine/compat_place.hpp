// SPDX-License-Identifier: Apache-2.0
// Where a question to `compat` is asked: a machine, with what the question names over it.
#pragma once

#include "gpuwarden/compat/place.hpp"
#include "gpuwarden/compat/question.hpp"
#include "gpuwarden/machine/machine.hpp"

namespace gpuwarden::machine {

/// The place of an inquiry: what the machine has, under the GPUs and the driver that the inquiry names; without a
/// machine what is named alone. Fails as compat::with_named().
Result<compat::Place> place_for(const compat::Inquiry& inquiry, const Machine* machine,
                                const knowledge::Knowledge& knowledge);

/// Whether the machine counts for a question: one that somebody told (a capture, a simulated fleet) always, this one
/// where the question is about here and names no place.
bool counts_for(const compat::Inquiry& inquiry, const compat::Question& question, bool is_told);

}  // namespace gpuwarden::machine
