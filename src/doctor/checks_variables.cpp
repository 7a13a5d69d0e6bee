// SPDX-License-Identifier: Apache-2.0
// Environment variables that hide GPUs, slow them down, or break programs.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

constexpr std::string_view kCudaVariables =
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables";
constexpr std::string_view kNcclVariables = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html";

const std::string* variable(const Subject& subject, std::string_view name) {
  return facts::find_variable(subject.environment, name);
}

bool is_on(const Subject& subject, std::string_view name) {
  const auto* value = variable(subject, name);
  return value != nullptr && *value != "0" && !value->empty() && to_lower(*value) != "false";
}

void hides_all(const Subject& subject, Report& report) {
  const auto* value = variable(subject, "CUDA_VISIBLE_DEVICES");
  if (value == nullptr || nvidia_gpus(subject).empty() || !hides_all_gpus(*value)) return;
  report.say(fmt::format("CUDA_VISIBLE_DEVICES is '{}': CUDA programs see no GPU", *value),
             {"unset CUDA_VISIBLE_DEVICES"});
}

/// Whether an entry of the mask can name a GPU at all.
bool names_a_gpu(std::string_view word) { return !hides_all_gpus(word); }

void absent_gpu(const Subject& subject, Report& report) {
  const auto* value = variable(subject, "CUDA_VISIBLE_DEVICES");
  const auto gpus = nvidia_gpus(subject);
  if (value == nullptr || gpus.empty() || hides_all_gpus(*value)) return;
  std::vector<std::string> absent;
  const auto entries = split(*value, ',');
  for (const auto& entry : entries) {
    const auto word = trim(entry);
    const auto number = parse_integer(word);
    // What ends the list cuts nothing off.
    const bool cuts = !names_a_gpu(word) && &entry != &entries.back();
    if (cuts) absent.push_back(fmt::format("'{}'", word));
    // A report may have been taken behind the mask, where fewer GPUs are seen than there are.
    const bool behind_mask = subject.snapshot.source == "report";
    if (number && *number >= static_cast<std::int64_t>(gpus.size()) && !behind_mask) absent.emplace_back(word);
    const bool by_uuid = word.starts_with("GPU-") && word.size() >= 12;
    const bool known =
        std::ranges::any_of(gpus, [&](const auto* gpu) { return gpu->gpu.uuid.value.starts_with(word); });
    const bool uuids = std::ranges::any_of(gpus, [](const auto* gpu) { return !gpu->gpu.uuid.value.empty(); });
    if (by_uuid && uuids && !known) absent.emplace_back(word);
  }
  if (absent.empty()) return;
  report.say(fmt::format("CUDA_VISIBLE_DEVICES names {}, which does not exist; CUDA ignores it and all that follow",
                         join(absent, ", ")),
             {"unset CUDA_VISIBLE_DEVICES", "eval \"$(gpuwarden select --export)\"   # sets it to GPUs that are free"});
}

void listed_twice(const Subject& subject, Report& report) {
  const auto* value = variable(subject, "CUDA_VISIBLE_DEVICES");
  if (value == nullptr) return;
  std::vector<std::string_view> entries;
  for (const auto entry : split(*value, ',')) {
    if (!names_a_gpu(trim(entry))) break;  // CUDA reads no further
    entries.push_back(trim(entry));
  }
  std::ranges::sort(entries);
  const auto twice = std::ranges::adjacent_find(entries);
  if (twice == entries.end()) return;
  report.say(fmt::format("CUDA_VISIBLE_DEVICES names {} twice; CUDA then sees no device", *twice),
             {"[@nvidia] name each GPU once in CUDA_VISIBLE_DEVICES"});
}

void order_matters(const Subject& subject, Report& report) {
  const auto* value = variable(subject, "CUDA_VISIBLE_DEVICES");
  const auto* order = variable(subject, "CUDA_DEVICE_ORDER");
  const auto gpus = nvidia_gpus(subject);
  const bool mixed =
      std::ranges::any_of(gpus, [&](const auto* gpu) { return gpu->gpu.name != gpus.front()->gpu.name; });
  if (value == nullptr || value->contains("GPU-") || value->contains("MIG-") || trim(*value).empty() || !mixed) return;
  if (order != nullptr && *order == "PCI_BUS_ID") return;
  report.say(
      fmt::format("CUDA_VISIBLE_DEVICES={} counts the fastest GPU first, not as nvidia-smi does: the GPUs differ",
                  *value),
      {"export CUDA_DEVICE_ORDER=PCI_BUS_ID"});
}

