// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/package_names.hpp"

#include <fmt/format.h>

namespace gpuwarden::knowledge {

namespace {

/// From here on NVIDIA's repositories have one name for all branches and all formats; nvidia-fabricmanager-580 is only
/// a virtual package there (source: NVIDIA/gpu-driver-container#451 for apt, #585 for rpm).
constexpr int kFirstUnnumbered = 580;
/// From here to 575 NVIDIA's rpm is nvidia-fabric-manager (source: NVIDIA/yum-packaging-fabric-manager#1 and pull
/// request #2; NVIDIA/gpu-driver-container#585).
constexpr int kFirstWithSecondHyphen = 470;

}  // namespace

std::string fabric_manager_package(PackageSource source, int branch) {
  std::string numbered = fmt::format("nvidia-fabricmanager-{}", branch);
  switch (source) {
    case PackageSource::ubuntu_archive:
      // Source: packages.ubuntu.com, fabric-manager-580 and its like; they go with the -server drivers.
      return numbered;
    case PackageSource::nvidia_apt:
      return branch >= kFirstUnnumbered ? "nvidia-fabricmanager" : numbered;
    case PackageSource::nvidia_rpm:
      if (branch >= kFirstUnnumbered) return "nvidia-fabricmanager";
      return branch >= kFirstWithSecondHyphen ? "nvidia-fabric-manager" : numbered;
    case PackageSource::debian_archive:
      break;
  }
  return "nvidia-fabricmanager";
}

std::string_view subnet_manager_package(PackageSource source) {
  // Source: fabric manager user guide 2.3, "Systems Using Fourth Generation NVSwitches"; the name from AWS's guide for
  // P6-B200 and P6-B300 (docs.aws.amazon.com/AWSEC2, public NVIDIA drivers) and from NVIDIA's CUDA repositories
  // (nvlsm_2025.06.10-1_amd64.deb of ubuntu2404), as of 2026-11.
  return source == PackageSource::nvidia_apt || source == PackageSource::nvidia_rpm ? "nvlsm" : "";
}

std::string apt_exactly(std::string_view name, std::string_view version) {
  return fmt::format("{}={}-*", name, version);
}
std::string dnf_exactly(std::string_view name, std::string_view version) { return fmt::format("{}-{}", name, version); }
std::string zypper_exactly(std::string_view name, std::string_view version) {
  return fmt::format("{}={}", name, version);
}

}  // namespace gpuwarden::knowledge
