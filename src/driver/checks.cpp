// SPDX-License-Identifier: Apache-2.0
#include "driver/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "driver/words.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::driver {

using State = PreCheck::State;

namespace {

/// What is being looked at.
struct Question {
  const DriverFacts& facts;
  const facts::Environment& environment;
  const DriverRequest& request;
  const Recommendation& target;
};

struct Answer {
  State state = State::unknown;
  std::string found;
  std::string remedy;
};

Answer root(const Question& question) {
  const auto root = question.environment.host.root;
  if (!root) return {};
  return *root ? Answer{State::ok, "running as root", ""}
               : Answer{State::warning, "not root: a plan can be made, but not applied", "sudo gpuwarden driver apply"};
}

/// "Xorg" of "/usr/lib/xorg/Xorg :0 -core": the program alone, whatever its arguments and folders say.
std::string_view program_of(std::string_view command) {
  const auto words = split_words(command);
  return words.empty() ? std::string_view() : words[0].substr(words[0].rfind('/') + 1);
}

/// Who computes or draws on a GPU. Programs that the plan stops itself do not count.
Answer processes(const Question& question) {
  static constexpr auto kStopped = std::to_array<std::string_view>(
      {"nvidia-persistenced", "nv-fabricmanager", "nv-hostengine", "nvidia-imex", "dcgm-exporter", "nvidia-powerd", "X",
       "Xorg", "Xwayland", "gnome-shell", "kwin_x11", "kwin_wayland", "sddm", "sddm-helper", "gdm", "gdm3",
       "gdm-x-session", "gdm-wayland-session", "lightdm"});
  std::vector<std::string> found;
  bool known = question.facts.snapshot.gpus.empty();
  for (const auto& record : question.facts.snapshot.gpus) {
    if (record.processes_unreadable)
      return {State::unknown, fmt::format("the processes of GPU {} could not be read", record.gpu.index.value),
              "fuser -v /dev/nvidia*"};
    known = known || record.processes.has_value();
    for (const auto& process : record.processes.value_or(std::vector<facts::GpuProcess>{})) {
      const std::string command = process.command.value_or("?");
      if (std::ranges::find(kStopped, program_of(command)) != kStopped.end()) continue;
      const std::string text = printable(fmt::format("pid {} {}", process.pid.value, command.substr(0, 60)));
      if (std::ranges::find(found, text) == found.end()) found.push_back(text);
    }
  }
  if (!known) return {State::unknown, "the GPUs did not say who uses them", "fuser -v /dev/nvidia*"};
  if (found.empty()) return {State::ok, "no GPU is in use", ""};
  return {State::failed, "in use: " + join(found, "; "), "end these programs, or wait for them"};
}

Answer sessions(const Question& question) {
  if (question.facts.sessions.empty() && question.facts.on_paper)
    return {State::unknown, "the sessions of that machine were not looked at", "loginctl list-sessions"};
  if (question.facts.sessions.empty()) return {State::ok, "no graphical session is open", ""};
  return {State::failed, "graphical sessions would end: " + join(question.facts.sessions, ", "),
          "have them log out, or --force sessions"};
}

/// Sources: a driver with its libraries takes 1 to 1.5 GB installed and as much again as archives; an initramfs with
/// the modules 150 to 250 MB (sizes of Debian's and Ubuntu's packages of R535 to R580).
Answer space(const Question& question) {
  static constexpr auto kNeeds = std::to_array<std::pair<std::string_view, std::uint64_t>>(
      {{"/", std::uint64_t{3} << 30U}, {"/var", std::uint64_t{2} << 30U}, {"/boot", std::uint64_t{300} << 20U}});
  std::vector<std::string> found;
  for (const auto& [mount, need] : kNeeds) {
    const auto& systems = question.environment.host.file_systems;
    const auto at = std::ranges::find(systems, mount, &facts::FileSystem::mount);
    if (at == systems.end() || at->free.value >= need) continue;
    found.push_back(
        fmt::format("{} has {} free, {} are needed", mount, format_size(at->free), format_size(Bytes(need))));
  }
  if (question.environment.host.file_systems.empty()) return {};
  if (found.empty()) return {State::ok, "enough room on /, /var and /boot", ""};
  return {State::failed, join(found, "; "), "make room: apt-get clean, journalctl --vacuum-size=200M, old kernels"};
}

Answer headers(const Question& question) {
  const auto& host = question.environment.host;
  if (!host.kernel_headers) return {};
  const std::string kernel = host.kernel.value_or("the kernel");
  if (*host.kernel_headers) return {State::ok, fmt::format("headers of {} are there", kernel), ""};
  std::string remedy = fmt::format("apt-get install linux-headers-{}", kernel);
  if (question.facts.manager == PackageManager::dnf) remedy = fmt::format("dnf install kernel-devel-{}", kernel);
  if (question.facts.manager == PackageManager::zypper) remedy = "zypper install kernel-default-devel";
  return {State::failed, fmt::format("no headers of {}: the module cannot be built", kernel), remedy};
}

Answer compiler(const Question& question) {
  if (!question.environment.compilers.empty())
    return {State::ok, fmt::format("{} is there", question.environment.compilers.front().path), ""};
  // Package managers bring the compiler along with DKMS; the .run installer does not.
  if (question.target.packaging != Packaging::runfile) return {State::ok, "the packages bring a compiler along", ""};
  return {State::failed, "no C compiler: the module cannot be built", "install gcc and make"};
}

Answer secure_boot(const Question& question) {
  const auto on = question.environment.host.secure_boot;
  if (!on) return {State::unknown, "cannot tell whether Secure Boot is on", "mokutil --sb-state"};
  if (!*on) return {State::ok, "Secure Boot is off", ""};
  if (question.facts.machine_owner_key == true)
    return {State::ok, "Secure Boot is on, and DKMS's signing key is enrolled", ""};
  return {State::failed,
          "Secure Boot is on and no signing key of this machine is enrolled: the module would be rejected",
          "mokutil --import /var/lib/dkms/mok.pub (or /var/lib/shim-signed/mok/MOK.der), reboot, enroll it in the "
          "blue screen; or --force secure-boot"};
}

/// The fabric manager must be of the driver's own version (source: NVIDIA fabric manager user guide).
Answer fabric_manager(const Question& question) {
  const bool installed = facts::find_service(question.environment, "nvidia-fabricmanager") != nullptr;
  const bool on_switches = question.facts.nvswitch == true;
  if (!installed && !on_switches && question.facts.on_paper)
    return {State::unknown, "not known whether the machine has NVSwitches", "lspci -d 10de::0680"};
  if (!installed && !on_switches) return {State::ok, "not needed: no NVSwitch", ""};
  if (question.target.packaging == Packaging::runfile)
    return {State::failed, "the .run installer brings no fabric manager, and it must be of the driver's own version",
            "use packages: --packaging cuda-repository"};
  return {State::ok,
          on_switches ? "the GPUs sit on NVSwitches, and the fabric manager must change with the driver: the plan "
                        "installs the one of the driver's version"
                      : "the plan installs the one of the driver's version",
          ""};
}

/// Of a machine that was not looked at nobody can say that its packages are in order.
Answer packages_not_seen(const DriverFacts& facts, std::string_view apt) {
  return {State::unknown, "the packages of that machine were not looked at",
          facts.manager == PackageManager::apt ? std::string(apt) : ""};
}

Answer package_state(const Question& question) {
  std::vector<std::string> broken;
  for (const auto& package : question.facts.packages) {
    if (package.broken) broken.push_back(package.name);
  }
  if (broken.empty() && question.facts.on_paper) return packages_not_seen(question.facts, "dpkg --audit");
  if (broken.empty()) return {State::ok, "no package of the driver is half installed", ""};
  return {State::failed, "half installed: " + join(broken, ", "), "dpkg --configure -a && apt-get -f install"};
}

Answer held(const Question& question) {
  std::vector<std::string> names;
  for (const auto& package : question.facts.packages) {
    if (package.held) names.push_back(package.name);
  }
  if (names.empty() && question.facts.on_paper) return packages_not_seen(question.facts, "apt-mark showhold");
  if (names.empty()) return {State::ok, "no package of the driver is on hold", ""};
  return {State::warning, fmt::format("on hold: {}; the plan takes the hold off and sets it again", join(names, ", ")),
          ""};
}

struct Row {
  std::string_view id;
  std::string_view title;
  Answer (*ask)(const Question&);
  std::string_view command;
  bool can_be_forced;
};

/// The scripts of the last but one column fail where the answer is no; they look anew when the plan is applied.
constexpr auto kRows = std::to_array<Row>({
    {"root", "administrator", root, "[ \"$(id -u)\" = 0 ]", false},
    {"processes", "programs on the GPUs", processes, "", false},
    {"sessions", "graphical sessions", sessions, "", true},
    {"space", "free space", space,
     "for need in /:3145728 /var:2097152 /boot:307200; do\n"
     "  [ \"$(df -Pk \"${need%%:*}\" | awk 'NR == 2 { print $4 }')\" -ge \"${need#*:}\" ] || exit 1\ndone",
     true},
    {"headers", "kernel headers", headers, "[ -e \"/lib/modules/$(uname -r)/build\" ]", true},
    {"compiler", "compiler", compiler, "", true},
    {"secure-boot", "Secure Boot", secure_boot, "", true},
    {"fabric-manager", "fabric manager", fabric_manager, "", true},
    {"package-state", "state of the packages", package_state, "", true},
    {"holds", "packages on hold", held, "", true},
});

PreCheck answered(const Row& row, const Question& question) {
  Answer answer = row.ask(question);
  return {.id = std::string(row.id),
          .title = std::string(row.title),
          .state = answer.state,
          .found = std::move(answer.found),
          .remedy = std::move(answer.remedy),
          .command = std::string(row.command),
          .can_be_forced = row.can_be_forced};
}

}  // namespace

