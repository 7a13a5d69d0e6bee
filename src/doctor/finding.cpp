// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/finding.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

constexpr auto kSeverities = std::to_array<std::string_view>({"ok", "info", "warning", "error", "critical"});
constexpr auto kAreas = std::to_array<std::string_view>(
    {"driver", "device", "toolkit", "frameworks", "libraries", "containers", "multi_gpu", "system", "cluster"});
constexpr auto kStatuses =
    std::to_array<std::string_view>({"not_judged", "optimal", "compatible", "needs_update", "incompatible"});

/// What commands of fixes begin with.
constexpr auto kPrograms = std::to_array<std::string_view>(
    {"sudo",   "gpuwarden", "unset",   "export",   "pip",       "uv",       "conda",  "mamba", "nvidia-smi",
     "docker", "podman",    "wsl",     "wsl.exe",  "ulimit",    "scontrol", "sbatch", "srun",  "ps",
     "ls",     "grep",      "lspci",   "kill",     "helm",      "eval",     "echo",   "du",    "df",
     "dpkg",   "printf",    "kubectl", "ldconfig", "cat",       "nvcc",     "find",   "mount", "rm",
     "cd",     "lsmod",     "dmesg",   "apt",      "systemctl", "which",    "source"});

template <class E, std::size_t N>
std::optional<E> named(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Severity severity) { return kSeverities.at(std::to_underlying(severity)); }
std::optional<Severity> severity_from(std::string_view name) { return named<Severity>(kSeverities, name); }
std::string_view to_string(Area area) { return kAreas.at(std::to_underlying(area)); }
std::optional<Area> area_from(std::string_view name) { return named<Area>(kAreas, name); }
std::string_view to_string(Status status) { return kStatuses.at(std::to_underlying(status)); }

bool is_command(std::string_view step) {
  const auto words = split_words(step);
  if (words.empty()) return false;
  const std::string_view first = words.front();
  return first.contains('=') || first.starts_with('/') || first.starts_with("python") || first.ends_with("/pip") ||
         std::ranges::find(kPrograms, first) != kPrograms.end();
}

}  // namespace gpuwarden::doctor
