// SPDX-License-Identifier: Apache-2.0
// Functions that are there but not modelled: one body for each kind of first argument, the C calling convention lets it
// ignore the rest. Aliases cost the library's start nothing but a name.
#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml {
namespace {

using first_device = Device;        // NOLINT(readability-identifier-naming): pasted together below
using first_pointer = const void*;  // NOLINT(readability-identifier-naming)
using first_number = unsigned;      // NOLINT(readability-identifier-naming)

}  // namespace

extern "C" {

Return gpuwarden_nvml_unsupported_device(first_device device) {
  server::Target target;
  const Return code = server::resolve(device, target);
  return code == kSuccess ? kNotSupported : code;
}

Return gpuwarden_nvml_unsupported_pointer(first_pointer first) {
  if (const Return code = server::require_init(); code != kSuccess) return code;
  return first == nullptr ? kInvalidArgument : kNotSupported;
}

Return gpuwarden_nvml_unsupported_number(first_number) {
  const Return code = server::require_init();
  return code == kSuccess ? kNotSupported : code;
}

#define GPUWARDEN_NVML_UNSUPPORTED(symbol, since, until, first) \
  [[gnu::visibility("default"), gnu::alias("gpuwarden_nvml_unsupported_" #first)]] Return symbol(first_##first);
#include "nvidia/nvml_functions.inc"

}  // extern "C"
}  // namespace gpuwarden::nvml
