// SPDX-License-Identifier: Apache-2.0
#include "naive_diagnosis.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <string>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::bench {
namespace {

struct Pattern {
  std::string_view part;  ///< in lower case
  std::string_view label;
};

/// Hardware and driver first, what usually follows from something else last: as a careful author of such a script
/// would order them. Only what such an author knows by heart, no piece of text that just one case of the corpus has;
/// still written by one who had seen the corpus, so the floor is a flattering one.
constexpr auto kPatterns = std::to_array<Pattern>({
    {"fallen off the bus", "fell_off_bus"},
    {"gpu is lost", "fell_off_bus"},
    {"): 79,", "fell_off_bus"},
    {"unable to determine the device handle", "fell_off_bus"},
    {"uncorrectable ecc error", "ecc_error"},
    {"): 48,", "ecc_error"},
    {"): 63,", "ecc_error"},
    {"): 94,", "ecc_error"},
    {"): 119,", "gsp_error"},
    {"): 74,", "nvlink_error"},
    {"sxid", "nvlink_error"},
    {"fabric manager", "fabric_manager_not_running"},
    {"system not yet initialized", "fabric_manager_not_running"},
    {"rminitadapter failed", "rm_init_failed"},
    {"the launch timed out and was terminated", "kernel_timeout"},
    {"): 13,", "xid_app_fault"},
    {"): 31,", "xid_app_fault"},
    {"nvrm: xid", "xid_app_fault"},
    {"thermal slowdown", "thermal_power"},
    {"driver/library version mismatch", "driver_library_mismatch"},
    {"api mismatch: the client", "driver_library_mismatch"},
    {"does not match dso version", "driver_library_mismatch"},
    {"forward compatibility was attempted", "driver_library_mismatch"},
    {"blocked by the operating system", "wsl_driver"},
    {"no adapters were found", "wsl_driver"},
    {"nouveau", "nouveau_or_kernel_module"},
    {"exec format error", "nouveau_or_kernel_module"},
    {"dkms", "nouveau_or_kernel_module"},
    {"key was rejected by service", "secure_boot"},
    {"could not insert 'nvidia'", "driver_not_loaded"},
    {"couldn't communicate with the nvidia driver", "driver_not_loaded"},
    {"found no nvidia driver", "driver_not_loaded"},
    {"/proc/driver/nvidia/version does not exist", "driver_not_loaded"},
    {"nvidia driver on your system is too old", "driver_too_old"},
    {"driver version is insufficient", "driver_too_old"},
    {"unsatisfied condition: cuda>=", "driver_too_old"},
    {"could not select device driver", "container_runtime_missing"},
    {"no runtime for \"nvidia\"", "container_runtime_missing"},
    {"unknown or invalid runtime name: nvidia", "container_runtime_missing"},
    {"nvidia-container-cli", "container_driver_injection"},
    {"failed to initialize nvml: unknown error", "cgroup_device_lost"},
    {"unable to enable mig", "mig_configuration"},
    {"unable to create a gpu instance", "mig_configuration"},
    {"exclusive_process", "exclusive_compute_mode"},
    {"busy or unavailable", "device_busy"},
    {"err_nvgpuctrperm", "device_permission"},
    {"libcuda.so.1: cannot open", "libcuda_missing"},
    {"libcudart.so", "cudart_not_found"},
    {"libcudnn", "cudart_not_found"},
    {"loaded runtime cudnn library", "cudnn_version_mismatch"},
    {"cuda_home environment variable is not set", "toolkit_missing"},
    {"nvcc: command not found", "toolkit_missing"},
    {"the detected cuda version", "toolkit_framework_mismatch"},
    {"unsupported gpu architecture", "arch_unsupported_by_toolkit"},
    {"nvcc fatal", "arch_unsupported_by_toolkit"},
    {"unsupported gnu version", "host_compiler_unsupported"},
    {"unsupported microsoft visual studio", "host_compiler_unsupported"},
    {"no kernel image is available", "no_kernel_image"},
    {"is not compatible with the current pytorch", "no_kernel_image"},
    {"invalid device function", "no_kernel_image"},
    {"not supported in this architecture", "arch_feature_unsupported"},
    {"bfloat16 is only supported on", "arch_feature_unsupported"},
    {"ptx was compiled with an unsupported toolchain", "unsupported_ptx"},
    {"undefined symbol", "abi_undefined_symbol"},
    {"not compiled with cuda enabled", "cpu_only_build"},
    {"tensilelibrary", "rocm_arch"},
    {"duplicate gpu detected", "duplicate_gpu"},
    {"/dev/shm", "shm_too_small"},
    {"unexpected bus error encountered in worker", "shm_too_small"},
    {"is killed by signal", "dataloader_worker_killed"},
    {"no space left on device", "disk_full"},
    {"due to time limit", "slurm_time_limit"},
    {"oom_kill event", "slurm_oom_kill"},
    {"oom-kill event", "slurm_oom_kill"},
    {"requested node configuration is not available", "slurm_gres_missing"},
    {"invalid generic resource", "slurm_gres_missing"},
    {"out of memory: killed process", "oom_host"},
    {"std::bad_alloc", "oom_host"},
    {"out of resource: shared memory", "kernel_resource_limit"},
    {"no available memory for the cache blocks", "kv_cache_too_small"},
    {"maximum number of tokens that can be stored in kv cache", "kv_cache_too_small"},
    {"cannot re-initialize cuda in forked subprocess", "cuda_fork"},
    {"invalid device ordinal", "invalid_device_ordinal"},
    {"device-side assert triggered", "device_side_assert"},
    {"illegal memory access", "illegal_memory_access"},
    {"invalid configuration argument", "launch_failure"},
    {"unspecified launch failure", "launch_failure"},
    {"misaligned address", "launch_failure"},
    {"cuda out of memory", "oom_capacity"},
    {"cuda error: out of memory", "oom_capacity"},
    {"cudamalloc failed: out of memory", "oom_capacity"},
    {"resource_exhausted: out of memory", "oom_capacity"},
    {"erroroutofdevicememory", "oom_capacity"},
    {": out of memory", "oom_capacity"},
    {"cublas_status_alloc_failed", "cublas_alloc_failed"},
    {"cublas_status_not_initialized", "cublas_alloc_failed"},
    {"no cuda gpus are available", "no_device_detected"},
    {"no cuda-capable device is detected", "no_device_detected"},
    {"no cuda devices found", "no_device_detected"},
    {"cuda_error_no_device", "no_device_detected"},
    {"cuda unknown error", "cuda_unknown_error"},
    {"cuda_error_unknown", "cuda_unknown_error"},
    {"address already in use", "port_in_use"},
    {"eaddrinuse", "port_in_use"},
    {"peer access", "p2p_unsupported"},
    {"ibv_modify_qp failed", "rdma_error"},
    {"with error 12,", "rdma_error"},
    {"no socket interface found", "nccl_network"},
    {"connection refused", "nccl_network"},
    {"connection closed by peer", "peer_rank_died"},
    {"remote process exited", "peer_rank_died"},
    {"client socket has timed out", "rendezvous_failure"},
    {"clients joined", "rendezvous_failure"},
    {"watchdog caught collective operation timeout", "nccl_timeout"},
    {"nccl operations have failed or timed out", "nccl_timeout"},
    {"nccl error", "nccl_version_or_init"},
    {"ncclinternalerror", "nccl_version_or_init"},
    {"ncclsystemerror", "nccl_version_or_init"},
    {"enginedeaderror", "crash_secondary"},
    {"killed", "oom_host"},
});

constexpr std::string_view kNothing = "none";

/// Empty where no pattern stands in it.
std::string_view match(std::string_view lower) {
  const auto found = std::ranges::find_if(kPatterns, [&](const Pattern& row) { return lower.contains(row.part); });
  return found == kPatterns.end() ? std::string_view() : found->label;
}

template <class Lines>
std::string_view first_match(Lines&& lines) {
  for (const std::string_view line : lines) {
    const std::string_view label = match(line);
    if (!label.empty()) return label;
  }
  return kNothing;
}

}  // namespace

std::size_t naive_pattern_count() { return kPatterns.size(); }

std::string_view naive_diagnosis(std::string_view text, NaiveStrategy strategy) {
  const std::string lower = to_lower(text);
  if (strategy == NaiveStrategy::priority) {
    const std::string_view label = match(lower);
    return label.empty() ? kNothing : label;
  }
  const auto lines = split(lower, '\n');
  return strategy == NaiveStrategy::first_line ? first_match(lines) : first_match(lines | std::views::reverse);
}

}  // namespace gpuwarden::bench
