// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpuwarden::jobs {

/// A name that means nothing where hosts or Slurm are asked for, and what to do instead.
struct Meaningless {
  const char* name;
  const char* hint;
};

}  // namespace gpuwarden::jobs
