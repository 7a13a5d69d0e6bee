// SPDX-License-Identifier: Apache-2.0
// NVML opened at run time: every function is optional.
#pragma once

#include <filesystem>

#include "gpuwarden/facts/driver_problem.hpp"
#include "nvidia/nvml_abi.hpp"

namespace gpuwarden::nvml {

/// The functions; nullptr where the library has none.
struct Functions {
#define GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters) result(*symbol) parameters = nullptr;
#include "nvidia/nvml_functions.inc"
};

}  // namespace gpuwarden::nvml

namespace gpuwarden::probe {

/// Opens the library and finds its functions. It is never closed: the reader's process ends with it. Fails with
/// no_library or wrong_library (no NVML inside, or one without the functions that nothing works without).
std::expected<nvml::Functions, facts::DriverProblem> open_nvml(const std::filesystem::path& library);

/// Calls an optional function: kFunctionNotFound where it is missing.
template <class... Parameters, class... Arguments>
nvml::Return call(nvml::Return (*function)(Parameters...), Arguments... arguments) {
  return function == nullptr ? nvml::kFunctionNotFound : function(arguments...);
}

}  // namespace gpuwarden::probe
