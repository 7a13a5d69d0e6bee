// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/cpus.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::probe {
namespace {

namespace fs = std::filesystem;
using facts::Cpu;

/// What CPUs have in common, and the file of a CPU that lists those it shares it with.
struct Sharing {
  std::string_view file;
  std::optional<int> Cpu::* field;
};
constexpr auto kSharings = std::to_array<Sharing>({{"topology/thread_siblings_list", &Cpu::core},
                                                   {"topology/core_siblings_list", &Cpu::package},
                                                   {"cache/index3/shared_cpu_list", &Cpu::cache}});

/// Gives `value` to the listed CPUs.
void mark(std::vector<Cpu>& cpus, const std::string& list, std::optional<int> Cpu::* field, int value) {
  for (const unsigned number : facts::cpu_numbers(list)) {
    const auto found = std::ranges::lower_bound(cpus, number, {}, &Cpu::number);
    if (found != cpus.end() && found->number == number) (*found).*field = value;
  }
}

/// One file says it of all that share it, so that few are read where CPUs are many.
void find_sharing(std::vector<Cpu>& cpus, const fs::path& folder, const Sharing& sharing) {
  for (const Cpu& cpu : cpus) {
    if (cpu.*sharing.field) continue;
    const auto list = read_line(folder / ("cpu" + std::to_string(cpu.number)) / sharing.file);
    if (list) mark(cpus, *list, sharing.field, static_cast<int>(cpu.number));
  }
}

}  // namespace

std::vector<Cpu> read_cpus(const fs::path& sys_root) {
  const fs::path system = sys_root / "devices/system";
  std::vector<Cpu> cpus;
  for (const unsigned number : facts::cpu_numbers(read_line(system / "cpu/online").value_or(""))) {
    Cpu& cpu = cpus.emplace_back();
    cpu.number = number;
  }
  for (const Sharing& sharing : kSharings) find_sharing(cpus, system / "cpu", sharing);
  for (const fs::path& node : list_directory(system / "node")) {
    const std::string name = node.filename();
    const auto number = name.starts_with("node") ? parse_integer(name.substr(4)) : std::nullopt;
    if (number && *number >= 0 && *number < 4096)
      mark(cpus, read_line(node / "cpulist").value_or(""), &Cpu::numa_node, static_cast<int>(*number));
  }
  return cpus;
}

}  // namespace gpuwarden::probe
