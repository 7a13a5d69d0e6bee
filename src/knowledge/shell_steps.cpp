// SPDX-License-Identifier: Apache-2.0
#include "knowledge/shell_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::knowledge {
namespace {

/// What commands of fixes begin with.
constexpr std::string_view kPrograms =
    " amd-smi apt apt-cache apt-get cat cd clinfo compute-sanitizer conda curl dcgmi df dkms dmesg docker dpkg du "
    "echo eval export find fuser gcc getent gpuwarden grep helm ib_write_bw ibstat ibv_devinfo id ip journalctl "
    "kill kubectl ldconfig ldd ls lsmod lsof lspci mamba modinfo modprobe mokutil mount nc nvcc "
    "nvidia-bug-report.sh nvidia-container-cli nvidia-ctk nvidia-smi ping pip podman printf ps py-spy rm "
    "rocm-smi rocminfo sacct sacctmgr sbatch scontrol seff sinfo source squeue srun ss ssh strings sudo sysctl "
    "systemctl torchrun ulimit uname unset uv vulkaninfo which wsl wsl.exe ";

/// What a command names, and the kind of step that it is then.
struct CommandWords {
  std::string_view words;  ///< between bars: one of them (has_one_of) makes a command such a one
  std::string_view kind;
};

/// Packages of Linux's driver.
constexpr std::string_view kDriverPackages =
    "nvidia-driver|nvidia-drivers|ubuntu-drivers|nvidia-open|cuda-drivers|nvidia-dkms|nvidia-utils|kmod-nvidia|akmods|"
    "'nvidia-|gpuwarden driver";

/// In the order in which they are looked for.
constexpr auto kCommandWords = std::to_array<CommandWords>({
    {"nvidia-persistenced|nvidia-fabricmanager|nvidia-imex|nvidia-gridd|nvidia-dcgm|nvidia-suspend|mokutil",
     "own_driver"},
    {"sleep.target|systemd-suspend|suspend", "own_system"},
    {kDriverPackages, "driver"},
    {"lsmod|modinfo|dkms status|/proc/driver/nvidia", "own_driver"},
    {"modprobe|modprobe.d|rmmod|insmod|dkms|initramfs|update-initramfs|dracut|mkinitcpio|linux-headers|kernel-devel|"
     "kernel-default-devel|nouveau|nvidia-modprobe|nvidia_uvm|/var/lib/dkms|create-dev-char-symlinks",
     "modules"},
    {"lspci|/proc/iomem|/sys/bus/pci", "bus"},
    {"/dev/nvidia*", "device_files"},
    {"--gpu-reset|nvidia-smi -r", "reset"},
    {"/lib/modules", "driver"},
    {"sudo reboot", "reboot"},
    {"sudo nvidia-smi", "admin"},
});

/// What Windows has not, wherever a command names it.
constexpr std::string_view kOfLinux =
    "sudo|apt-get|apt-key|dnf|yum|zypper|pacman|systemctl|journalctl|dmesg|ldconfig|ldd|chmod|usermod|sysctl|ulimit|"
    "lsb_release|uname|fuser|lsof|cuda-keyring|LD_LIBRARY_PATH|LD_PRELOAD|/usr|/etc|/dev|/sys|/proc|/var";
/// The same of what is a word of other things, too: where a command begins.
constexpr std::string_view kCommands = "apt|grep|ls|cat|mount|umount|export|unset";

/// What a Mac has not, besides: NVIDIA's driver, CUDA and what is built for it.
constexpr std::string_view kOfNvidia =
    "cuda*|and-cuda|cuDNN|cudnn|cu11*|cu12*|cu13*|nvcc|nvrm|NVRM|NCCL*|nccl*|cuobjdump|driver|lspci|dcgmi|"
    "HSA_OVERRIDE_GFX_VERSION|--gpus|compat torch|doctor --for";

bool is_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool names_word(std::string_view text, std::string_view word) {
  const bool is_start = word.ends_with('*');
  if (is_start) word.remove_suffix(1);
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || (!is_part(text[at - 1]) && text[at - 1] != '-');
    const std::size_t end = at + word.size();
    if (begins && (is_start || end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

/// Windows' driver writes to the system's events; what else a kernel's log tells (the OOM killer) is not there.
bool is_log_of_driver(std::string_view command) {
  if (!has_one_of(command, "dmesg|journalctl -k|journalctl -b")) return false;
  const auto names = [&](std::string_view word) { return contains_ignoring_case(command, word); };
  return names("xid") || names("nvrm") || names("nvidia") || names("gpu") || (!names("grep") && !names("oom"));
}

/// A Linux driver inside WSL hides Windows' own: taking it away helps there.
bool removes_only(std::string_view command) {
  return has_one_of(command, "remove|purge") && !has_one_of(command, "install|reinstall");
}

/// "cat /proc/driver/nvidia/version: must be ..." is a sentence about a command. A colon within quotes says nothing.
bool has_remark(const std::vector<std::string_view>& words) {
  std::size_t quotes = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    quotes += static_cast<std::size_t>(std::ranges::count_if(words[i], [](char c) { return c == '\'' || c == '"'; }));
    if (words[i].ends_with(':') && quotes % 2 == 0) return true;
  }
  return false;
}

/// NCCL_DEBUG=INFO before a command.
bool is_assignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 && std::ranges::all_of(word.substr(0, equals), [](char c) {
           return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
         });
}

/// "mount the driver", "export NAME with the other": sentences; a command has options, paths or values there.
bool is_prose(std::string_view command, std::string_view rest) {
  const std::string_view next = rest.substr(0, rest.find(' '));
  if (command == "export") return !next.contains('=');
  if (command != "unset" && !command.ends_with("mount")) return false;
  return !next.empty() && std::ranges::all_of(next, [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

bool begins_with_program(std::string_view step) {
  const auto words = split_words(step);
  if (words.empty()) return false;
  std::string_view first = words.front();
  if (first.ends_with(';')) first.remove_suffix(1);
  const bool option = words.size() > 1 && words[1].starts_with('-');
  return is_assignment(first) || first.starts_with('/') || first.starts_with("python") || first.ends_with("/pip") ||
         (first == "free" && option) || kPrograms.contains(fmt::format(" {} ", first));
}

bool is_command(std::string_view step) { return begins_with_program(step) && !has_remark(split_words(step)); }

bool has_one_of(std::string_view text, std::string_view words) {
  return std::ranges::any_of(split(words, '|'), [&](std::string_view word) { return names_word(text, word); });
}

std::string_view kind_of_command(std::string_view command) {
  if (command == "sudo modprobe nvidia") return "load_driver";
  if (has_one_of(command, "NCCL*|nccl*|libnccl2|dcgmi")) return "linux_nvidia";  // Windows has neither
  for (const CommandWords& row : kCommandWords) {
    if (!has_one_of(command, row.words)) continue;
    return row.words == kDriverPackages && removes_only(command) ? "driver_removal" : row.kind;
  }
  return is_log_of_driver(command) ? "driver_log" : "";
}

bool is_of_linux(std::string_view command) { return has_one_of(command, kOfLinux); }

bool runs_word_of_linux(std::string_view command) {
  const auto names = split(kCommands, '|');
  for (std::size_t start = 0; start <= command.size();) {
    const std::size_t end = std::min(command.find_first_of(";&|(:", start), command.size());
    const std::string_view part = trim(command.substr(start, end - start));
    const std::size_t space = std::min(part.find(' '), part.size());
    const bool is_known = std::ranges::find(names, part.substr(0, space)) != names.end();
    if (is_known && !is_prose(part.substr(0, space), trim(part.substr(space)))) return true;
    start = end + 1;
  }
  return false;
}

bool is_of_nvidia(std::string_view command) {
  // What maps a model to the CPU can be done everywhere.
  if (command.contains("'cpu'") || command.contains("'cuda'") || command.contains("'gloo'")) return false;
  return contains_ignoring_case(command, "nvidia") || command.contains("CUDA") || has_one_of(command, kOfNvidia);
}

bool is_of_mac(std::string_view command) { return has_one_of(command, "mps|PYTORCH_MPS*"); }

}  // namespace gpuwarden::knowledge
