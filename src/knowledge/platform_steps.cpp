// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/platform_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "gpuwarden/base/text.hpp"
#include "knowledge/shell_steps.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr std::string_view kSame = "=";         ///< the step as it stands
constexpr std::string_view kNone;               ///< nothing of the kind
constexpr std::string_view kDriver = "driver";  ///< stands for driver_step()
constexpr std::string_view kAdmin = "admin";    ///< stands for as_administrator()
constexpr std::string_view kEvents = "read what the driver reported in Windows' Event Viewer: System, source nvlddmkm";
constexpr std::string_view kModulesOfWsl =
    "wsl --shutdown   # in PowerShell, then start WSL again: the driver and its modules are Windows'";
constexpr std::string_view kResetByRestart = "restart Windows: it resets the GPU";
constexpr std::string_view kSmi = "nvidia-smi   # does it show the GPU?";

/// What a Mac has to do with a kind of step.
enum class Mac {
  has,        ///< it can be done there
  has_not,    ///< it cannot
  wants_gpu,  ///< it cannot, as it is about NVIDIA's GPUs: what there is in place of CUDA is said
  own,        ///< it is made for it
};

/// What a step is about, and what is done instead where a platform has that otherwise.
struct StepKind {
  std::string_view name;
  std::string_view wsl;
  std::string_view windows;
  Mac mac;
};

constexpr auto kKinds = std::to_array<StepKind>({
    {"nvidia", kSame, kSame, Mac::wants_gpu},            // needs an NVIDIA GPU, its driver or CUDA
    {"no_mac", kSame, kSame, Mac::has_not},              // a cluster, a second GPU, Windows' own tools
    {"unix", kSame, kNone, Mac::has},                    // shells and tools of Linux and macOS
    {"linux", kSame, kNone, Mac::has_not},               // Linux's own, which WSL has, too
    {"linux_nvidia", kSame, kNone, Mac::wants_gpu},      // both: NCCL, MPS, container runtimes
    {"own_system", kNone, kNone, Mac::has_not},          // Linux on the bare machine: its suspend, its services
    {"own_driver", kNone, kNone, Mac::wants_gpu},        // services and states of Linux's own driver
    {"driver", kDriver, kDriver, Mac::wants_gpu},        // install, update, repair Linux's driver
    {"driver_removal", kSame, kDriver, Mac::wants_gpu},  // inside WSL it hides Windows' own
    {"modules", kModulesOfWsl, "restart Windows", Mac::wants_gpu},  // load, build, set options of kernel modules
    {"load_driver", kModulesOfWsl,
     "Device Manager, Display adapters: is NVIDIA's GPU there, and without a mark of an error?", Mac::wants_gpu},
    {"bus", "nvidia-smi.exe -L   # in PowerShell: does Windows see the GPU?",
     "nvidia-smi -L   # and Device Manager: does Windows see the GPU?", Mac::wants_gpu},
    {"device_files", "ls -l /dev/dxg   # the GPU's file in WSL", kNone, Mac::wants_gpu},
    {"reset", kResetByRestart, kResetByRestart, Mac::wants_gpu},
    {"grant", kSmi, kSmi, Mac::wants_gpu},             // what a cluster or container was given
    {"driver_log", kEvents, kEvents, Mac::wants_gpu},  // the driver's lines in the kernel's log
    {"log", kEvents, kEvents, Mac::has_not},           // these, and others
    {"admin", kAdmin, kAdmin, Mac::wants_gpu},         // "sudo nvidia-smi ..."
    {"reboot", "wsl --shutdown   # in PowerShell; where that does not help restart Windows", "restart Windows",
     Mac::has_not},
    {"mac", kSame, kSame, Mac::own},
    {"unsaid", kNone, kNone, Mac::has_not},  // only where the platform is not known to be another
});

const StepKind* kind_named(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &StepKind::name);
  return found == kKinds.end() ? nullptr : &*found;
}

