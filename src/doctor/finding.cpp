// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/finding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
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
constexpr std::string_view kPrograms =
    " amd-smi apt apt-get cat cd clinfo compute-sanitizer conda curl dcgmi df dkms dmesg docker dpkg du "
    "echo eval export find fuser gcc getent gpuwarden grep helm ib_write_bw ibstat ibv_devinfo id ip journalctl "
    "kill kubectl ldconfig ldd ls lsmod lsof lspci mamba modinfo modprobe mokutil mount nc nvcc "
    "nvidia-bug-report.sh nvidia-container-cli nvidia-ctk nvidia-smi ping pip podman printf ps py-spy rm "
    "rocm-smi rocminfo sacct sacctmgr sbatch scontrol seff sinfo source squeue srun ss ssh strings sudo sysctl "
    "systemctl torchrun ulimit uname unset uv vulkaninfo which wsl wsl.exe ";

template <class E, std::size_t N>
std::optional<E> named(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

/// "cat /proc/driver/nvidia/version: must be ..." is a sentence about a command. A colon within quotes says nothing.
bool has_remark(const std::vector<std::string_view>& words) {
  std::size_t quotes = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    quotes += static_cast<std::size_t>(std::ranges::count_if(words[i], [](char c) { return c == '\'' || c == '"'; }));
    if (words[i].ends_with(':') && quotes % 2 == 0) return true;
  }
  return false;
}

/// NCCL_DEBUG=INFO before a command.
bool is_assignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 && std::ranges::all_of(word.substr(0, equals), [](char c) {
           return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
         });
}

}  // namespace

std::string_view to_string(Severity severity) { return kSeverities.at(std::to_underlying(severity)); }
std::optional<Severity> severity_from(std::string_view name) { return named<Severity>(kSeverities, name); }
std::string_view to_string(Area area) { return kAreas.at(std::to_underlying(area)); }
std::optional<Area> area_from(std::string_view name) { return named<Area>(kAreas, name); }
std::string_view to_string(Status status) { return kStatuses.at(std::to_underlying(status)); }

bool is_command(std::string_view step) {
  const auto words = split_words(step);
  if (words.empty() || has_remark(words)) return false;
  std::string_view first = words.front();
  if (first.ends_with(';')) first.remove_suffix(1);
  const bool option = words.size() > 1 && words[1].starts_with('-');
  return is_assignment(first) || first.starts_with('/') || first.starts_with("python") || first.ends_with("/pip") ||
         (first == "free" && option) || kPrograms.contains(fmt::format(" {} ", first));
}

}  // namespace gpuwarden::doctor
