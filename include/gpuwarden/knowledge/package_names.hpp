// SPDX-License-Identifier: Apache-2.0
// Names of packages that differ from one repository and driver branch to another.
#pragma once

#include <string>
#include <string_view>

namespace gpuwarden::knowledge {

/// Whose packages are meant, and of which format.
enum class PackageSource {
  debian_archive,
  ubuntu_archive,
  nvidia_apt,  ///< NVIDIA's repository for Debian and Ubuntu
  nvidia_rpm,  ///< NVIDIA's repository for Red Hat's family, Fedora, Amazon Linux, SUSE
};

/// From this branch on NVIDIA's apt repository pins a branch by a package of its own, nvidia-driver-pinning-BRANCH;
/// before, branches have packages each (source: NVIDIA driver installation guide, version locking).
inline constexpr int kFirstPinnedBranch = 575;

/// The fabric manager's package for drivers of this branch.
std::string fabric_manager_package(PackageSource source, int branch);
/// The NVLink subnet manager that switches of the fourth generation (B100, B200, B300) need beside the fabric manager;
/// it has versions of its own. Empty where the source has none.
std::string_view subnet_manager_package(PackageSource source);

/// A package of exactly this version, as its manager's command line takes it: "NAME=VERSION-*" for apt (whatever the
/// packaging's own revision), "NAME-VERSION" for dnf, "NAME=VERSION" for zypper. Not quoted for a shell.
std::string apt_exactly(std::string_view name, std::string_view version);
std::string dnf_exactly(std::string_view name, std::string_view version);
std::string zypper_exactly(std::string_view name, std::string_view version);

}  // namespace gpuwarden::knowledge
