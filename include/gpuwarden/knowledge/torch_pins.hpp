// SPDX-License-Identifier: Apache-2.0
// Which Triton a PyTorch takes, and for which CUDA bitsandbytes' wheels have code.
#pragma once

#include <optional>
#include <string_view>

#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

/// The Triton that a release of PyTorch for Linux asks for.
struct TritonPin {
  Version torch;            ///< 2.6: each release of it
  std::string_view triton;  ///< "3.2.0", or "3.3": one of its releases for each of PyTorch's
  std::string_view source;
};

/// nullptr: not known.
const TritonPin* triton_for(const Version& torch);
/// Whether it is of the release that is asked for; a later fix of it will do.
bool goes_with(const TritonPin& pin, const Version& triton);

/// Releases of bitsandbytes whose wheels have code for the same CUDAs.
struct BitsandbytesBuild {
  Version first;
  Version last;           ///< empty: and newer
  std::string_view cuda;  ///< "11.8 12.1", divided by blanks
  bool major = false;     ///< takes another of the same major release where the exact one is not there
  Version torch;          ///< the oldest that they ask for; empty: any
  std::string_view source;
};

/// nullptr: not known.
const BitsandbytesBuild* bitsandbytes_build(const Version& version);
bool has_code_for(const BitsandbytesBuild& build, const Version& cuda);
/// The newest releases that take a PyTorch and have code for its CUDA; nullptr: none is known.
const BitsandbytesBuild* bitsandbytes_for(const Version& torch, const Version& cuda);

}  // namespace gpuwarden::knowledge
