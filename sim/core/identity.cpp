// SPDX-License-Identifier: Apache-2.0
#include "sim/core/identity.hpp"

#include <fmt/format.h>

#include <charconv>

#include "gpuwarden/base/text.hpp"
#include "sim/core/fleet_spec.hpp"

namespace gpuwarden::sim {
namespace {

std::string make_uuid(std::string_view prefix, std::uint64_t a, std::uint64_t b) {
  return fmt::format("{}-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", prefix, a >> 32U, a >> 16U & 0xFFFFU, a & 0xFFFFU,
                     b >> 48U, b & 0xFFFFFFFFFFFFU);
}

std::optional<std::uint32_t> hexadecimal(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a ^ (b + 0x9E3779B97F4A7C15ULL + (a << 6U) + (a >> 2U));
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

std::uint64_t mix(std::uint64_t seed, std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return mix(seed, hash);
}

std::string mig_uuid(const GpuSpec& gpu, std::uint64_t number) {
  const std::uint64_t mig = mix(mix(number, gpu.uuid), std::uint64_t{5});
  return make_uuid("MIG", mig, mix(mig, std::uint64_t{3}));
}

std::optional<BusId> parse_bus_id(std::string_view text) {
  auto parts = split(text, ':');
  if (parts.size() == 2) parts.insert(parts.begin(), "0");
  if (parts.size() != 3) return std::nullopt;
  const auto tail = split(parts[2], '.');
  if (tail.size() != 2) return std::nullopt;
  const auto domain = hexadecimal(parts[0]);
  const auto bus = hexadecimal(parts[1]);
  const auto device = hexadecimal(tail[0]);
  const auto function = hexadecimal(tail[1]);
  if (!domain || !bus || !device || !function || *bus > 255 || *device > 31 || *function > 7) return std::nullopt;
  return BusId{*domain, *bus, *device, *function};
}

std::string kernel_module_of(const FleetSpec& spec, bool mismatch) {
  if (!spec.kernel_module.empty()) return spec.kernel_module;
  if (!mismatch) return spec.driver;
  const std::size_t dot = spec.driver.rfind('.');
  const auto last = parse_integer(std::string_view(spec.driver).substr(dot + 1)).value_or(1);
  return fmt::format("{}.{:02}", spec.driver.substr(0, dot), last > 0 ? last - 1 : last + 1);
}

namespace {

/// What one GPU is given where its file gives nothing. `one` is its own random number, `upper` its half of the machine.
void fill_gpu(GpuSpec& gpu, std::size_t index, std::uint64_t one, bool upper) {
  const auto fill = [](std::string& text, const auto& make) {
    if (text.empty()) text = make();
  };
  fill(gpu.uuid, [&] { return make_uuid("GPU", one, mix(one, std::uint64_t{7})); });
  fill(gpu.vbios, [&] { return std::string(gpu.model.vbios); });
  fill(gpu.bus_id, [&] { return fmt::format("00000000:{:02X}:00.0", (0x18 + index * 0x0D) % 0xF0); });
  fill(gpu.cpu_list, [&] { return std::string(upper ? "32-63" : "0-31"); });
  gpu.readings.try_emplace(Field::numa_node, upper ? 1 : 0);
  if (!gpu.model.ecc) return;
  fill(gpu.serial, [&] { return fmt::format("165{:010}", one % 10'000'000'000ULL); });
  fill(gpu.board_part_number, [&] { return fmt::format("900-2G520-{:04}-000", one % 10000); });
}

}  // namespace

void fill_identities(FleetSpec& spec, std::string_view identity) {
  const std::uint64_t base = mix(spec.seed, identity);
  const std::size_t half = (spec.gpus.size() + 1) / 2;
  for (std::size_t i = 0; i < spec.gpus.size(); ++i) {
    const std::uint64_t one = mix(base, i * 2 + 1);
    fill_gpu(spec.gpus[i], i, one, spec.gpus.size() > 1 && i >= half);
    std::uint64_t k = 100;
    for (MigInstance& instance : spec.gpus[i].instances) {
      const std::uint64_t mig = mix(one, k++);
      if (instance.uuid.empty()) instance.uuid = make_uuid("MIG", mig, mix(mig, std::uint64_t{3}));
    }
  }
}

}  // namespace gpuwarden::sim
