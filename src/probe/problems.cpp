// SPDX-License-Identifier: Apache-2.0
#include "probe/problems.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <string>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "probe/sysfs.hpp"

namespace gpuwarden::probe {
namespace {

using facts::DriverProblem;
using facts::GpuState;
using facts::ReadingGap;
using Kind = DriverProblem::Kind;

constexpr std::chrono::milliseconds kShort{1000};

std::string words_of(nvml::Return code, const nvml::Functions& nvml) {
  const char* text = nvml.nvmlErrorString != nullptr ? nvml.nvmlErrorString(code) : nullptr;
  return fmt::format("{} (NVML code {})", text != nullptr ? printable(text) : "error", code);
}

/// The version in NVML's own, which is CUDA's major version and then the driver's.
std::string library_version(const nvml::Functions& nvml) {
  std::array<char, 96> text{};
  if (call(nvml.nvmlSystemGetNVMLVersion, text.data(), static_cast<unsigned>(text.size() - 1)) != nvml::kSuccess)
    return "?";
  const std::string library = printable(text.data());
  return library.contains('.') ? library.substr(library.find('.') + 1) : library;
}

DriverProblem mismatch(const nvml::Functions& nvml, const std::optional<std::string>& module) {
  return {Kind::mismatch,
          {ErrorCode::unavailable,
           fmt::format("driver/library version mismatch: the library is {}, the loaded kernel module is {}",
                       library_version(nvml), module.value_or("unknown")),
           "the driver was updated while its old kernel module stayed loaded: reboot, or end all GPU processes and run "
           "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia"}};
}

/// "crashed (signal 11)", "ended the process (exit code 3)"; nothing where it was the time.
std::optional<std::string> crash_of(const Silence& silence) {
  if (silence.timed_out) return std::nullopt;
  if (silence.end.signal) return fmt::format("crashed (signal {})", *silence.end.signal);
  return fmt::format("ended the process that used it (exit code {})", silence.end.exit_code.value_or(0));
}

std::string hint_for_silence(std::chrono::milliseconds timeout, std::string_view otherwise) {
  if (timeout < kShort) return "the deadline is short: allow more time (--timeout 5s) before looking further";
  return std::string(otherwise);
}

constexpr std::string_view kLog = "look into the kernel log (dmesg | grep -i nvrm)";

/// Nothing of NVML's: whoever looks goes through /proc.
ReadingGap unknown_holders(const Silence& silence, std::chrono::milliseconds timeout) {
  if (!silence.timed_out)
    return {
        ReadingGap::Part::holders,
        {Kind::other,
         {ErrorCode::failed, "the process that looks for those that have a GPU open could not run to its end", ""}}};
  return {ReadingGap::Part::holders,
          {Kind::timed_out,
           {ErrorCode::timed_out,
            fmt::format("the processes that have a GPU open could not be found within {} ms", timeout.count()),
            "a process in uninterruptible sleep may hold /proc up: ps -eo pid,stat,wchan:30,args | grep ' D'"}}};
}

/// Whether the kernel lists a PCI bus, and nothing of NVIDIA's on it. Windows keeps the GPUs of WSL to itself, and
/// those of a Tegra are on no bus.
bool has_no_device(const ReaderOptions& options) {
  std::error_code ignored;
  const std::filesystem::path root = options.sys_root;
  return std::filesystem::is_directory(root / "bus/pci/devices", ignored) &&
         !std::filesystem::exists("/dev/dxg", ignored) && !std::filesystem::exists("/dev/nvhost-gpu", ignored) &&
         find_pci(root).empty();
}

}  // namespace

DriverProblem explain_init(nvml::Return code, const nvml::Functions& nvml, const ReaderOptions& options) {
  const auto module = kernel_module_version(options.driver_proc_root);
  switch (code) {
    case nvml::kLibRmVersionMismatch:
      return mismatch(nvml, module);
    case nvml::kDriverNotLoaded:
      if (!module && has_no_device(options))
        return {Kind::not_loaded,
                {ErrorCode::unavailable, "the NVIDIA driver is not loaded, and no NVIDIA device is on the PCI bus",
                 "gpuwarden doctor looks further; --simulate h100x8 tries gpuwarden on a machine without GPUs"}};
      return {
          Kind::not_loaded,
          {ErrorCode::unavailable, "the NVIDIA driver is not loaded",
           module ? "the kernel module is loaded, but its devices are missing: sudo nvidia-modprobe -c 0 -u"
                  : "load it with sudo modprobe nvidia; if that fails, look into dmesg (Secure Boot, missing kernel "
                    "headers, nouveau)"}};
    case nvml::kNoPermission:
      return {Kind::no_permission,
              {ErrorCode::permission_denied, "no permission to use the NVIDIA driver",
               "check the permissions of /dev/nvidiactl and your groups (video, render); in a container, start it with "
               "--gpus all"}};
    case nvml::kUnknown:
      return {Kind::unknown_error,
              {ErrorCode::unavailable, "the NVIDIA driver answers with an unknown error",
               "in a container: it has lost its devices, restart it (a known effect of systemctl daemon-reload); else "
               "look into dmesg"}};
    default:
      return {Kind::other,
              {ErrorCode::unavailable, fmt::format("the NVIDIA driver cannot be used: {}", words_of(code, nvml)),
               std::string(kLog)}};
  }
}

DriverProblem explain_count(nvml::Return code, const nvml::Functions& nvml, const ReaderOptions& options) {
  if (code == nvml::kNoPermission || code == nvml::kUnknown) return explain_init(code, nvml, options);
  return {Kind::other,
          {ErrorCode::unavailable,
           fmt::format("the NVIDIA driver does not say how many GPUs there are: {}", words_of(code, nvml)),
           std::string(kLog)}};
}

DriverProblem explain_impossible_count(unsigned count) {
  return {Kind::impossible,
          {ErrorCode::unavailable, fmt::format("NVML reports {} GPUs, which no machine has", count),
           "the library and the driver do not fit each other, or one is damaged: reinstall the NVIDIA driver"}};
}

DriverProblem explain_unsteady_driver() {
  return {Kind::not_loaded,
          {ErrorCode::unavailable, "the NVIDIA driver was unloaded or replaced while it was read",
           "wait until it is installed, then try again"}};
}

DriverProblem explain_silent_driver(const Silence& silence, std::chrono::milliseconds timeout) {
  if (const auto crash = crash_of(silence)) {
    return {Kind::crashed,
            {ErrorCode::unavailable, fmt::format("NVIDIA's management library {}", *crash),
             "reinstall the NVIDIA driver; look into the kernel log (dmesg | grep -i -E 'nvrm|segfault')"}};
  }
  return {Kind::timed_out,
          {ErrorCode::timed_out, fmt::format("the NVIDIA driver did not answer within {} ms", timeout.count()),
           hint_for_silence(timeout,
                            "look into the kernel log (dmesg | grep -i nvrm); a hung driver usually needs a reboot")}};
}

ReadingGap explain_gap(ReadingGap::Part part, const Silence& silence, std::chrono::milliseconds timeout) {
  if (part == ReadingGap::Part::holders) return unknown_holders(silence, timeout);
  static const std::map<ReadingGap::Part, std::string_view> kWords{
      {ReadingGap::Part::links, "how the GPUs are connected"},
      {ReadingGap::Part::cuda_order, "CUDA's order of the GPUs"},
      {ReadingGap::Part::slow_metrics, "PCIe throughput, NVLink counters and profiling"}};
  const std::string_view words = kWords.at(part);
  if (const auto crash = crash_of(silence)) {
    return {part,
            {Kind::crashed,
             {ErrorCode::unavailable, fmt::format("NVIDIA's library {} while it was asked for {}", *crash, words),
              std::string(kLog)}}};
  }
  return {part,
          {Kind::timed_out,
           {ErrorCode::timed_out,
            fmt::format("the NVIDIA driver did not answer within {} ms when asked for {}", timeout.count(), words),
            hint_for_silence(timeout, kLog)}}};
}

facts::GpuRecord explain_silent_gpu(facts::Gpu known, const Silence& silence, std::chrono::milliseconds timeout) {
  facts::GpuRecord record;
  record.gpu = std::move(known);
  record.state = GpuState::not_answering;
  constexpr std::string_view kNext =
      "look into the kernel log (dmesg | grep -i nvrm); a hung GPU usually needs a reset or a reboot";
  const auto crash = crash_of(silence);
  record.cause = crash ? fmt::format("the driver library {} while reading the GPU", *crash)
                       : fmt::format("the GPU did not answer within {} ms", timeout.count());
  record.next_step = crash ? std::string(kNext) : hint_for_silence(timeout, kNext);
  return record;
}

GpuState state_of_gpus(Kind kind) {
  switch (kind) {
    case Kind::timed_out:
    case Kind::crashed:
    case Kind::impossible:
      return GpuState::not_answering;
    case Kind::no_permission:
      return GpuState::no_permission;
    default:
      return GpuState::disabled;
  }
}

bool is_librarys_fault(Kind kind) {
  return kind == Kind::no_library || kind == Kind::wrong_library || kind == Kind::crashed || kind == Kind::impossible;
}

void mark_duplicates(std::vector<facts::GpuRecord>& records) {
  std::map<std::string, GpuIndex> seen;
  const auto is_first = [&](const Uuid& uuid, GpuIndex index) {
    return uuid.value.empty() || seen.emplace(uuid.value, index).second;
  };
  for (facts::GpuRecord& record : records) {
    std::string twice;
    if (!is_first(record.gpu.uuid, record.gpu.index)) twice = std::exchange(record.gpu.uuid, {}).value;
    for (const facts::MigDevice& mig : record.mig_devices) {
      if (!is_first(mig.uuid, record.gpu.index)) twice = mig.uuid.value;
    }
    if (twice.empty() || !facts::is_usable(record)) continue;
    record.state = GpuState::faulty;
    record.cause = fmt::format("it reports a UUID that GPU {} has, too ({})", seen.at(twice).value, twice);
    record.next_step = "no program can tell the two apart: look into the kernel log (dmesg | grep -i nvrm) and reboot";
  }
}

}  // namespace gpuwarden::probe
