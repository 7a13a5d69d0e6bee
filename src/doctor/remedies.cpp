// SPDX-License-Identifier: Apache-2.0
#include "doctor/remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "doctor/queries.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/package_names.hpp"

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

/// How distributions name their kernels, most telling first.
constexpr auto kKernels = std::to_array<Distribution>({
    {".el", Family::redhat},
    {".fc", Family::redhat},
    {".amzn", Family::redhat},
    {"-arch", Family::arch},
    {"-MANJARO", Family::arch},
    {"-default", Family::suse},
    {"-generic", Family::ubuntu},
    {"-lowlatency", Family::ubuntu},
    {"-nvidia", Family::ubuntu},
    {"-azure", Family::ubuntu},
    {"-aws", Family::ubuntu},
    {"-gcp", Family::ubuntu},
    {"-oracle", Family::ubuntu},
    {"-amd64", Family::debian},
    {"-arm64", Family::debian},
});

constexpr std::string_view kReboot = "sudo reboot";
/// First branch with NVIDIA's open kernel module.
constexpr int kFirstWithOpenModule = 515;
/// Services that hold the driver while they run.
constexpr auto kHolders =
    std::to_array<std::string_view>({"nvidia-persistenced", "nvidia-fabricmanager", "nvidia-dcgm"});
