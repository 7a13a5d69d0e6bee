// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/host_name.hpp"

#include <unistd.h>

#include <array>

namespace gpuwarden {

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace gpuwarden