void blocking(const Subject& subject, Report& report) {
  if (!is_on(subject, "CUDA_LAUNCH_BLOCKING")) return;
  report.say("CUDA_LAUNCH_BLOCKING is set: every kernel waits for the one before", {"unset CUDA_LAUNCH_BLOCKING"});
}

/// source: DCGM, nvvs/src/Software.cpp, the variables that its software test refuses
constexpr auto kDebugging = std::to_array<std::string_view>(
    {"NSIGHT_CUDA_DEBUGGER", "CUDA_INJECTION32_PATH", "CUDA_INJECTION64_PATH", "CUDA_AUTO_BOOST",
     "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_COREDUMP_FILE", "CUDA_DEVICE_WAITS_ON_EXCEPTION", "CUDA_PROFILE",
     "COMPUTE_PROFILE", "OPENCL_PROFILE"});

void debugging(const Subject& subject, Report& report) {
  std::vector<std::string> set;
  for (const auto name : kDebugging) {
    if (variable(subject, name) != nullptr) set.emplace_back(name);
  }
  if (set.empty()) return;
  report.say(fmt::format("{} changes how CUDA programs run", join(set, ", ")), {"unset " + join(set, " ")});
}

void nccl_slow_paths(const Subject& subject, Report& report) {
  if (nvidia_gpus(subject).size() < 2) return;
  std::vector<std::string> set;
  for (const std::string_view name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE", "NCCL_NVLS_ENABLE"}) {
    const bool disables =
        name.ends_with("DISABLE") ? is_on(subject, name) : variable(subject, name) != nullptr && !is_on(subject, name);
    if (disables) set.push_back(fmt::format("{}={}", name, *variable(subject, name)));
  }
  if (set.empty()) return;
  report.say(fmt::format("NCCL's fast paths are switched off: {}", join(set, ", ")),
             {"unset them, unless they work around a known fault of this machine"});
}

void nccl_loopback(const Subject& subject, Report& report) {
  const auto* name = variable(subject, "NCCL_SOCKET_IFNAME");
  if (name == nullptr || (*name != "lo" && *name != "=lo")) return;
  report.say("NCCL_SOCKET_IFNAME is lo: ranks on other machines cannot be reached",
             {"gpuwarden env generate nccl   # names the right interface"});
}

void nvidia_void(const Subject& subject, Report& report) {
  const auto* value = variable(subject, "NVIDIA_VISIBLE_DEVICES");
  if (value == nullptr || (*value != "void" && *value != "none") || !is_container(subject)) return;
  report.say(fmt::format("NVIDIA_VISIBLE_DEVICES is {}: this container was given no GPU", *value),
             {"docker run --gpus all ..."});
}

void no_compute_capability(const Subject& subject, Report& report) {
  const auto* value = variable(subject, "NVIDIA_DRIVER_CAPABILITIES");
  if (value == nullptr || value->empty() || !is_container(subject)) return;
  if (value->contains("compute") || value->contains("all")) return;
  report.say(fmt::format("NVIDIA_DRIVER_CAPABILITIES is {}: without 'compute' the container has no libcuda", *value),
             {"docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."});
}

void rocm_masks(const Subject& subject, Report& report) {
  const auto* rocr = variable(subject, "ROCR_VISIBLE_DEVICES");
  const auto* hip = variable(subject, "HIP_VISIBLE_DEVICES");
  const auto* cuda = variable(subject, "CUDA_VISIBLE_DEVICES");
  const bool amd = std::ranges::any_of(subject.snapshot.gpus, [](const auto& gpu) { return gpu.gpu.vendor == "AMD"; });
  if (rocr == nullptr || rocr->empty() || !amd) return;
  const bool twice = hip != nullptr || cuda != nullptr;
  if (!twice && *rocr == "0") return;
  report.say(
      fmt::format("ROCR_VISIBLE_DEVICES={} renumbers the GPUs from 0: masks and ranks after it count from 0 again",
                  *rocr),
      {"unset ROCR_VISIBLE_DEVICES", "put the same value into HIP_VISIBLE_DEVICES, as the only mask"});
}

/// source: PyTorch documentation, CUDA semantics, optimizing memory usage
constexpr auto kAllocatorKeys = std::to_array<std::string_view>(
    {"backend", "max_split_size_mb", "max_non_split_rounding_mb", "roundup_power2_divisions",
     "roundup_bypass_threshold_mb", "garbage_collection_threshold", "expandable_segments",
     "pinned_use_cuda_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
     "release_lock_on_cudamalloc", "per_process_memory_fraction", "large_segment_size_mb",
     "pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom"});

