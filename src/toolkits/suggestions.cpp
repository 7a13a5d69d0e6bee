// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/suggestions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::toolkits {

namespace {

using facts::Environment;
using facts::NetworkInterface;
using facts::RdmaAdapter;
using facts::Snapshot;
using Suggestions = std::vector<Suggestion>;

std::vector<const facts::GpuRecord*> nvidia_gpus(const Snapshot& snapshot) {
  std::vector<const facts::GpuRecord*> gpus;
  for (const auto& record : snapshot.gpus) {
    if (record.gpu.vendor == "NVIDIA") gpus.push_back(&record);
  }
  return gpus;
}

/// Between machines NCCL needs an interface that leads out: the one of the default route, else the only physical one
/// with a link. Several without a default route are not guessed at.
void socket_interface(const Environment& software, Suggestions& out) {
  const NetworkInterface* chosen = nullptr;
  std::string why;
  std::vector<const NetworkInterface*> physical;
  for (const auto& interface : software.interfaces) {
    if (!interface.up) continue;
    if (interface.physical) physical.push_back(&interface);
    if (interface.default_route && chosen == nullptr) {
      chosen = &interface;
      why = "the interface of the default route";
    }
  }
  if (chosen == nullptr && physical.size() == 1) {
    chosen = physical.front();
    why = "the only interface with a device and a link";
  }
  if (chosen == nullptr) {
    if (!physical.empty())
      out.push_back({"", "",
                     "several interfaces have a link and none a default route: set NCCL_SOCKET_IFNAME to the "
                     "one that reaches the other machines"});
    return;
  }
  if (chosen->megabits) why += fmt::format(", {} Mbit/s", *chosen->megabits);
  std::vector<std::string> faster;
  for (const auto* other : physical) {
    if (other != chosen && other->megabits && chosen->megabits && *other->megabits > *chosen->megabits)
      faster.push_back(other->name);
  }
  out.push_back({"NCCL_SOCKET_IFNAME", "=" + chosen->name, why});
  if (!faster.empty())
    out.push_back({"", "",
                   fmt::format("faster, but without the default route: {}; better if the other machines are "
                               "reached over it",
                               join(faster, ", "))});
}

/// Where adapters differ in their network, InfiniBand is the one for computing; Ethernet then serves storage.
void rdma_adapters(const Environment& software, Suggestions& out) {
  std::vector<std::string> infiniband;
  std::vector<std::string> ethernet;
  std::vector<std::string> down;
  for (const RdmaAdapter& adapter : software.rdma_adapters) {
    if (!adapter.active)
      down.push_back(adapter.name);
    else
      (adapter.link_layer == "Ethernet" ? ethernet : infiniband).push_back(adapter.name);
  }
  const auto& chosen = infiniband.empty() ? ethernet : infiniband;
  if (!chosen.empty()) {
    std::string why = infiniband.empty() ? "the RoCE adapters with a link" : "the InfiniBand adapters with a link";
    if (!infiniband.empty() && !ethernet.empty()) why += "; not those on Ethernet: " + join(ethernet, ", ");
    if (!down.empty()) why += "; not those without a link: " + join(down, ", ");
    out.push_back({"NCCL_IB_HCA", "=" + join(chosen, ","), why});
  } else if (!down.empty()) {
    out.push_back({"NCCL_IB_DISABLE", "1", "no InfiniBand or RoCE adapter has a link: " + join(down, ", ")});
  }
  const auto& modules = software.driver.loaded_modules;
  if (!chosen.empty() && !modules.empty() && std::ranges::find(modules, "nvidia_peermem") == modules.end())
    out.push_back({"", "",
                   "nvidia_peermem is not loaded: without it (or DMA-BUF) data goes through the CPU's memory; "
                   "modprobe nvidia_peermem"});
}

void shared_memory(const Snapshot& snapshot, Suggestions& out) {
  constexpr Bytes kEnough = 1_GiB;
  if (!snapshot.environment || nvidia_gpus(snapshot).size() < 2) return;
  for (const auto& system : snapshot.environment->host.file_systems) {
    if (system.mount == "/dev/shm" && system.total < kEnough)
      out.push_back({"", "",
                     fmt::format("/dev/shm has only {}: start the container with --shm-size=1g or more, or "
                                 "NCCL fails",
                                 format_size(system.total))});
  }
}

void device_order(const Snapshot& snapshot, Suggestions& out) {
  std::set<std::string> names;
  for (const auto* record : nvidia_gpus(snapshot)) names.insert(record->gpu.name);
  if (names.size() > 1)
    out.push_back({"CUDA_DEVICE_ORDER", "PCI_BUS_ID", "the GPUs differ: so CUDA numbers them as nvidia-smi does"});
}

void cpu_threads(const Snapshot& snapshot, Suggestions& out) {
  const auto gpus = static_cast<int>(nvidia_gpus(snapshot).size());
  if (!snapshot.environment || gpus == 0) return;
  const auto& host = snapshot.environment->host;
  const auto cpus = host.cpus_allowed ? host.cpus_allowed : host.cpus;
  if (!cpus || *cpus < 1) return;
  out.push_back({"OMP_NUM_THREADS", std::to_string(std::max(1, *cpus / gpus)),
                 fmt::format("{} processors for {} rank{}", *cpus, gpus, gpus == 1 ? "" : "s")});
}

/// Compiled for these GPUs, with PTX of the newest for those to come.
void architecture_list(const Snapshot& snapshot, Suggestions& out) {
  std::set<std::pair<int, int>> capabilities;
  for (const auto* record : nvidia_gpus(snapshot)) {
    const auto named = knowledge::Knowledge::built_in().architecture_of_name(record->gpu.name);
    if (const auto& own = record->gpu.compute_capability)
      capabilities.emplace(own->major, own->minor);
    else if (named)
      capabilities.emplace(*named / 10, *named % 10);
  }
  if (capabilities.empty()) return;
  std::vector<std::string> names;
  for (const auto& [major, minor] : capabilities) names.push_back(fmt::format("{}.{}", major, minor));
  out.push_back({"TORCH_CUDA_ARCH_LIST", join(names, ";") + "+PTX",
                 "extensions are compiled for the GPUs of this machine alone, which is quicker"});
}

void for_nccl(const Snapshot& snapshot, Suggestions& out) {
  static const Environment kNone;
  const Environment& software = snapshot.environment ? *snapshot.environment : kNone;
  socket_interface(software, out);
  rdma_adapters(software, out);
  shared_memory(snapshot, out);
  out.push_back({"NCCL_DEBUG", "WARN", "a failure then says what failed; use INFO to look for a fault"});
}

void for_vllm(const Snapshot& snapshot, Suggestions& out) {
  device_order(snapshot, out);
  if (nvidia_gpus(snapshot).size() > 1) {
    out.push_back({"VLLM_WORKER_MULTIPROC_METHOD", "spawn", "workers must not inherit a CUDA context; one each GPU"});
    for_nccl(snapshot, out);
  }
  cpu_threads(snapshot, out);
}

void for_pytorch(const Snapshot& snapshot, Suggestions& out) {
  device_order(snapshot, out);
  const bool wsl = snapshot.environment && snapshot.environment->host.wsl.value_or(0) != 0;
  // Expandable segments need virtual memory management, which the driver offers from 11.x on; not in WSL.
  if (!wsl && !nvidia_gpus(snapshot).empty())
    out.push_back({"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "less memory is lost to fragmentation"});
  architecture_list(snapshot, out);
  cpu_threads(snapshot, out);
}

}  // namespace

Result<Suggestions> suggest(std::string_view software, const Snapshot& snapshot) {
  static constexpr std::array<std::pair<std::string_view, void (*)(const Snapshot&, Suggestions&)>, 3> kSoftware{
      {{"nccl", for_nccl}, {"vllm", for_vllm}, {"pytorch", for_pytorch}}};
  const auto* const found = std::ranges::find(kSoftware, software, &decltype(kSoftware)::value_type::first);
  if (found == kSoftware.end())
    return fail(ErrorCode::invalid_argument, fmt::format("nothing is generated for '{}'", printable(software)),
                "nccl, vllm or pytorch");
  Suggestions out;
  found->second(snapshot, out);
  return out;
}

std::string script_of(Shell shell, const Suggestions& suggestions) {
  std::string text;
  for (const Suggestion& one : suggestions) {
    text += fmt::format("# {}\n", printable(one.why));
    if (!one.name.empty()) text += commands_for(shell, {{one.name, one.value}});
  }
  return text;
}

}  // namespace gpuwarden::toolkits