/// A command without the remark behind it.
std::string_view without_remark(std::string_view command) { return command.substr(0, command.find("   #")); }

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Takes "NAME=VALUE " off the front; none where the value is Linux's own (paths, other variables).
std::optional<std::string> take_setting(std::string_view& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || !std::ranges::all_of(text.substr(0, equals), is_name))
    return std::nullopt;
  const std::string_view name = text.substr(0, equals);
  text.remove_prefix(equals + 1);
  const char quote = text.starts_with('"') || text.starts_with('\'') ? text.front() : ' ';
  if (quote != ' ') text.remove_prefix(1);
  const std::size_t end = std::min(text.find(quote), text.size());
  if (quote != ' ' && end == text.size()) return std::nullopt;
  const std::string_view value = text.substr(0, end);
  if (value.find_first_of("$/'") != std::string_view::npos) return std::nullopt;
  text = trim(text.substr(std::min(end + 1, text.size())));
  return fmt::format("$env:{}='{}'", name, value);
}

/// What sets or takes away variables there: of "export NAME=VALUE OTHER="VALUE"   # why" and "unset NAME".
std::optional<std::string> in_powershell(std::string_view step) {
  constexpr std::string_view kExport = "export ";
  constexpr std::string_view kUnset = "unset ";
  if (step.starts_with(kUnset) && std::ranges::all_of(step.substr(kUnset.size()), is_name))
    return fmt::format("Remove-Item Env:{}", step.substr(kUnset.size()));
  if (!step.starts_with(kExport)) return std::nullopt;
  std::string result;
  for (step = trim(step.substr(kExport.size())); !step.empty() && !step.starts_with('#');) {
    const auto setting = take_setting(step);
    if (!setting) return std::nullopt;
    result += (result.empty() ? "" : "; ") + *setting;
  }
  if (result.empty()) return std::nullopt;
  return result + (step.empty() ? "" : "   ") + std::string(step);
}

/// The report for NVIDIA is a script of Linux's driver; what it is asked for first is to be had everywhere.
std::string with_report(std::string step) {
  for (const std::string_view script : {"sudo nvidia-bug-report.sh", "nvidia-bug-report.sh"}) {
    if (const std::size_t at = step.find(script); at != std::string::npos)
      step.replace(at, script.size(), "nvidia-smi -q");
  }
  return step;
}

std::string as_administrator(const std::string& step) {
  constexpr std::string_view kSudo = "sudo nvidia-smi ";
  const std::size_t at = step.find(kSudo);
  if (at == std::string::npos) return step;
  return fmt::format("{}nvidia-smi {}   # on Windows, as its administrator", step.substr(0, at),
                     step.substr(at + kSudo.size()));
}

/// A step, split: what it is about, and what is said.
struct Step {
  const StepKind* kind = nullptr;  ///< nullptr: what everybody can do, or a command that its words judge
  std::string text;
  bool judged_by_words = false;  ///< a command of which no kind is said
  std::string_view command() const { return judged_by_words ? without_remark(text) : ""; }
};

Step step_of(const std::string& written) {
  const MarkedStep marked = marked_step(written);
  Step step{kind_named(marked.kind), with_report(std::string(marked.text))};
  if (step.kind != nullptr || !begins_with_program(step.text)) return step;
  step.judged_by_words = true;
  step.kind = kind_named(kind_of_command(step.command()));
  return step;
}

std::string on_mac(const Step& step) {
  const std::string_view command = step.command();
  const bool kept = command.empty() ? step.kind == nullptr || step.kind->mac == Mac::has || step.kind->mac == Mac::own
                                    : !is_of_nvidia(command) && !is_of_linux(command);
  return kept ? step.text : "";
}

