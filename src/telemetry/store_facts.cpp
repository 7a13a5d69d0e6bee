// SPDX-License-Identifier: Apache-2.0
#include "telemetry/store_facts.hpp"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <variant>

namespace gpuwarden::telemetry {
namespace {

using facts::Gpu;

struct GpuFigure {
  const char* key;
  std::variant<std::optional<Celsius> Gpu::*, std::optional<Milliwatts> Gpu::*, std::optional<Megahertz> Gpu::*,
               std::optional<Count> Gpu::*>
      field;
};

constexpr std::int64_t kGreatestFigure = 1'000'000'000;

constexpr auto kGpuFigures = std::to_array<GpuFigure>({
    {"temperature_shutdown_celsius", &Gpu::temperature_shutdown},
    {"temperature_slowdown_celsius", &Gpu::temperature_slowdown},
    {"temperature_max_celsius", &Gpu::temperature_max},
    {"temperature_memory_max_celsius", &Gpu::temperature_memory_max},
    {"power_limit_min_milliwatts", &Gpu::power_limit_min},
    {"power_limit_max_milliwatts", &Gpu::power_limit_max},
    {"power_limit_default_milliwatts", &Gpu::power_limit_default},
    {"clock_graphics_max_megahertz", &Gpu::clock_graphics_max},
    {"clock_sm_max_megahertz", &Gpu::clock_sm_max},
    {"clock_memory_max_megahertz", &Gpu::clock_memory_max},
    {"pcie_generation_max", &Gpu::pcie_generation_max},
    {"pcie_width_max", &Gpu::pcie_width_max},
});

}  // namespace

std::string gpu_facts_text(const Gpu& gpu) {
  nlohmann::json json = nlohmann::json::object();
  for (const GpuFigure& figure : kGpuFigures) {
    std::visit(
        [&](const auto field) {
          if (gpu.*field) json[figure.key] = (gpu.*field)->value;
        },
        figure.field);
  }
  return json.dump();
}

Gpu gpu_facts_from(std::string_view text) {
  Gpu gpu;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return gpu;
  for (const GpuFigure& figure : kGpuFigures) {
    const auto found = json.find(figure.key);
    if (found == json.end() || !found->is_number_integer()) continue;
    const auto value = found->get<std::int64_t>();
    if (value < 0 || value > kGreatestFigure) continue;
    std::visit(
        [&]<class Unit>(std::optional<Unit> Gpu::* const field) {
          gpu.*field = Unit(static_cast<typename Unit::rep>(value));
        },
        figure.field);
  }
  return gpu;
}

}  // namespace gpuwarden::telemetry