void allocator_keys(const Subject& subject, Report& report) {
  for (const std::string_view name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const auto* value = variable(subject, name);
    if (value == nullptr) continue;
    for (const auto entry : split(*value, ',')) {
      const std::string key(trim(entry.substr(0, entry.find(':'))));
      if (key.empty() || key.starts_with('[') || key.find_first_of("0123456789>]") == 0) continue;
      if (std::ranges::find(kAllocatorKeys, key) != kAllocatorKeys.end()) continue;
      const std::string close = closest_match(key, {kAllocatorKeys.begin(), kAllocatorKeys.end()});
      report.say(fmt::format("{} has the key '{}', which PyTorch does not know", name, key),
                 {close.empty() ? std::string("remove it") : fmt::format("write {} instead", close)});
      return;
    }
  }
}

void one_thread(const Subject& subject, Report& report) {
  const auto* value = variable(subject, "OMP_NUM_THREADS");
  constexpr int kManyCpus = 16;
  if (value == nullptr || *value != "1" || subject.environment.host.cpus.value_or(0) < kManyCpus) return;
  report.say(fmt::format("OMP_NUM_THREADS is 1 on a machine with {} CPUs: tokenizing and loading data are slow",
                         *subject.environment.host.cpus),
             {"export OMP_NUM_THREADS=8   # CPUs divided by ranks"});
}

constexpr auto kVariableChecks = std::to_array<Check>({
    {"visible-devices-empty", Area::libraries, Severity::error, "CUDA_VISIBLE_DEVICES that hides all",
     "CUDA reports that there is no device.", "CUDA programming guide, environment variables", kCudaVariables,
     hides_all},
    {"visible-devices-absent", Area::libraries, Severity::error,
     "CUDA_VISIBLE_DEVICES that names a GPU that does not exist",
     "CUDA stops reading the list at the first entry that is no GPU.", "CUDA programming guide, environment variables",
     kCudaVariables, absent_gpu},
    {"visible-devices-twice", Area::libraries, Severity::error, "CUDA_VISIBLE_DEVICES with repetitions",
     "CUDA takes the whole list for invalid.", "CUDA programming guide, environment variables", kCudaVariables,
     listed_twice},
    {"device-order-ambiguous", Area::libraries, Severity::warning, "CUDA_DEVICE_ORDER where GPUs differ",
     "Index 0 of CUDA may be another GPU than index 0 of nvidia-smi.", "CUDA programming guide, environment variables",
     kCudaVariables, order_matters},
    {"launch-blocking", Area::libraries, Severity::warning, "CUDA_LAUNCH_BLOCKING",
     "Good for debugging, several times slower otherwise.", "CUDA programming guide, environment variables",
     kCudaVariables, blocking},
    {"cuda-debugging-variables", Area::libraries, Severity::warning, "variables of debuggers and profilers",
     "They inject code, write dumps, or change clocks.", "DCGM, software test", "", debugging},
    {"nccl-fast-paths-off", Area::multi_gpu, Severity::warning, "NCCL switches left behind",
     "Traffic between GPUs goes through host memory or TCP.", "NCCL user guide, environment variables", kNcclVariables,
     nccl_slow_paths},
    {"nccl-on-loopback", Area::multi_gpu, Severity::warning, "NCCL_SOCKET_IFNAME",
     "The loopback interface ends at this machine.", "NCCL user guide, environment variables", kNcclVariables,
     nccl_loopback},
    {"container-given-no-gpu", Area::containers, Severity::error, "NVIDIA_VISIBLE_DEVICES",
     "The container runtime was told to hide the GPUs.", "NVIDIA container toolkit documentation",
     "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html", nvidia_void},
    {"container-without-compute", Area::containers, Severity::error, "NVIDIA_DRIVER_CAPABILITIES",
     "Only the named parts of the driver are put into the container.", "NVIDIA container toolkit documentation",
     "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
     no_compute_capability},
    {"rocm-masks-renumber", Area::libraries, Severity::warning, "ROCR_VISIBLE_DEVICES",
     "A second mask, or a rank, then names a GPU that does not exist: \"invalid device ordinal\".",
     "vllm-project/vllm#12572; ROCm documentation, GPU isolation",
     "https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html", rocm_masks},
    {"allocator-key-unknown", Area::frameworks, Severity::warning, "PYTORCH_CUDA_ALLOC_CONF",
     "PyTorch stops at an unknown key, or ignores it.", "PyTorch documentation, CUDA semantics",
     "https://pytorch.org/docs/stable/notes/cuda.html", allocator_keys},
    {"one-openmp-thread", Area::system, Severity::info, "OMP_NUM_THREADS",
     "torchrun sets it to 1 where nothing else is said.", "torchrun documentation", "", one_thread},
});

}  // namespace

std::span<const Check> variable_checks() { return kVariableChecks; }

}  // namespace gpuwarden::doctor
