// SPDX-License-Identifier: Apache-2.0
#include "doctor/remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

struct Distribution {
  std::string_view id;
  Family family;
};

/// os-release IDs.
constexpr auto kDistributions = std::to_array<Distribution>({
    {"debian", Family::debian},
    {"raspbian", Family::debian},
    {"ubuntu", Family::ubuntu},
    {"linuxmint", Family::ubuntu},
    {"pop", Family::ubuntu},
    {"rhel", Family::redhat},
    {"centos", Family::redhat},
    {"rocky", Family::redhat},
    {"almalinux", Family::redhat},
    {"fedora", Family::redhat},
    {"amzn", Family::redhat},
    {"ol", Family::redhat},
    {"sles", Family::suse},
    {"opensuse", Family::suse},
    {"opensuse-leap", Family::suse},
    {"opensuse-tumbleweed", Family::suse},
    {"arch", Family::arch},
    {"manjaro", Family::arch},
});

constexpr std::string_view kReboot = "sudo reboot";

std::string kernel_of(const facts::Environment& environment) {
  return environment.host.kernel ? *environment.host.kernel : "$(uname -r)";
}

}  // namespace

Family family_of(const facts::Environment& environment) {
  const auto* const found =
      std::ranges::find(kDistributions, environment.host.distribution.value_or(""), &Distribution::id);
  return found == kDistributions.end() ? Family::unknown : found->family;
}

std::string install_command(const facts::Environment& environment, const PackageNames& names) {
  switch (family_of(environment)) {
    case Family::debian:
      if (!names.debian.empty()) return fmt::format("sudo apt install {}", names.debian);
      break;
    case Family::ubuntu:
      if (!names.ubuntu.empty()) return fmt::format("sudo apt install {}", names.ubuntu);
      break;
    case Family::redhat:
      if (!names.redhat.empty()) return fmt::format("sudo dnf install {}", names.redhat);
      break;
    case Family::suse:
      if (!names.suse.empty()) return fmt::format("sudo zypper install {}", names.suse);
      break;
    case Family::arch:
      if (!names.arch.empty()) return fmt::format("sudo pacman -S {}", names.arch);
      break;
    case Family::unknown:
      break;
  }
  return fmt::format("install {} with your distribution's package manager (that is its name on Debian)", names.debian);
}

std::vector<std::string> install_driver(const facts::Environment& environment, int branch) {
  const std::string of_branch = branch > 0 ? fmt::format("-{}", branch) : "";
  switch (family_of(environment)) {
    case Family::ubuntu:
      return {
          "sudo apt update",
          branch > 0 ? fmt::format("sudo apt install nvidia-driver{}-open", of_branch) : "sudo ubuntu-drivers install",
          std::string(kReboot)};
    case Family::debian:
      // Debian's own package has no branch in its name; NVIDIA's repository pins one.
      if (branch > 0)
        return {fmt::format("gpuwarden driver plan --branch {}   # from NVIDIA's repository for Debian", branch),
                std::string(kReboot)};
      return {"sudo apt update", "sudo apt install nvidia-driver firmware-misc-nonfree   # needs contrib non-free",
              std::string(kReboot)};
    case Family::redhat:
      return {branch > 0 ? fmt::format("sudo dnf module install nvidia-driver:{}-open", branch)
                         : "sudo dnf module install nvidia-driver:open-dkms",
              std::string(kReboot)};
    case Family::suse:
      return {branch > 0 ? fmt::format("sudo zypper install 'nvidia-open-driver-G06-signed-kmp-default>={}'", branch)
                         : "sudo zypper install nvidia-open-driver-G06-signed-kmp-default",
              std::string(kReboot)};
    case Family::arch:
      return {"sudo pacman -S nvidia-open", std::string(kReboot)};
    case Family::unknown:
      break;
  }
  return {branch > 0 ? fmt::format("gpuwarden driver plan --branch {}", branch) : "gpuwarden driver plan",
          std::string(kReboot)};
}

std::string install_kernel_headers(const facts::Environment& environment) {
  const std::string kernel = shell_word(kernel_of(environment));
  const std::string headers = "linux-headers-" + kernel;
  const std::string devel = "kernel-devel-" + kernel;
  return install_command(environment, {headers, headers, devel, "kernel-default-devel", "linux-headers"});
}

std::string rebuild_initramfs(const facts::Environment& environment) {
  switch (family_of(environment)) {
    case Family::redhat:
    case Family::suse:
      return "sudo dracut --force";
    case Family::arch:
      return "sudo mkinitcpio -P";
    default:
      return "sudo update-initramfs -u";
  }
}

std::vector<std::string> reload_driver() {
  return {"sudo fuser -v /dev/nvidia*   # end what it lists",
          "sudo systemctl stop nvidia-persistenced nvidia-fabricmanager nvidia-dcgm 2>/dev/null",
          "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia",
          "sudo reboot   # instead, if rmmod says that a module is in use"};
}

std::string enable_service(std::string_view service) { return fmt::format("sudo systemctl enable --now {}", service); }

std::string pip_of(const facts::PythonEnvironment& python) {
  const bool in_folder = !python.path.empty() && python.kind != "system" && python.kind != "reported";
  return in_folder ? fmt::format("{} -m pip", shell_word(python.path + "/bin/python")) : "pip";
}

std::string pip_install(const facts::PythonEnvironment& python, std::string_view requirement, std::string_view rest) {
  return fmt::format("{} install {}{}{}", pip_of(python), shell_word(requirement), rest.empty() ? "" : " ", rest);
}

std::string pip_uninstall(const facts::PythonEnvironment& python, const std::vector<std::string>& packages) {
  std::string text = pip_of(python) + " uninstall";
  for (const std::string& package : packages) text += " " + shell_word(package);
  return text;
}

std::string pip_install_torch(const facts::PythonEnvironment& python, std::string_view version,
                              std::string_view build) {
  const std::string requirement = version.empty() ? "torch" : fmt::format("torch=={}", version);
  return pip_install(python, requirement, fmt::format("--index-url https://download.pytorch.org/whl/{}", build));
}

std::string name_gpus(const std::vector<const facts::GpuRecord*>& gpus) {
  std::vector<std::uint32_t> indices;
  for (const auto* gpu : gpus) indices.push_back(gpu->gpu.index.value);
  std::ranges::sort(indices);
  std::string text;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t last = i;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += last == i ? std::to_string(indices[i]) : fmt::format("{}-{}", indices[i], indices[last]);
    i = last + 1;
  }
  return fmt::format("{} {}", indices.size() == 1 ? "GPU" : "GPUs", text);
}

std::string name_gpus(const std::vector<const facts::GpuRecord*>& gpus, std::string_view has, std::string_view have) {
  return fmt::format("{} {}", name_gpus(gpus), gpus.size() == 1 ? has : have);
}

std::string reset_command(const std::vector<const facts::GpuRecord*>& gpus) {
  std::vector<std::string> indices;
  for (const auto* gpu : gpus) indices.push_back(std::to_string(gpu->gpu.index.value));
  return fmt::format("sudo nvidia-smi --gpu-reset -i {}   # after their processes have ended", join(indices, ","));
}

}  // namespace gpuwarden::doctor
