// SPDX-License-Identifier: Apache-2.0
// Sources: NVIDIA driver installation guide (kernel modules, version locking, per distribution); Debian's and Ubuntu's
// package archives.
#include "driver/packagings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "driver/repositories.hpp"
#include "driver/words.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/package_names.hpp"

namespace gpuwarden::driver {

using facts::ModuleFlavour;

namespace {

/// From here on the .run file takes --kernel-module-type; before, -m=kernel-open (source: README of both).
constexpr int kFirstWithModuleType = 560;

bool is_open(const Recommendation& target) { return target.flavour == ModuleFlavour::open; }

/// NVIDIA's repository where it must be added first, empty where it is among the sources.
using Added = const std::optional<Repository>&;

bool wants_fabric_manager(const DriverFacts& facts) {
  return facts.nvswitch == true || facts::find_service(environment_of(facts), "nvidia-fabricmanager") != nullptr;
}

/// Of the fourth generation, those of B100, B200 and B300 (compute capability 10.x).
bool has_fourth_switches(const DriverFacts& facts) {
  constexpr int kBlackwell = 10;
  return std::ranges::any_of(facts.snapshot.gpus, [](const facts::GpuRecord& record) {
    return record.gpu.compute_capability && record.gpu.compute_capability->major == kBlackwell;
  });
}

/// Of which there is one for each release of the driver.
bool follows_driver(std::string_view package) {
  return !package.contains("-pinning-") &&
         package != knowledge::subnet_manager_package(knowledge::PackageSource::nvidia_apt);
}

std::vector<std::string> debian_packages(const DriverRequest& request, const Recommendation& target) {
  const std::string kernel = is_open(target) ? "nvidia-open-kernel-dkms" : "nvidia-kernel-dkms";
  if (request.compute_only) return {kernel, "nvidia-smi", "libcuda1", "nvidia-persistenced"};
  return {"nvidia-driver", kernel};
}

std::vector<std::string> ubuntu_packages(const DriverFacts& facts, const DriverRequest& request,
                                         const Recommendation& target) {
  const bool server = request.compute_only || wants_fabric_manager(facts);
  const std::string branch =
      fmt::format("{}{}{}", target.branch, server ? "-server" : "", is_open(target) ? "-open" : "");
  std::vector<std::string> packages{fmt::format("nvidia-{}-{}", request.compute_only ? "headless" : "driver", branch)};
  if (request.compute_only) packages.push_back(fmt::format("nvidia-utils-{}-server", target.branch));
  return packages;
}

std::vector<std::string> cuda_apt_packages(const DriverFacts& facts, const DriverRequest& request,
                                           const Recommendation& target) {
  const bool pinned = target.branch >= knowledge::kFirstPinnedBranch;
  const std::string suffix = pinned ? "" : fmt::format("-{}", target.branch);
  std::vector<std::string> packages;
  if (pinned) packages.push_back(fmt::format("nvidia-driver-pinning-{}", target.branch));
  if (request.compute_only && pinned) {
    const bool debian = environment_of(facts).host.distribution == "debian";
    packages.emplace_back(debian ? "nvidia-driver-cuda" : "libnvidia-compute");
    if (debian)
      packages.emplace_back(is_open(target) ? "nvidia-kernel-open-dkms" : "nvidia-kernel-dkms");
    else
      packages.emplace_back(is_open(target) ? "nvidia-dkms-open" : "nvidia-dkms");
  } else {
    packages.push_back((is_open(target) ? "nvidia-open" : "cuda-drivers") + suffix);
  }
  return packages;
}

void add_fabric_manager(const DriverFacts& facts, const Recommendation& target, std::vector<std::string>& packages) {
  if (!wants_fabric_manager(facts)) return;
  using knowledge::PackageSource;
  PackageSource source = PackageSource::debian_archive;
  if (target.packaging == Packaging::cuda_repository)
    source = facts.manager == PackageManager::apt ? PackageSource::nvidia_apt : PackageSource::nvidia_rpm;
  else if (environment_of(facts).host.distribution == "ubuntu")
    source = PackageSource::ubuntu_archive;
  packages.push_back(knowledge::fabric_manager_package(source, target.branch));
  const std::string_view subnet_manager = knowledge::subnet_manager_package(source);
  if (!subnet_manager.empty() && has_fourth_switches(facts)) packages.emplace_back(subnet_manager);
}

/// With an exact version asked for, apt takes the newest package revision of it: NAME=VERSION-*.
std::string apt_operands(const InstallWords& words, const DriverRequest& request) {
  std::string text;
  for (const std::string& name : words.packages) {
    const bool exact = !request.version.empty() && follows_driver(name);
    text += " " + shell_quoted(exact ? knowledge::apt_exactly(name, request.version) : name);
  }
  return text;
}

InstallWords apt_words(const DriverFacts& facts, const DriverRequest& request, const Recommendation& target,
                       Added added) {
  InstallWords words;
  const auto& host = environment_of(facts).host;
  if (target.packaging == Packaging::cuda_repository) {
    words.packages = cuda_apt_packages(facts, request, target);
    if (added) {
      words.repository = fmt::format(
          "keyring=/var/cache/apt/archives/cuda-keyring_1.1-1_all.deb\n"
          "printf 'cuda-keyring\\n' >>\"$B/touched\"\n"
          "if has curl; then curl -fsSL -o \"$keyring\" {0}\n"
          "else wget -qO \"$keyring\" {0}\nfi\n"
          "dpkg -i \"$keyring\"\n",
          shell_quoted(added->url + "/cuda-keyring_1.1-1_all.deb"));
      words.repository_undo = "dpkg --purge cuda-keyring\n";
    }
  } else {
    words.packages =
        host.distribution == "ubuntu" ? ubuntu_packages(facts, request, target) : debian_packages(request, target);
  }
  add_fabric_manager(facts, target, words.packages);
  const std::string what = apt_operands(words, request);
  words.fetch = fmt::format(
      "apt_get update\n"
      "touch_packages install{0}\n"
      "apt_get --download-only --allow-downgrades --allow-change-held-packages install{0}\n",
      what);
  words.install = fmt::format("apt_install{}\n", what);
  words.check = fmt::format("settled{}\n", what);
  return words;
}

InstallWords dnf_words(const DriverFacts& facts, const DriverRequest& request, const Recommendation& target,
                       Added added) {
  InstallWords words;
  const auto& host = environment_of(facts).host;
  words.packages = {is_open(target) ? "nvidia-open" : "cuda-drivers"};
  if (request.compute_only)
    words.packages = {"nvidia-driver-cuda", is_open(target) ? "kmod-nvidia-open-dkms" : "kmod-nvidia-latest-dkms"};
  add_fabric_manager(facts, target, words.packages);
  if (added) {
    const std::string file = shell_quoted(fmt::format("/etc/yum.repos.d/cuda-{}.repo", added->name));
    words.repository = fmt::format("curl -fsSL -o {} {}\n", file,
                                   shell_quoted(fmt::format("{}/cuda-{}.repo", added->url, added->name)));
    words.repository_undo = fmt::format("rm -f {}\n", file);
  }
  const std::string major =
      host.distribution_version.value_or("").substr(0, host.distribution_version.value_or("").find('.'));
  const bool streams = host.distribution != "fedora" && (major == "8" || major == "9" || host.distribution == "amzn");
  std::string names;
  for (const std::string& name : words.packages)
    names += " " + shell_quoted(request.version.empty() || !follows_driver(name)
                                    ? name
                                    : knowledge::dnf_exactly(name, request.version));
  words.fetch = "dnf -y makecache\n";
  if (streams) {
    words.fetch += fmt::format("dnf -y module reset nvidia-driver\ndnf -y module enable nvidia-driver:{}-{}\n",
                               target.branch, is_open(target) ? "open" : "dkms");
    words.fetch_undo = "dnf -y module reset nvidia-driver\n";
  } else {
    words.fetch += fmt::format("dnf -y install 'dnf-command(versionlock)'\ndnf versionlock {}'*nvidia*{}*'\n",
                               host.distribution == "fedora" ? "add " : "", target.branch);
    words.fetch_undo = fmt::format("dnf versionlock delete '*nvidia*{}*' || true\n", target.branch);
  }
  words.fetch += fmt::format("dnf -y --downloadonly --allowerasing install{}\n", names);
  words.install = fmt::format("dnf -y --allowerasing install{}\n", names);
  return words;
}

InstallWords zypper_words(const DriverFacts& facts, const DriverRequest& request, const Recommendation& target,
                          Added added) {
  InstallWords words;
  words.packages = {is_open(target) ? "nvidia-open" : "cuda-drivers"};
  add_fabric_manager(facts, target, words.packages);
  if (added) {
    words.repository = fmt::format("zypper --non-interactive addrepo --refresh {}\n",
                                   shell_quoted(fmt::format("{}/cuda-{}.repo", added->url, added->name)));
    words.repository_undo = fmt::format("zypper --non-interactive removerepo {}\n",
                                        shell_quoted(fmt::format("cuda-{}-{}", added->name, added->machine)));
  }
  std::string names;
  for (const std::string& name : words.packages)
    names += " " + shell_quoted(!follows_driver(name)     ? name
                                : request.version.empty() ? fmt::format("{}<{}", name, target.branch + 1)
                                                          : knowledge::zypper_exactly(name, request.version));
  words.fetch = fmt::format(
      "zypper --non-interactive --gpg-auto-import-keys refresh\n"
      "zypper --non-interactive install --download-only --oldpackage{}\n",
      names);
  words.install = fmt::format("zypper --non-interactive install --oldpackage --force-resolution{}\n", names);
  return words;
}

InstallWords runfile_words(const DriverRequest& request, const Recommendation& target) {
  InstallWords words;
  const std::string file = shell_quoted(request.runfile);
  const std::string type = target.branch >= kFirstWithModuleType
                               ? (is_open(target) ? "--kernel-module-type=open" : "--kernel-module-type=proprietary")
                               : (is_open(target) ? "-m=kernel-open" : "-m=kernel");
  words.fetch = fmt::format("[ -r {0} ] || die \"there is no \"{0}\nsh {0} --check\n", file);
  words.install = fmt::format("sh {} --silent --no-questions {} {}{}\n", file, type, "\"$dkms_option\"",
                              request.compute_only ? " --no-opengl-files" : "");
  words.install = "dkms_option=--no-dkms\nif has dkms; then dkms_option=--dkms; fi\n" + words.install;
  return words;
}

/// Of a simulated machine, and often of a captured one, the GPUs are known and the software around them is not.
Error no_packages(const facts::Snapshot& snapshot) {
  const bool captured = !snapshot.origin.empty();
  const char* where = snapshot.simulated ? " on the simulated machine, whose software is not known"
                      : captured         ? " in the capture: it does not tell the machine's packages"
                                         : ": this distribution's packages are not known here";
  return {ErrorCode::unsatisfied, fmt::format("neither dpkg nor rpm was found{}", where),
          snapshot.simulated ? "name one: --distribution ubuntu:22.04; without --simulate it is this machine's"
          : captured         ? "name its distribution, --distribution ubuntu:22.04, or use NVIDIA's .run installer: "
                               "--runfile FILE"
                             : "use NVIDIA's .run installer: --runfile FILE"};
}

}  // namespace

Result<InstallWords> install_words(const DriverFacts& facts, const DriverRequest& request,
                                   const Recommendation& target) {
  if (target.packaging == Packaging::runfile) {
    if (request.runfile.empty())
      return fail(ErrorCode::invalid_argument, "the .run installer was asked for, but no file was given",
                  "--runfile /path/NVIDIA-Linux-x86_64-580.126.09.run");
    return runfile_words(request, target);
  }
  const facts::Host& host = environment_of(facts).host;
  GPUWARDEN_CHECK(check_served(host));
  const bool known = host.distribution == "debian" || host.distribution == "ubuntu";
  if (target.packaging == Packaging::distribution && (facts.manager != PackageManager::apt || !known))
    return fail(ErrorCode::unsatisfied, "only Debian and Ubuntu have driver packages of their own that are known here",
                "--packaging cuda-repository");
  std::optional<Repository> added;
  if (target.packaging == Packaging::cuda_repository && facts.manager != PackageManager::none &&
      facts.cuda_repository != true) {
    GPUWARDEN_TRY(added, repository_for(host));
  }
  switch (facts.manager) {
    case PackageManager::apt:
      return apt_words(facts, request, target, added);
    case PackageManager::dnf:
      return dnf_words(facts, request, target, added);
    case PackageManager::zypper:
      return zypper_words(facts, request, target, added);
    case PackageManager::none:
      break;
  }
  return std::unexpected(no_packages(facts.snapshot));
}

}  // namespace gpuwarden::driver