/// A step as the platform has it; empty: nothing.
std::string step_on(Platform platform, const Step& step) {
  if (platform == Platform::linux_own) return step.text;
  if (platform == Platform::macos) return on_mac(step);
  if (step.kind != nullptr) {
    const std::string_view instead = platform == Platform::wsl ? step.kind->wsl : step.kind->windows;
    if (instead == kDriver) return driver_step(platform);
    if (instead == kAdmin) return as_administrator(step.text);
    return instead == kSame ? step.text : std::string(instead);
  }
  const std::string_view command = step.command();
  if (platform == Platform::wsl || command.empty()) return step.text;
  if (auto set = in_powershell(step.text)) return std::move(*set);
  return is_of_linux(command) || runs_word_of_linux(command) ? "" : step.text;
}

bool wants_gpu(const Step& step) {
  const std::string_view command = step.command();
  return command.empty() ? step.kind != nullptr && step.kind->mac == Mac::wants_gpu : is_of_nvidia(command);
}

bool tells_of_mac(const Step& step) {
  return (step.kind != nullptr && step.kind->mac == Mac::own) || is_of_mac(step.command()) ||
         step.text == steps_without_cuda().front();
}

}  // namespace

MarkedStep marked_step(std::string_view written) {
  constexpr std::string_view kHead = "[@";
  const std::size_t close = written.find("] ");
  if (!written.starts_with(kHead) || close == std::string_view::npos) return {"", written};
  return {written.substr(kHead.size(), close - kHead.size()), written.substr(close + 2)};
}

std::string with_kind(std::string_view kind, std::string_view text) {
  return kind.empty() ? std::string(text) : fmt::format("[@{}] {}", kind, text);
}

std::string_view kind_of_packages(std::string_view names) {
  const std::string_view kind = kind_of_command(names);
  return kind.empty() && is_of_nvidia(names) ? "nvidia" : kind;
}

bool is_step_kind(std::string_view name) { return kind_named(name) != nullptr; }

std::string driver_step(Platform platform, int branch) {
  const std::string which = branch > 0 ? fmt::format(" to branch {}", branch) : "";
  if (platform == Platform::macos) return steps_without_cuda().front();
  return platform == Platform::wsl ? fmt::format(
                                         "update NVIDIA's driver on Windows{}, and install none inside WSL: "
                                         "https://www.nvidia.com/drivers",
                                         which)
                                   : fmt::format("update NVIDIA's driver{}: https://www.nvidia.com/drivers", which);
}

// source: PyTorch documentation, MPS backend
std::vector<std::string> steps_without_cuda() {
  return {
      "macOS has no CUDA and no NVIDIA driver: in PyTorch use the device 'mps' (Apple's GPU) or 'cpu' in place of "
      "'cuda'",
      "python -c 'import torch; print(torch.backends.mps.is_available())'   # unless True, update macOS and PyTorch",
      "what only runs with CUDA (bitsandbytes, flash-attn, vLLM's GPU build) needs a Linux machine with an NVIDIA GPU"};
}

std::vector<std::string> tests_on(Platform platform, const std::vector<std::string>& steps) {
  std::vector<std::string> result;
  for (const std::string& written : steps) {
    std::string there =
        platform == Platform::linux_own ? std::string(marked_step(written).text) : step_on(platform, step_of(written));
    if (!there.empty() && std::ranges::find(result, there) == result.end()) result.push_back(std::move(there));
  }
  return result;
}

std::vector<std::string> steps_on(Platform platform, const std::vector<std::string>& steps) {
  std::vector<std::string> result = tests_on(platform, steps);
  if (platform != Platform::macos) return result;
  const auto any = [&](bool (*is_so)(const Step&)) {
    return std::ranges::any_of(steps, [&](const std::string& written) { return is_so(step_of(written)); });
  };
  if (any(tells_of_mac) || !any(wants_gpu)) return result;
  const auto instead = steps_without_cuda();
  result.insert(result.begin(), instead.begin(), instead.end());
  return result;
}

}  // namespace gpuwarden::knowledge
