// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/platform_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::knowledge {
namespace {

/// What a step speaks of that Windows' driver has otherwise.
struct Counterpart {
  std::string_view words;    ///< between bars: one of them (has_word) makes a step such a one
  std::string_view wsl;      ///< what is done instead; empty: nothing
  std::string_view windows;  ///< the same there
};

constexpr std::string_view kDriver = "driver";  ///< stands for driver_step()
constexpr std::string_view kEvents = "read what the driver reported in Windows' Event Viewer: System, source nvlddmkm";

/// In the order in which they are looked for.
constexpr auto kCounterparts = std::to_array<Counterpart>({
    {"nvidia-persistenced|nvidia-fabricmanager|nvidia-imex|nvidia-gridd|nvidia-dcgm|nvidia-suspend|systemctl suspend|"
     "sleep.target|systemd-suspend|mokutil",
     "", ""},
    {"nvidia-driver|nvidia-drivers|ubuntu-drivers|nvidia-open|cuda-drivers|nvidia-dkms|nvidia-utils|kmod-nvidia|akmods|"
     "'nvidia-|gpuwarden driver|driver of branch",
     kDriver, kDriver},
    {"lsmod|modinfo|dkms status|/proc/driver/nvidia", "", ""},
    {"modprobe|modprobe.d|rmmod|insmod|dkms|DKMS|initramfs|update-initramfs|dracut|mkinitcpio|"
     "linux-headers|kernel-devel|kernel-default-devel|kernel headers|headers of|kernel command line|nouveau|"
     "nvidia-modprobe|nvidia_uvm|/var/lib/dkms|create-dev-char-symlinks",
     "wsl --shutdown   # in PowerShell, then start WSL again: the driver and its modules are Windows'",
     "restart Windows"},
    {"lspci|/proc/iomem|/sys/bus/pci", "nvidia-smi.exe -L   # in PowerShell: does Windows see the GPU?",
     "nvidia-smi -L   # and Device Manager: does Windows see the GPU?"},
    {"/dev/nvidia*", "ls -l /dev/dxg   # the GPU's file in WSL", ""},
    {"--gpu-reset|nvidia-smi -r", "restart Windows: it resets the GPU", "restart Windows: it resets the GPU"},
    {"Slurm: --gres=gpu:1", "nvidia-smi   # does it show the GPU?", "nvidia-smi   # does it show the GPU?"},
    {"kernel module|kernel modules|kernel was updated|/lib/modules", kDriver, kDriver},
    {"sudo reboot", "wsl --shutdown   # in PowerShell; where that does not help restart Windows", "restart Windows"},
});

/// What Windows has not, wherever a step speaks of it.
constexpr std::string_view kOfLinux =
    "sudo|apt-get|apt-key|dnf|yum|zypper|pacman|systemctl|journalctl|dmesg|ldconfig|ldd|chmod|usermod|sysctl|ulimit|"
    "lsb_release|uname|fuser|lsof|cuda-keyring|LD_LIBRARY_PATH|LD_PRELOAD|/usr|/etc|/dev|/sys|/proc|/var";
/// The same of what is a word of a sentence, too: where a command begins.
constexpr std::string_view kCommands = "apt|grep|ls|cat|mount|umount|export|unset";

bool is_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The word, and no part of another one; what goes on with a dash ("nvidia-driver-580") is that word. "word*": whatever
/// begins so.
bool has_word(std::string_view text, std::string_view word) {
  const bool is_start = word.ends_with('*');
  if (is_start) word.remove_suffix(1);
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || (!is_part(text[at - 1]) && text[at - 1] != '-');
    const std::size_t end = at + word.size();
    if (begins && (is_start || end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

bool has_one_of(std::string_view text, std::string_view words) {
  return std::ranges::any_of(split(words, '|'), [&](std::string_view word) { return has_word(text, word); });
}

/// "mount the driver", "export NAME with the other": sentences; a command has options, paths or values there.
bool is_prose(std::string_view command, std::string_view rest) {
  const std::string_view next = rest.substr(0, rest.find(' '));
  if (command == "export") return !next.contains('=');
  if (command != "unset" && !command.ends_with("mount")) return false;
  return !next.empty() && std::ranges::all_of(next, [](char c) { return c >= 'a' && c <= 'z'; });
}

/// Whether one of kCommands is run: at the start, and after what separates commands or ends the words before them.
bool runs_command_of_linux(std::string_view step) {
  const auto commands = split(kCommands, '|');
  for (std::size_t start = 0; start <= step.size();) {
    const std::size_t end = std::min(step.find_first_of(";&|(:", start), step.size());
    const std::string_view part = trim(step.substr(start, end - start));
    const std::size_t space = std::min(part.find(' '), part.size());
    const std::string_view command = part.substr(0, space);
    const bool is_known = std::ranges::find(commands, command) != commands.end();
    if (is_known && !is_prose(command, trim(part.substr(space)))) return true;
    start = end + 1;
  }
  return false;
}

/// Windows' driver writes to the system's events; what else a kernel's log tells (the OOM killer) is not there.
bool is_log_of_driver(std::string_view step) {
  if (!has_one_of(step, "dmesg|journalctl -k|journalctl -b")) return false;
  const auto names = [&](std::string_view word) { return contains_ignoring_case(step, word); };
  return names("xid") || names("nvrm") || names("nvidia") || names("gpu") || (!names("grep") && !names("oom"));
}

/// What a Mac has not, besides: NVIDIA's driver, CUDA and what is built for it, a second GPU, a cluster.
constexpr std::string_view kOfNvidia =
    "cuda*|and-cuda|cuDNN|cudnn|cu11*|cu12*|cu13*|nvcc|nvrm|NVRM|NCCL*|nccl*|cuobjdump|driver|driver's|lspci|"
    "HSA_OVERRIDE_GFX_VERSION|ROCm|more GPUs|--gpus|Slurm|MIG|GPU build|compat torch|doctor --for|Visual Studio|"
    "devel image";

bool is_of_nvidia(std::string_view step) {
  // "map it to the CPU, do not move it to 'cuda'" can be done everywhere.
  if (step.contains("'cpu'") || step.contains("'cuda'") || step.contains("'gloo'")) return false;
  return contains_ignoring_case(step, "nvidia") || step.contains("CUDA") || has_one_of(step, kOfNvidia);
}

/// Takes "NAME=VALUE " off the front; none where the value is Linux's own (paths, other variables).
std::optional<std::string> take_setting(std::string_view& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || !std::ranges::all_of(text.substr(0, equals), is_part))
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
  if (step.starts_with(kUnset) && std::ranges::all_of(step.substr(kUnset.size()), is_part))
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

/// A Linux driver inside WSL hides Windows' own: taking it away helps there.
bool removes_only(std::string_view step) { return has_one_of(step, "remove|purge") && !step.contains("install"); }

/// The report for NVIDIA is a script of Linux's driver; what it is asked for first is to be had everywhere.
std::string with_report(std::string step) {
  for (const std::string_view script : {"sudo nvidia-bug-report.sh", "nvidia-bug-report.sh"}) {
    if (const std::size_t at = step.find(script); at != std::string::npos)
      step.replace(at, script.size(), "nvidia-smi -q");
  }
  return step;
}

std::string on_mac(const std::string& step) {
  const auto instead = steps_without_cuda();
  if (std::ranges::find(instead, step) != instead.end()) return step;
  return is_of_nvidia(step) || has_one_of(step, kOfLinux) || has_word(step, "Linux") ? "" : step;
}

/// A step as the platform has it; empty: nothing.
std::string step_on(Platform platform, const std::string& step) {
  constexpr std::string_view kSmi = "sudo nvidia-smi ";
  if (platform == Platform::windows && step == "sudo modprobe nvidia")
    return "Device Manager, Display adapters: is NVIDIA's GPU there, and without a mark of an error?";
  const bool of_nccl = has_one_of(step, "NCCL*|nccl*|libnccl2|dcgmi") && !step.contains("gloo");
  if (platform == Platform::windows && of_nccl) return "";  // there are neither
  const bool of_linux = platform != Platform::wsl && step.starts_with("On Linux");
  if (step.starts_with("On a Mac ") || of_linux) return "";
  if (platform == Platform::macos) return on_mac(step);
  for (const Counterpart& one : kCounterparts) {
    if (!has_one_of(step, one.words)) continue;
    const std::string_view instead = platform == Platform::wsl ? one.wsl : one.windows;
    if (instead == kDriver && platform == Platform::wsl && removes_only(step)) return step;
    return instead == kDriver ? driver_step(platform) : std::string(instead);
  }
  if (is_log_of_driver(step)) return std::string(kEvents);
  if (const std::size_t at = step.find(kSmi); at != std::string::npos)
    return fmt::format("{}nvidia-smi {}   # on Windows, as its administrator", step.substr(0, at),
                       step.substr(at + kSmi.size()));
  if (platform == Platform::wsl) return step;
  if (auto set = in_powershell(step)) return std::move(*set);
  return has_one_of(step, kOfLinux) || runs_command_of_linux(step) ? "" : step;
}

}  // namespace

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
  if (platform == Platform::linux_own) return steps;
  std::vector<std::string> result;
  for (const std::string& step : steps) {
    std::string there = step_on(platform, with_report(step));
    if (!there.empty() && std::ranges::find(result, there) == result.end()) result.push_back(std::move(there));
  }
  return result;
}

std::vector<std::string> steps_on(Platform platform, const std::vector<std::string>& steps) {
  std::vector<std::string> result = tests_on(platform, steps);
  const auto is_told = [](const std::string& step) { return has_one_of(step, "mps|MPS|PYTORCH_MPS*|macOS|Mac"); };
  const auto wants_cuda = [](const std::string& step) { return is_of_nvidia(step) && !step.contains("more GPUs"); };
  if (platform != Platform::macos || std::ranges::any_of(result, is_told)) return result;
  if (!std::ranges::any_of(steps, wants_cuda)) return result;
  const auto instead = steps_without_cuda();
  result.insert(result.begin(), instead.begin(), instead.end());
  return result;
}

}  // namespace gpuwarden::knowledge
