// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/compat_place.hpp"

#include <utility>

namespace gpuwarden::machine {

Result<compat::Place> place_for(const compat::Inquiry& inquiry, const Machine* machine,
                                const knowledge::Knowledge& knowledge) {
  compat::Place place{.gpus = {}, .driver = {}, .origin = "what was named"};
  if (machine != nullptr) {
    place = compat::place_of(machine->read(), knowledge);
    place.captured = machine->captured().has_value();
    if (place.captured && !machine->simulated()) place.origin = machine->capture_name();
  }
  return compat::with_named(inquiry, std::move(place), knowledge);
}

bool counts_for(const compat::Inquiry& inquiry, const compat::Question& question, bool is_told) {
  return is_told || (question.is_about_here() && !inquiry.names_place());
}

}  // namespace gpuwarden::machine