/// The driver's modules, each before those that it stands on.
constexpr auto kModules =
    std::to_array<std::string_view>({"nvidia_peermem", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia"});

/// The driver that shall be installed.
struct DriverWish {
  int branch = 0;  ///< 0: the distribution's own
  bool proprietary = false;
  bool open_only = false;
  bool any_gpu = false;    ///< which GPU there is, is not known
  bool elsewhere = false;  ///< gpuwarden's own plan is of no use: the machine is only told of
};

/// The driver for what all findings ask together.
DriverWish wish_for(const Subject& subject, const DriverNeed& agreed) {
  const auto module = both(agreed, taken_by_gpus(subject)).module;
  return {fitting_branch(subject, agreed), module == facts::ModuleFlavour::proprietary,
          module == facts::ModuleFlavour::open, !module && all_architectures(subject).empty(),
          !subject.snapshot.origin.empty()};
}

/// source: NVIDIA's driver 590, release notes: no more Maxwell, Pascal and Volta
constexpr int kLastBeforeTuring = 580;
std::string after_legacy(int branch) {
  return branch > kLastBeforeTuring ? fmt::format(" and of branch {}, their last", kLastBeforeTuring) : "";
}

/// For a machine that is only told of: what its administrator is to install.
std::string advice(const DriverWish& wish) {
  if (wish.any_gpu)
    return fmt::format(
        "install NVIDIA's driver{}, from NVIDIA's repository for that system: with the open kernel module from Turing "
        "on (Blackwell takes no other), with the proprietary one for GPUs before (GTX 10 series, P100, V100){}",
        wish.branch > 0 ? fmt::format(" of branch {}", wish.branch) : "", after_legacy(wish.branch));
  return fmt::format("install NVIDIA's driver{} with the {} kernel module, from NVIDIA's repository for that system",
                     wish.branch > 0 ? fmt::format(" of branch {}", wish.branch) : "",
                     wish.proprietary ? "proprietary" : "open");
}

std::string plan(const DriverWish& wish) {
  if (wish.elsewhere) return advice(wish);
  return fmt::format("gpuwarden driver plan{}{}", wish.branch > 0 ? fmt::format(" --branch {}", wish.branch) : "",
                     wish.proprietary ? " --module proprietary" : "");
}

/// What installs the driver.
struct Installation {
  std::string step;
  bool open_module =
      false;  ///< it names packages with the open kernel module, and the step does not say for which GPUs
};

Installation install_on_ubuntu(const DriverWish& wish) {
  if (wish.branch == 0) return {wish.proprietary ? plan(wish) : "sudo ubuntu-drivers install"};
  const bool open = !wish.proprietary && wish.branch >= kFirstWithOpenModule;
  return {fmt::format("sudo apt update && sudo apt install nvidia-driver-{}{}", wish.branch, open ? "-open" : ""),
          open};
}

/// NVIDIA's repository has module streams for these; others have dnf without modules.
bool has_streams(const facts::Host& host) {
  const std::string version = host.distribution_version.value_or("");
  const std::string_view major = std::string_view(version).substr(0, version.find('.'));
  return host.distribution == "amzn" || (host.distribution != "fedora" && !host.kernel.value_or("").contains(".fc") &&
                                         (major.empty() || major == "8" || major == "9"));
}

Installation install_on_redhat(const facts::Host& host, const DriverWish& wish) {
  if (!has_streams(host)) {
    if (wish.branch > 0 || wish.proprietary) return {plan(wish)};
    return {"sudo dnf install nvidia-open   # from NVIDIA's repository", true};
  }
  if (wish.branch > 0)
    return {fmt::format("sudo dnf module install nvidia-driver:{}-{}", wish.branch, wish.proprietary ? "dkms" : "open"),
            !wish.proprietary};
  if (wish.proprietary) return {plan(wish)};
  return {"sudo dnf module install nvidia-driver:open-dkms", true};
}

Installation install_on_suse(const DriverWish& wish) {
  if (wish.proprietary) return {plan(wish)};
  return {wish.branch > 0
              ? fmt::format("sudo zypper install 'nvidia-open-driver-G06-signed-kmp-default>={}'", wish.branch)
              : "sudo zypper install nvidia-open-driver-G06-signed-kmp-default",
          true};
}

Installation install_on_arch(const DriverWish& wish) {
  if (!wish.proprietary) return {"sudo pacman -S nvidia-open", true};
  if (wish.branch == 0) return {plan(wish)};
  return {fmt::format("install nvidia-{}xx-dkms and nvidia-{}xx-utils from the AUR", wish.branch, wish.branch)};
}

/// What is installed; the reboot comes behind it.
Installation installation_of(const facts::Environment& environment, const DriverWish& wish) {
  switch (family_of(environment)) {
    case Family::ubuntu:
      return install_on_ubuntu(wish);
    case Family::debian:
      // Debian's own package has no branch in its name and the proprietary module; NVIDIA's repository pins one.
      if (wish.elsewhere && wish.branch >= knowledge::kFirstPinnedBranch)
        return {fmt::format("sudo apt update && sudo apt install nvidia-driver-pinning-{} {}   # NVIDIA's repository",
                            wish.branch, wish.proprietary ? "cuda-drivers" : "nvidia-open"),
                !wish.proprietary};
      if (wish.branch > 0 || wish.proprietary || wish.open_only) return {plan(wish)};
      return {"sudo apt update && sudo apt install nvidia-driver firmware-misc-nonfree   # needs contrib non-free"};
    case Family::redhat:
      return install_on_redhat(environment.host, wish);
    case Family::suse:
      return install_on_suse(wish);
    case Family::arch:
      return install_on_arch(wish);
    case Family::unknown:
      break;
  }
  return {plan(wish)};
}

/// Where the driver's packages come from, as far as the installed one tells; NVIDIA's repository, where it does not.
knowledge::PackageSource source_of_driver(const facts::Environment& environment) {
  using knowledge::PackageSource;
  const std::string package = environment.driver.package.value_or("");
  const Family family = family_of(environment);
  if (family == Family::redhat || family == Family::suse) return PackageSource::nvidia_rpm;
  if (package.contains("-server") || package.contains("-0ubuntu")) return PackageSource::ubuntu_archive;
  if (package.contains("~deb")) return PackageSource::debian_archive;
  return PackageSource::nvidia_apt;
}

/// Commands of NVIDIA's Container Toolkit installation guide that add its repository.
std::vector<std::string> add_container_repository(Family family) {
  switch (family) {
    case Family::debian:
    case Family::ubuntu:
      return {
          "curl -fsSL https://nvidia.github.io/libnvidia-container/gpgkey | sudo gpg --yes --dearmor -o "
          "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg",
          "curl -fsSL https://nvidia.github.io/libnvidia-container/stable/deb/nvidia-container-toolkit.list | sed "
          "'s#deb https://#deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] https://#g' | sudo "
          "tee /etc/apt/sources.list.d/nvidia-container-toolkit.list"};
    case Family::redhat:
      return {
          "curl -fsSL https://nvidia.github.io/libnvidia-container/stable/rpm/nvidia-container-toolkit.repo | sudo tee "
          "/etc/yum.repos.d/nvidia-container-toolkit.repo"};
    case Family::suse:
      return {
          "sudo zypper addrepo https://nvidia.github.io/libnvidia-container/stable/rpm/nvidia-container-toolkit.repo"};
    case Family::arch:
      return {};
    case Family::unknown:
      break;
  }
  return {
      "[@nvidia] add NVIDIA's package repository, where the distribution has no such package: "
      "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"};
}

}  // namespace

Family family_of(const facts::Environment& environment) {
  const auto* const found =
      std::ranges::find(kDistributions, environment.host.distribution.value_or(""), &Distribution::id);
  if (found != kDistributions.end()) return found->family;
  if (environment.host.distribution) return Family::unknown;
  const std::string kernel = environment.host.kernel.value_or("");
  const auto* const named =
      std::ranges::find_if(kKernels, [&](const Distribution& one) { return kernel.contains(one.id); });
  return named == kKernels.end() ? Family::unknown : named->family;
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
  return knowledge::with_kind(
      knowledge::kind_of_packages(names.debian),
      fmt::format("install {} with your distribution's package manager (that is its name on Debian)", names.debian));
}

std::vector<std::string> install_fabric_manager(const facts::Environment& environment, std::string_view driver) {
  const auto version = knowledge::Version::parse(driver);
  const std::string restart = "sudo systemctl restart nvidia-fabricmanager";
  if (!version) return {"install the fabric manager's package of exactly the driver's version", restart};
  const std::string name = knowledge::fabric_manager_package(source_of_driver(environment), version->major);
  switch (family_of(environment)) {
    case Family::debian:
    case Family::ubuntu:
      return {fmt::format("sudo apt update && sudo apt install --allow-downgrades '{}'",
                          knowledge::apt_exactly(name, driver)),
              restart};
    case Family::redhat:
      return {fmt::format("sudo dnf install --allowerasing {}", shell_word(knowledge::dnf_exactly(name, driver))),
              restart};
    case Family::suse:
      return {fmt::format("sudo zypper install --oldpackage {}", shell_word(knowledge::zypper_exactly(name, driver))),
              restart};
    case Family::arch:
    case Family::unknown:
      break;
  }
  return {fmt::format("[@own_driver] install {} of version {} exactly, from NVIDIA's package repository", name, driver),
          restart};
}

// source: CUDA installation guide for Linux, meta packages
std::string install_toolkit(const facts::Environment& environment, const knowledge::Version& release) {
  const std::string name = fmt::format("cuda-toolkit-{}-{}", release.major, release.minor);
  constexpr std::string_view kWhere = "from NVIDIA's repository: https://developer.nvidia.com/cuda-downloads";
  switch (family_of(environment)) {
    case Family::debian:
    case Family::ubuntu:
      return fmt::format("sudo apt install {}   # {}", name, kWhere);
    case Family::redhat:
      return fmt::format("sudo dnf install {}   # {}", name, kWhere);
    case Family::suse:
      return fmt::format("sudo zypper install {}   # {}", name, kWhere);
    case Family::arch:
    case Family::unknown:
      break;
  }
  return fmt::format("[@nvidia] install the CUDA toolkit {}: https://developer.nvidia.com/cuda-toolkit-archive",
                     to_string(release));
}

std::vector<std::string> install_container_toolkit(const facts::Environment& environment) {
  const Family family = family_of(environment);
  std::vector<std::string> steps = add_container_repository(family);
  const bool apt = family == Family::debian || family == Family::ubuntu;
  constexpr std::string_view kName = "nvidia-container-toolkit";
  steps.push_back((apt ? "sudo apt update && " : "") +
                  install_command(environment, {kName, kName, kName, kName, kName}));
  return steps;
}

std::vector<std::string> configure_docker() {
  return {"sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker"};
}

std::vector<std::string> install_driver(const Subject& subject, Report& report, const DriverNeed& need) {
  const DriverNeed agreed = report.ask_driver(need);
  if (const std::string why = why_no_driver(subject, agreed); !why.empty())
    return {knowledge::with_kind("nvidia", why)};
  const auto platform = platform_of(subject);
  if (platform == knowledge::Platform::macos) return knowledge::steps_without_cuda();
  if (platform != knowledge::Platform::linux_own)
    return {knowledge::driver_step(platform, fitting_branch(subject, agreed))};
  const DriverWish wish = wish_for(subject, agreed);
  Installation installation = installation_of(subject.environment, wish);
  std::vector<std::string> steps{std::move(installation.step)};
  if (wish.any_gpu && installation.open_module)
    steps.push_back(fmt::format(
        "for a GPU before Turing (GTX 10 series, P100, V100) with the proprietary kernel module instead: the "
        "open one does not drive it{}",
        after_legacy(wish.branch)));
  steps.emplace_back(kReboot);
  return steps;
}

std::vector<std::string> plan_driver(const Subject& subject, Report& report, const DriverNeed& need) {
  if (!subject.snapshot.origin.empty() || platform_of(subject) != knowledge::Platform::linux_own)
    return install_driver(subject, report, need);
  const DriverNeed agreed = report.ask_driver(need);
  const std::string why = why_no_driver(subject, agreed);
  return {why.empty() ? plan(wish_for(subject, agreed)) : knowledge::with_kind("nvidia", why)};
}

std::string install_kernel_headers(const facts::Environment& environment) {
  const auto& told = environment.host.kernel;
  const std::string kernel = told ? shell_word(*told) : "$(uname -r)";
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

std::vector<std::string> reload_driver(const facts::Environment& environment) {
  // What runs is stopped and started again; where nobody told what runs, whatever there is of these.
  std::vector<std::string> holders;
  for (const auto name : kHolders) {
    const auto* service = facts::find_service(environment, name);
    if (environment.services.empty() || (service != nullptr && service->state == "running")) holders.emplace_back(name);
  }
  std::vector<std::string> modules;
  const auto& loaded = environment.driver.loaded_modules;
  for (const auto name : kModules) {
    const bool asked_for = loaded.empty() ? name != "nvidia_peermem" : std::ranges::find(loaded, name) != loaded.end();
    if (asked_for || name == "nvidia") modules.emplace_back(name);
  }
  const std::string_view quietly = environment.services.empty() ? " 2>/dev/null" : "";
  std::vector<std::string> steps{"sudo fuser -v /dev/nvidia*   # end what it lists"};
  if (!holders.empty()) steps.push_back(fmt::format("sudo systemctl stop {}{}", join(holders, " "), quietly));
  steps.push_back(fmt::format("sudo rmmod {} && sudo modprobe nvidia", join(modules, " ")));
  if (!holders.empty()) steps.push_back(fmt::format("sudo systemctl start {}{}", join(holders, " "), quietly));
  steps.emplace_back("sudo reboot   # instead, if rmmod says that a module is in use");
  return steps;
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
