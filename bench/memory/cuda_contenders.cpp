// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "memory/contestant.hpp"

namespace gpuwarden::bench {

std::vector<Contender> cuda_contenders(int) { throw std::runtime_error("this build has no CUDA upstream"); }

}  // namespace gpuwarden::bench
