// SPDX-License-Identifier: Apache-2.0
// What the survey's files look like inside. Pure functions over bytes that nobody vouches for; none of them fails.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::probe {

/// "550.54.15" behind the last ".so." of a file name; empty where it is no number with a dot.
std::optional<std::string> version_of_library(std::string_view file_name);

/// A number like 550.54.15 in a text: the first word that is one.
std::optional<std::string> version_in(std::string_view text);

/// The paths in the loader's cache, in its order. The format is glibc's since 2.2: a header of 48 bytes that begins
/// with "glibc-ld.so.cache1.1", entries of 24 bytes with flags, key and value; offsets count from the magic.
std::vector<std::string> paths_in_loader_cache(std::string_view cache);

/// "550.54.15" of "version=550.54.15" between zero bytes, as kernel modules carry it. A value that the text's end may
/// have cut does not count; the same goes for the versions inside libraries below.
std::optional<std::string> modinfo_field(std::string_view module, std::string_view key);

/// The compiler's version in a toolkit's version.json, else the toolkit's own.
std::optional<std::string> version_in_toolkit_json(std::string_view text);
/// "13.0.88" of what nvcc --version prints ("..., V13.0.88").
std::optional<std::string> version_in_nvcc_output(std::string_view text);
/// "12.4" of "#define CUDA_VERSION 12040" in cuda.h.
std::optional<std::string> version_in_cuda_header(std::string_view text);
/// "9.1.0" of the macros PREFIX_MAJOR, PREFIX_MINOR and PREFIX_PATCH or PREFIX_PATCHLEVEL in a header.
std::optional<std::string> version_in_header(std::string_view text, std::string_view prefix);
/// "2.21.5" of "NCCL version 2.21.5+cuda12.4" inside the library.
std::optional<std::string> version_in_nccl_library(std::string_view library);

/// The value of "cuda: Optional[str] = '12.4'" in Python; an empty text for None, "True" and
/// "False" as they are; nothing where the name is not set.
std::optional<std::string> python_assignment(std::string_view text, std::string_view name);
/// No list of architectures is longer.
inline constexpr std::size_t kLongestArchitectures = 1024;
/// The architectures that PyTorch's build wrote into libtorch_python.so: the longest text that is nothing but
/// "sm_50 sm_60 ... compute_90", with ROCm "gfx90a gfx942". It is what torch._C._cuda_getArchFlags() gives (source:
/// torch/csrc/cuda/Module.cpp, CUDA_ARCH_FLAGS).
std::vector<std::string> torch_architectures_in(std::string_view library, bool rocm);

struct NamedVersion {
  std::string name;
  std::string version;
  bool operator==(const NamedVersion&) const = default;
};
/// Of "torch-2.5.1+cu124.dist-info" or "apex-0.1-py3.10.egg-info".
std::optional<NamedVersion> of_dist_info(std::string_view folder_name);
/// Of "pytorch-2.4.0-py3.11_cuda12.4_cudnn9.1.0_0.json".
std::optional<NamedVersion> of_conda_meta(std::string_view file_name);
/// "12.4" of the build "py3.11_cuda12.4_cudnn9.1.0_0", "12.6" of "cuda126_py311h...", an empty text of "cpu_...".
std::optional<std::string> cuda_of_conda_build(std::string_view file_name);

/// Installed packages in dpkg's status file; epochs and Debian's revisions stay.
std::vector<NamedVersion> packages_in_dpkg_status(std::string_view text);

/// Whether Slurm's list of hosts ("gpu[01-04,07],login1") has this one.
bool host_list_has(std::string_view list, std::string_view host);
/// "gpu:a100:4" for each resource that slurm.conf or gres.conf gives this host.
std::vector<std::string> gres_in_slurm_conf(std::string_view text, std::string_view host);
std::vector<std::string> gres_in_gres_conf(std::string_view text, std::string_view host);
/// The value of Key=value, keys without case; empty where it is not set.
std::string slurm_value(std::string_view text, std::string_view key);

}  // namespace gpuwarden::probe
