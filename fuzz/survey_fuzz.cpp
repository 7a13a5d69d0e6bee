// SPDX-License-Identifier: Apache-2.0
// The formats that a survey of a machine reads. The first byte chooses which.
#include <cstdint>
#include <cstdlib>

#include "probe/survey/formats.hpp"

namespace {

using namespace gpuwarden::probe;

void check(bool holds) {
  if (!holds) std::abort();
}

/// What goes into facts must be short and printable, whatever the file held.
void check(const std::optional<std::string>& text) {
  if (!text) return;
  check(text->size() <= 4096);
  for (const char c : *text) check(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

void check(const std::optional<NamedVersion>& named) {
  if (named) check(!named->name.empty() && !named->version.empty());
}

void read_binaries(std::string_view text) {
  for (const std::string& path : paths_in_loader_cache(text)) check(path.starts_with('/') && path.size() < 4096);
  check(modinfo_field(text, "version"));
  check(version_in_nccl_library(text));
  for (const bool rocm : {false, true}) check(torch_architectures_in(text, rocm).size() <= kLongestArchitectures);
}

void read_versions(std::string_view text) {
  check(version_in_toolkit_json(text));
  check(version_in_nvcc_output(text));
  check(version_in_cuda_header(text));
  check(version_in_header(text, "CUDNN"));
  static_cast<void>(version_in(text));
  static_cast<void>(version_of_library(text));
}

void read_packages(std::string_view text) {
  static_cast<void>(python_assignment(text, "cuda"));
  check(of_dist_info(text));
  check(of_conda_meta(text));
  check(cuda_of_conda_build(text));
  for (const NamedVersion& package : packages_in_dpkg_status(text)) check(!package.name.empty());
}

void read_slurm(std::string_view text) {
  static_cast<void>(host_list_has(text, "gpu01"));
  static_cast<void>(slurm_value(text, "ConstrainDevices"));
  for (const std::string& gres : gres_in_slurm_conf(text, "gpu01")) check(!gres.empty());
  for (const std::string& gres : gres_in_gres_conf(text, "gpu01")) check(gres.contains(':'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      read_binaries(text);
      break;
    case 1:
      read_versions(text);
      break;
    case 2:
      read_packages(text);
      break;
    default:
      read_slurm(text);
      break;
  }
  return 0;
}
