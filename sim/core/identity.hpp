// SPDX-License-Identifier: Apache-2.0
// Made-up but stable identities: UUIDs, serials, bus ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuwarden::sim {

struct FleetSpec;
struct GpuSpec;

/// 64 well-mixed bits of the inputs (FNV-1a, then splitmix64's finaliser).
std::uint64_t mix(std::uint64_t seed, std::string_view text);
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

struct BusId {
  std::uint32_t domain = 0;
  std::uint32_t bus = 0;
  std::uint32_t device = 0;
  std::uint32_t function = 0;
};
/// "00000000:17:00.0", "0000:17:00.0" or "17:00.0".
std::optional<BusId> parse_bus_id(std::string_view text);

/// The UUID of the MIG device that was made as the `number`-th.
std::string mig_uuid(const GpuSpec& gpu, std::uint64_t number);

/// Gives every GPU and MIG instance without one a UUID, serial, bus id, CPU list; from seed and identity.
void fill_identities(FleetSpec& spec, std::string_view identity);

/// The loaded kernel module's version: the driver's, or, where they are to differ, the release before it.
std::string kernel_module_of(const FleetSpec& spec, bool mismatch);

}  // namespace gpuwarden::sim
