// SPDX-License-Identifier: Apache-2.0
// The commands that mend things, as this machine's distribution spells them. Checks say what is needed; how it is
// typed is written down here alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::doctor {

/// Families of distributions that share a package manager.
enum class Family { debian, ubuntu, redhat, suse, arch, unknown };
/// By os-release; where that is not told, by the kernel's name ("6.8.0-45-generic").
Family family_of(const facts::Environment& environment);

/// A package's name in each family; empty: that family has it not.
struct PackageNames {
  std::string_view debian;
  std::string_view ubuntu;
  std::string_view redhat;
  std::string_view suse;
  std::string_view arch;
};
/// "sudo apt install linux-headers-6.1.0-28-amd64"; on an unknown distribution, a sentence with the Debian name.
std::string install_command(const facts::Environment& environment, const PackageNames& names);
/// How the report's one driver is installed, which is to satisfy this need, too: of the branch that fits (the
/// distribution's own, where nothing asks for one), with the kernel module that the machine's GPUs can use; ends with
/// the reboot. Where no one driver does, or none that is known, one sentence that says so.
std::vector<std::string> install_driver(const Subject& subject, Report& report, const DriverNeed& need);
/// The same by gpuwarden's own plan where that can be typed.
std::vector<std::string> plan_driver(const Subject& subject, Report& report, const DriverNeed& need);
/// The fabric manager of exactly the driver's version, from where the driver came, and its restart. `driver`:
/// "580.105.08".
std::vector<std::string> install_fabric_manager(const facts::Environment& environment, std::string_view driver);
/// NVIDIA's repository for it, where the distribution needs that, and the package.
std::vector<std::string> install_container_toolkit(const facts::Environment& environment);
/// Makes Docker know the runtime 'nvidia'.
std::vector<std::string> configure_docker();
/// A CUDA toolkit of this release, without a driver: "sudo apt install cuda-toolkit-12-4", from NVIDIA's repository.
std::string install_toolkit(const facts::Environment& environment, const knowledge::Version& release);
/// Headers of the running kernel.
std::string install_kernel_headers(const facts::Environment& environment);
std::string rebuild_initramfs(const facts::Environment& environment);
/// Takes the module of another version in use, without a reboot where that can be.
std::vector<std::string> reload_driver(const facts::Environment& environment);
/// "sudo systemctl enable --now nvidia-persistenced".
std::string enable_service(std::string_view service);
/// "pip", or that Python's own: "/srv/venv/bin/python -m pip".
std::string pip_of(const facts::PythonEnvironment& python);
/// "pip install 'torch==2.9.1' --index-url https://download.pytorch.org/whl/cu128", with that Python's own pip. An
/// empty version: the newest.
std::string pip_install_torch(const facts::PythonEnvironment& python, std::string_view version, std::string_view build);
/// "pip install 'numpy<2'", with that Python's own pip; `rest`: options and a comment behind the requirement.
std::string pip_install(const facts::PythonEnvironment& python, std::string_view requirement,
                        std::string_view rest = {});
/// "pip uninstall a b", with that Python's own pip.
std::string pip_uninstall(const facts::PythonEnvironment& python, const std::vector<std::string>& packages);
/// "GPU 3", or "GPUs 0-3,7": by their indices.
std::string name_gpus(const std::vector<const facts::GpuRecord*>& gpus);
/// "GPU 3 has", or "GPUs 0-3 have".
std::string name_gpus(const std::vector<const facts::GpuRecord*>& gpus, std::string_view has, std::string_view have);
/// The command that resets these GPUs.
std::string reset_command(const std::vector<const facts::GpuRecord*>& gpus);

}  // namespace gpuwarden::doctor