std::vector<PreCheck> pre_checks(const DriverFacts& facts, const DriverRequest& request, const Recommendation& target) {
  const Question question{facts, environment_of(facts), request, target};
  std::vector<PreCheck> checks;
  for (const Row& row : kRows) checks.push_back(answered(row, question));
  return checks;
}

std::vector<PreCheck> way_back_checks(const DriverFacts& facts) {
  const DriverRequest request;
  const Recommendation target;
  const Question question{facts, environment_of(facts), request, target};
  std::vector<PreCheck> checks;
  for (const Row& row : kRows) {
    if (row.id == "processes" || row.id == "sessions") checks.push_back(answered(row, question));
  }
  return checks;
}

bool is_forced(const PreCheck& check, const DriverRequest& request) {
  return check.can_be_forced && std::ranges::find(request.forced, check.id) != request.forced.end();
}

std::vector<const PreCheck*> refusals(const std::vector<PreCheck>& checks, const DriverRequest& request) {
  std::vector<const PreCheck*> result;
  for (const PreCheck& check : checks) {
    if (check.state == State::failed && !is_forced(check, request)) result.push_back(&check);
  }
  return result;
}

Result<void> check_forced(const std::vector<PreCheck>& checks, const DriverRequest& request,
                          std::vector<std::string> names) {
  for (const PreCheck& check : checks) {
    if (check.can_be_forced) names.push_back(check.id);
  }
  for (const std::string& name : request.forced) {
    if (std::ranges::find(names, name) == names.end())
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' cannot be forced", printable(name)),
                  "one of: " + join(names, ", "));
  }
  return {};
}

}  // namespace gpuwarden::driver
