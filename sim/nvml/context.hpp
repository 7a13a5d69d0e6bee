// SPDX-License-Identifier: Apache-2.0
// What all simulated NVML functions share: initialisation, handles, and how a GPU's troubles become return codes.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "nvidia/nvml_abi.hpp"
#include "sim/core/fleet.hpp"

// Declarations of every function, so that a definition with another signature does not compile.
namespace gpuwarden::nvml {
#define GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters) \
  extern "C" [[gnu::visibility("default")]] result symbol parameters;
#define GPUWARDEN_NVML_SIMULATED(result, symbol, since, parameters) \
  GPUWARDEN_NVML_FUNCTION(result, symbol, since, parameters)
#include "nvidia/nvml_functions.inc"
}  // namespace gpuwarden::nvml

namespace gpuwarden::nvml::server {

/// A handle names a GPU, or (by its slot) a MIG device on it.
struct Handle {
  std::uint32_t gpu = 0;
  std::optional<std::uint32_t> instance;
};
Device to_device(Handle handle);
std::optional<Handle> to_handle(Device device);

/// A GPU as a function sees it.
struct Target {
  std::shared_ptr<const sim::FleetView> fleet;
  Handle handle;
  const sim::GpuView* gpu = nullptr;
  const sim::MigInstance* instance = nullptr;  ///< set for a MIG handle
};

/// A handle of a MIG GPU instance or compute instance: the GPU, and the instance's slot there.
struct Slot {
  std::uint32_t gpu = 0;
  std::uint32_t slot = 0;
};

Return initialise(unsigned flags);
Return shutdown();
/// kUninitialized before nvmlInit.
Return require_init();
/// The fleet; attaches to GPUWARDEN_SIM_FLEET on first use. nullptr when that cannot be had.
std::shared_ptr<sim::Fleet> fleet();
/// Resolves a handle: kInvalidArgument for a bad one, the GPU's trouble (kGpuIsLost ...) where it has one; blocks for
/// ever on a GPU that hangs.
Return resolve(Device device, Target& target);
/// kNoPermission unless the caller may change settings: root, or whom the fleet lets.
Return require_privilege();
/// Changes a whole GPU's settings for a privileged caller; `change` sees the shared state, brought up to now, and
/// its GPU as it was.
using Change = std::function<Return(sim::Body&, const sim::FleetSpec&, const Target&)>;
Return change_gpu(Device device, const Change& change);
/// The return code that a GPU's faults cause, kSuccess when it has none.
Return trouble_of(const sim::GpuView& gpu);
/// Copies with a terminating zero; kInsufficientSize when it does not fit.
Return copy_text(std::string_view text, char* buffer, unsigned length);

/// A whole-GPU reading in the field's own unit.
Return whole_gpu_value(Device device, sim::Field field, double& out);
/// A whole-GPU reading as an integer times `scale`; kNotSupported where the product has none, and for MIG
/// handles.
template <class Integer>
Return number(Device device, sim::Field field, Integer* out, double scale = 1) {
  double value = 0;
  if (out == nullptr) return kInvalidArgument;
  const Return code = whole_gpu_value(device, field, value);
  if (code == kSuccess) *out = static_cast<Integer>(std::llround(value * scale));
  return code;
}

/// The control call: see sim/core/control.hpp.
extern "C" [[gnu::visibility("default")]] int gpuwarden_sim_call(const char* request, char** reply);

}  // namespace gpuwarden::nvml::server
