// SPDX-License-Identifier: Apache-2.0
// The steps from the driver that is there to the one that shall be.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "driver/checks.hpp"
#include "driver/packagings.hpp"
#include "driver/shell.hpp"
#include "driver/words.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

namespace {

/// What the steps are made from.
struct PlanInputs {
  const DriverFacts& facts;
  const DriverRequest& request;
  const Recommendation& target;
  const InstallWords& words;
};

/// Services that hold a GPU, in the order in which they stop.
constexpr auto kServices = std::to_array<std::string_view>(
    {"nvidia-dcgm", "dcgm-exporter", "nvidia-imex", "nvidia-fabricmanager", "nvidia-powerd", "nvidia-persistenced"});

constexpr std::string_view kNouveauFile = "/etc/modprobe.d/gpuwarden-no-nouveau.conf";

const facts::KernelDriver& driver_of(const PlanInputs& inputs) { return environment_of(inputs.facts).driver; }

bool is_loaded(const PlanInputs& inputs, std::string_view module) {
  const auto& loaded = driver_of(inputs).loaded_modules;
  return std::ranges::find(loaded, module) != loaded.end();
}

/// nouveau cannot be unloaded while it draws the console.
bool needs_reboot(const PlanInputs& inputs) { return inputs.request.through_reboot || is_loaded(inputs, "nouveau"); }

bool has_runfile(const PlanInputs& inputs) { return inputs.facts.packaging == Packaging::runfile; }

/// Whether the present driver must go first: apt and dnf upgrade one packaging of one flavour by themselves.
bool needs_removal(const PlanInputs& inputs) {
  if (has_runfile(inputs)) return true;
  if (inputs.facts.packages.empty()) return false;
  if (inputs.facts.packaging != inputs.target.packaging) return true;
  const auto flavour = driver_of(inputs).flavour;
  if (flavour && *flavour != inputs.target.flavour) return true;
  // Packages with the branch in their names do not replace one another.
  return std::ranges::any_of(inputs.words.packages, [&](const std::string& name) {
    const bool present =
        std::ranges::find(inputs.facts.packages, name, &InstalledPackage::name) != inputs.facts.packages.end();
    return !present && !name.contains("pinning") &&
           std::ranges::any_of(split(name, '-'), [](std::string_view part) { return parse_integer(part).has_value(); });
  });
}

std::string for_services(std::string_view function) {
  std::string text;
  for (const auto service : kServices) text += fmt::format("{} {}\n", function, service);
  return text;
}

std::string for_services_backwards(std::string_view function) {
  std::string text;
  for (std::size_t i = kServices.size(); i-- > 0;) text += fmt::format("{} {}\n", function, kServices[i]);
  return text;
}

/// Every way back that touches packages ends in the recorded state, whichever step it starts from.
std::string restore(const PlanInputs& inputs) {
  std::string text;
  if (inputs.target.packaging == Packaging::runfile) text += "uninstall_runfile\n";
  if (inputs.facts.manager != PackageManager::none) text += "restore_packages\n";
  if (has_runfile(inputs)) text += "restore_runfile\n";
  return text + "restore_configuration\nrestore_dkms\n";
}

void prepare(const PlanInputs& inputs, std::vector<Step>& steps) {
  steps.push_back({.id = "record",
                   .title = "record packages, holds, configuration, services and modules",
                   .commands = "record\n",
                   .check = "[ -e \"$B/complete\" ]\n"});
  if (!inputs.words.repository.empty())
    steps.push_back({.id = "repository",
                     .title = "add NVIDIA's package repository",
                     .commands = inputs.words.repository,
                     .undo = inputs.words.repository_undo + "restore_configuration\n"});
  // apt cannot plan a change of what is held.
  const bool held = std::ranges::any_of(inputs.facts.packages, &InstalledPackage::held);
  if (held && inputs.facts.manager == PackageManager::apt)
    steps.push_back({.id = "unhold",
                     .title = "take the hold off the driver's packages",
                     .commands = "unhold\n",
                     .undo = "restore_marks\n"});
  steps.push_back({.id = "fetch",
                   .title = "download the new driver; nothing is installed yet",
                   .commands = inputs.words.fetch,
                   .undo = inputs.words.fetch_undo + "restore_configuration\n"});
  std::string save;
  if (inputs.facts.manager != PackageManager::none) save += "save_packages\n";
  if (inputs.facts.manager == PackageManager::apt) save += "save_conffiles save\n";
  if (has_runfile(inputs)) save += "save_runfile\n";
  const auto& forced = inputs.request.forced;
  if (std::ranges::find(forced, "way-back") != forced.end()) save = "NO_WAY_BACK=1\n" + save;
  steps.push_back({.id = "save", .title = "keep the present driver's packages for the way back", .commands = save});
}

void stop(const PlanInputs& inputs, std::vector<Step>& steps) {
  if (inputs.facts.display_manager != "")
    steps.push_back({.id = "stop-display",
                     .title = fmt::format("stop the display manager{}",
                                          inputs.facts.display_manager ? " " + *inputs.facts.display_manager : ""),
                     .commands = "stop display-manager\n",
                     .check = "! active display-manager\n",
                     .undo = "start_again display-manager\n"});
  steps.push_back({.id = "stop-services",
                   .title = "stop the services that hold GPUs",
                   .commands = for_services("stop"),
                   .undo = for_services_backwards("start_again")});
  steps.push_back({.id = "idle",
                   .title = "make sure that no program has a GPU open",
                   .commands = "list=$(holders)\n[ -z \"$list\" ] || die \"GPUs are in use by pid \"$list\n"});
  if (!needs_reboot(inputs))
    steps.push_back({.id = "unload",
                     .title = "unload the kernel modules",
                     .commands = "unload\n",
                     .check = "! loaded nvidia\n",
                     .undo = "restore_modules\n"});
}

void exchange(const PlanInputs& inputs, std::vector<Step>& steps) {
  if (needs_removal(inputs)) {
    std::string commands;
    if (has_runfile(inputs)) commands += "uninstall_runfile\n";
    if (!inputs.facts.packages.empty()) commands += "remove_driver\n";
    steps.push_back(
        {.id = "remove",
         .title = inputs.facts.packaging == inputs.target.packaging
                      ? "remove the present driver"
                      : fmt::format("remove the present driver ({})",
                                    inputs.facts.packaging ? words_of(*inputs.facts.packaging) : "unknown origin"),
         .commands = commands,
         .undo = restore(inputs)});
  }
  steps.push_back({.id = "install",
                   .title = fmt::format("install R{}, {}, from {}", inputs.target.branch,
                                        words_of(inputs.target.flavour), words_of(inputs.target.packaging)),
                   .commands = inputs.words.install,
                   .check = inputs.words.check,
                   .undo = restore(inputs)});
  if (needs_removal(inputs) && inputs.facts.manager == PackageManager::apt)
    steps.push_back({.id = "dependents",
                     .title = "bring back the programs that left with the old driver",
                     .commands = "bring_back\n"});
  if (is_loaded(inputs, "nouveau"))
    steps.push_back({.id = "nouveau",
                     .title = "keep nouveau from loading",
                     .commands = fmt::format("printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' >{}\n"
                                             "rebuild_initramfs\n",
                                             kNouveauFile),
                     .check = fmt::format("[ -s {} ]\n", kNouveauFile),
                     .undo = fmt::format("rm -f {}\nrebuild_initramfs\n", kNouveauFile)});
  steps.push_back(
      {.id = "dkms",
       .title = "make sure that DKMS has built the module for this kernel",
       .commands = "kernel=$(uname -r)\n"
                   "if has dkms && [ -n \"$(dkms status 2>/dev/null)\" ] && [ -d \"/lib/modules/$kernel\" ]; then\n"
                   "  dkms_entries | grep -q \" $kernel$\" || dkms autoinstall -k \"$kernel\"\n"
                   "  dkms_entries | grep -q \" $kernel$\" || die \"DKMS could not build the module for $kernel: see "
                   "/var/lib/dkms/nvidia*/*/build/make.log\"\nfi\n",
       .undo = "restore_dkms\n"});
  const bool held = std::ranges::any_of(inputs.facts.packages, &InstalledPackage::held);
  if (held && inputs.facts.manager == PackageManager::apt) {
    std::string names;
    for (const auto& name : inputs.words.packages) names += " " + shell_quoted(name);
    steps.push_back(
        {.id = "hold",
         .title = "put the new packages on hold, as the old ones were",
         .commands = fmt::format("apt-mark hold{}\n", names),
         .undo = fmt::format("for name in{}; do [ -z \"$(present \"$name\")\" ] || apt-mark unhold \"$name\"; done\n",
                             names)});
  }
}

void start(const PlanInputs& inputs, std::vector<Step>& steps) {
  const bool reboot = needs_reboot(inputs);
  if (reboot) {
    steps.push_back({.id = "reboot",
                     .title = "reboot, so that the new module is loaded",
                     .commands = "rebuild_initramfs\n",
                     .undo = for_services("stop") +
                             "( unload ) || say 'the modules stay loaded: reboot when the way back is done'\n",
                     .reboot = true});
  } else {
    // An image without /proc has no kernel of its own: there is nothing to load.
    steps.push_back({.id = "load",
                     .title = "load the new kernel modules",
                     .commands =
                         "if [ -r /proc/modules ]; then\n"
                         "  for module in nvidia nvidia_uvm $(cat \"$B/modules\"); do\n"
                         "    loaded \"$module\" || modprobe \"$module\" || die \"the module $module does not load: "
                         "dmesg | grep -i nvrm says why\"\n  done\nfi\n",
                     .undo = "unload\n"});
  }
  // A fabric manager that was not there before is not enabled by its package.
  const bool fabric = inputs.facts.nvswitch == true &&
                      facts::find_service(environment_of(inputs.facts), "nvidia-fabricmanager") == nullptr;
  const std::string_view enable = fabric ? "! has systemctl || systemctl enable --now nvidia-fabricmanager\n" : "";
  const std::string_view disable = fabric ? "! has systemctl || systemctl disable --now nvidia-fabricmanager\n" : "";
  steps.push_back({.id = "start-services",
                   .title = "start the services again",
                   .commands = fmt::format("{}{}", enable, for_services_backwards("start_again")),
                   .undo = fmt::format("{}{}", for_services("stop"), disable)});
  if (inputs.facts.display_manager != "")
    steps.push_back({.id = "start-display",
                     .title = "start the display manager again",
                     .commands = "start_again display-manager\n",
                     .undo = "stop display-manager\n"});
  const std::string wanted =
      inputs.request.version.empty() ? fmt::format("{}.*", inputs.target.branch) : inputs.request.version;
  steps.push_back({.id = "verify",
                   .title = "verify that the new driver serves",
                   .commands = fmt::format(
                       "if [ -r /proc/modules ]; then\n"
                       "  version=$(grep -o '[0-9][0-9][0-9]\\.[0-9.]*[0-9]' /proc/driver/nvidia/version | head -n 1)\n"
                       "  case $version in\n    {}) say \"driver $version is loaded\" ;;\n"
                       "    *) die \"driver '$version' is loaded, {} was expected\" ;;\n  esac\n"
                       "  ! has nvidia-smi || nvidia-smi -L\nfi\n",
                       wanted, wanted)});
}

std::string prelude_of(const DriverFacts& facts) {
  std::string text(kCommonShell);
  text += fmt::format(
      "driver_packages() {{\n  while read -r line; do\n    case ${{line%%:*}} in\n      {}) ;;\n      {}) say "
      "\"$line\" ;;\n"
      "    esac\n  done\n}}\n",
      kNotDriverPackages, kDriverPackages);
  switch (facts.manager) {
    case PackageManager::apt:
      return text + std::string(kAptShell);
    case PackageManager::dnf:
      return text + std::string(kRpmShell) + std::string(kDnfShell);
    case PackageManager::zypper:
      return text + std::string(kRpmShell) + std::string(kZypperShell);
    case PackageManager::none:
      break;
  }
  return text +
         "packaged_configuration() { :; }\nrecord() {\n  [ ! -e \"$B/complete\" ] || return 0\n  rm -rf \"$B/part\"; "
         "mkdir -p \"$B/part\"\n"
         "  record_common \"$B/part\"\n  mv \"$B\"/part/* \"$B/\"; rmdir \"$B/part\"; sync; : >\"$B/complete\"\n}\n";
}

std::vector<std::string> notes_of(const PlanInputs& inputs) {
  std::vector<std::string> notes = inputs.target.warnings;
  if (!environment_of(inputs.facts).containers.engines.empty())
    notes.emplace_back(
        "containers that run keep the old libraries: restart those that use GPUs (their names are in the records)");
  if (needs_reboot(inputs)) notes.emplace_back("after the reboot: gpuwarden driver apply --resume");
  if (environment_of(inputs.facts).host.secure_boot == true)
    notes.emplace_back("Secure Boot is on: DKMS signs the module with this machine's key, which must be enrolled");
  return notes;
}

std::string from_words(const DriverFacts& facts) {
  const auto version = present_version(facts);
  if (!version) return "";
  return facts.packaging ? fmt::format("{} ({})", *version, words_of(*facts.packaging)) : *version;
}

Result<void> can_have_driver(const DriverFacts& facts) {
  const auto& environment = environment_of(facts);
  if (environment.containers.inside && !environment.containers.inside->empty())
    return fail(ErrorCode::unsatisfied,
                fmt::format("this is a container ({}): the driver is the host's", *environment.containers.inside),
                "run this on the host");
  if (environment.host.wsl.value_or(0) != 0)
    return fail(ErrorCode::unsatisfied, "this is WSL: the driver is Windows'",
                "install NVIDIA's driver in Windows; never a Linux driver here");
  return {};
}

}  // namespace

Result<Plan> plan_driver(const DriverFacts& facts, const DriverRequest& request, const knowledge::Knowledge& knowledge,
                         std::chrono::system_clock::time_point now, const std::string& id) {
  GPUWARDEN_CHECK(can_have_driver(facts));
  Plan plan;
  plan.id = id;
  GPUWARDEN_TRY(plan.target, recommend_driver(facts, request, knowledge, now));
  GPUWARDEN_TRY(const InstallWords words, install_words(facts, request, plan.target));
  const PlanInputs inputs{facts, request, plan.target, words};
  plan.from = from_words(facts);
  plan.to =
      fmt::format("{}, {}, {}", request.version.empty() ? fmt::format("R{}", plan.target.branch) : request.version,
                  words_of(plan.target.flavour), words_of(plan.target.packaging));
  plan.prelude = prelude_of(facts);
  plan.checks = pre_checks(facts, request, plan.target);
  prepare(inputs, plan.steps);
  stop(inputs, plan.steps);
  exchange(inputs, plan.steps);
  start(inputs, plan.steps);
  plan.notes = notes_of(inputs);
  return plan;
}

}  // namespace gpuwarden::driver
