// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/unique_fd.hpp"

#include <unistd.h>

namespace gpuwarden {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace gpuwarden
