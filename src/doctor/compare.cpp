// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

/// Whether alike machines have it alike.
enum class Shared { by_machines, by_none };

struct Fact {
  std::string what;
  std::string value;
  Shared shared = Shared::by_machines;
};

/// What makes machines of one kind alike, in the order in which one would read it; readings and names are left out.
class Facts {
 public:
  explicit Facts(const facts::Snapshot& snapshot) {
    read_driver(snapshot);
    for (const auto& gpu : snapshot.gpus) read_gpu(gpu);
    if (snapshot.environment) read_environment(*snapshot.environment);
  }
  const std::vector<Fact>& all() const { return facts_; }

 private:
  void put(std::string what, const std::string& value, Shared shared = Shared::by_machines) {
    if (!value.empty()) facts_.push_back({std::move(what), value, shared});
  }
  void put(std::string what, const std::optional<std::string>& value) { put(std::move(what), value.value_or("")); }
  void put(std::string what, const std::optional<bool>& value) {
    if (value) put(std::move(what), std::string(*value ? "yes" : "no"));
  }

  void read_driver(const facts::Snapshot& snapshot) {
    put("driver", snapshot.driver_version);
    put("CUDA of the driver", snapshot.cuda_driver_version);
    put("number of GPUs", std::to_string(snapshot.gpus.size()));
    put("number of network adapters", snapshot.nics.empty() ? "" : std::to_string(snapshot.nics.size()));
  }

  void read_gpu(const facts::GpuRecord& record) {
    const std::string name = fmt::format("GPU {} ", record.gpu.index.value);
    put(name + "model", record.gpu.name);
    put(name + "bus id", record.gpu.pci_bus_id, Shared::by_none);
    put(name + "VBIOS", record.gpu.vbios_version);
    put(name + "ECC", record.gpu.ecc_enabled);
    put(name + "MIG", record.gpu.mig_enabled);
    put(name + "persistence", record.gpu.persistence);
    if (record.gpu.compute_mode) put(name + "compute mode", std::string(to_string(*record.gpu.compute_mode)));
    if (record.sample.power_limit)
      put(name + "power limit", fmt::format("{} W", record.sample.power_limit->value / 1000));
    if (record.sample.memory_total) put(name + "memory", format_size(*record.sample.memory_total));
    if (record.sample.pcie_width) put(name + "PCIe lanes", fmt::format("x{}", record.sample.pcie_width->value));
    const auto& links = record.sample.nvlinks;
    const auto active = std::ranges::count_if(links, [](const auto& link) { return link.active == true; });
    if (!links.empty()) put(name + "NVLinks", std::to_string(active));
    const bool trouble = !is_usable(record);
    put(name + "state", std::string(trouble ? to_string(record.state) : "usable"));
  }

  void read_environment(const facts::Environment& environment) {
    const auto& host = environment.host;
    put("distribution", host.distribution_name);
    put("kernel", host.kernel);
    put("glibc", host.libc);
    put("processor", host.cpu_model);
    put("CPUs", host.cpus ? std::to_string(*host.cpus) : "");
    put("host memory", host.memory_total ? format_size(*host.memory_total) : "");
    put("hypervisor", host.hypervisor);
    put("Secure Boot", host.secure_boot);
    put("IOMMU", host.iommu);
    put("kernel module", environment.driver.loaded_version);
    if (environment.driver.flavour) put("kind of kernel module", std::string(to_string(*environment.driver.flavour)));
    put("driver package", environment.driver.package);
    for (const auto& service : environment.services)
      put("service " + service.name, service.state + (service.version ? " " + *service.version : ""));
    for (const auto& toolkit : environment.toolkits) put("toolkit " + toolkit.path, toolkit.version);
    for (const auto& compiler : environment.compilers) put(compiler.name, compiler.version);
    put("container toolkit", environment.containers.toolkit_version);
    for (const auto& python : environment.pythons) {
      const std::string where = python.path.empty() ? "" : " in " + python.path;
      for (const auto& package : python.packages) put(package.name + where, package.version);
    }
    for (const auto& variable : environment.variables) {
      if (variable.name.starts_with("SLURM_") || variable.name == "PATH") continue;
      const bool own = variable.name.starts_with("CUDA_VISIBLE_DEVICES") || variable.name.starts_with("GPUWARDEN_");
      put(variable.name, variable.value, own ? Shared::by_none : Shared::by_machines);
    }
  }

  std::vector<Fact> facts_;
};

/// The value that more than half of those who know have.
std::string usual_of(const std::vector<std::string>& values) {
  std::map<std::string, std::size_t> counts;
  std::size_t known = 0;
  for (const std::string& value : values) {
    if (value == "-") continue;
    ++counts[value];
    ++known;
  }
  for (const auto& [value, count] : counts) {
    if (count * 2 > known) return value;
  }
  return "";
}

std::string odd_one(const Comparison& comparison) {
  std::vector<std::size_t> deviations(comparison.machines.size());
  for (const Difference& difference : comparison.differences) {
    if (difference.usual.empty()) continue;
    for (std::size_t i = 0; i < deviations.size(); ++i) {
      if (difference.values[i] != "-" && difference.values[i] != difference.usual) ++deviations[i];
    }
  }
  if (deviations.size() < 3) return "";  // of two, neither is the odd one
  const auto most = std::ranges::max_element(deviations);
  const bool alone = std::ranges::count(deviations, *most) == 1;
  return *most > 0 && alone ? comparison.machines[static_cast<std::size_t>(most - deviations.begin())] : "";
}

}  // namespace

std::vector<std::string> names_of_machines(const std::vector<std::string>& files) {
  const auto stem = [](const std::string& path) { return std::filesystem::path(path).stem().string(); };
  std::vector<std::string> names;
  for (const std::string& file : files)
    names.push_back(std::ranges::count(files, stem(file), stem) > 1 ? file : stem(file));
  return names;
}

Comparison compare(const std::vector<NamedMachine>& machines) {
  Comparison comparison;
  std::vector<std::string> order;
  std::map<std::string, Difference> rows;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    comparison.machines.push_back(machines[i].name);
    comparison.simulated = comparison.simulated || machines[i].snapshot.simulated;
    const Facts known_facts(machines[i].snapshot);
    for (const Fact& fact : known_facts.all()) {
      Difference& row = rows[fact.what];
      if (row.values.empty()) {
        row = {fact.what, std::vector<std::string>(machines.size(), "-"), "", fact.shared == Shared::by_none};
        order.push_back(fact.what);
      }
      row.values[i] = fact.value;
    }
  }
  for (const std::string& what : order) {
    Difference& row = rows[what];
    const auto known = std::ranges::count_if(row.values, [](const std::string& value) { return value != "-"; });
    if (known < 2) continue;
    ++comparison.compared;
    if (std::ranges::all_of(row.values, [&](const std::string& value) { return value == row.values[0]; })) continue;
    row.usual = usual_of(row.values);
    comparison.differences.push_back(std::move(row));
  }
  comparison.odd_one_out = odd_one(comparison);
  return comparison;
}

}  // namespace gpuwarden::doctor
