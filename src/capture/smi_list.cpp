// SPDX-License-Identifier: Apache-2.0
#include "capture/smi_list.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capture/cells.hpp"
#include "capture/identity.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

std::optional<std::uint32_t> number_before(std::string_view text, char end) {
  const auto number = parse_integer(trim(text.substr(0, text.find(end))));
  return number && *number >= 0 && *number < 100000 ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

/// "NAME (UUID: GPU-...)": both parts; the closing bracket proves that nothing is cut.
std::optional<std::pair<std::string, std::string>> name_and_uuid(std::string_view text) {
  const std::size_t at = text.rfind("(UUID: ");
  if (at == std::string_view::npos || !text.ends_with(')')) return std::nullopt;
  return std::pair(std::string(trim(text.substr(0, at))), std::string(text.substr(at + 7, text.size() - at - 8)));
}

std::optional<ListedGpu> gpu_line(std::string_view line) {
  const std::string_view text = trim(line);
  if (!text.starts_with("GPU ") || !text.contains(':')) return std::nullopt;
  const auto index = number_before(text.substr(4), ':');
  const auto parts = name_and_uuid(text.substr(text.find(':') + 1));
  if (!index || !parts) return std::nullopt;
  return ListedGpu{*index, parts->first, parts->second, {}, {}};
}

/// "  MIG 3g.40gb     Device  0: (UUID: MIG-...)"
std::optional<ListedMig> mig_line(std::string_view line) {
  const std::string_view text = trim(line);
  const std::size_t device = text.find("Device");
  if (!text.starts_with("MIG ") || device == std::string_view::npos) return std::nullopt;
  const auto index = number_before(text.substr(device + 6), ':');
  const auto parts = name_and_uuid(text.substr(device));
  if (!index || !parts) return std::nullopt;
  return ListedMig{std::string(trim(text.substr(4, device - 4))), *index, parts->second};
}

/// "	 Link 0: 26.562 GB/s" or "	 Link 1: <inactive>"
std::optional<ListedLink> link_line(std::string_view line) {
  const std::string_view text = trim(line);
  if (!text.starts_with("Link ") || !text.contains(':')) return std::nullopt;
  const auto index = number_before(text.substr(5), ':');
  if (!index) return std::nullopt;
  const std::string_view speed = trim(text.substr(text.find(':') + 1));
  ListedLink link{*index, number_of(speed, "GB/s")};
  if (!link.gigabytes_per_second && !speed.contains("nactive") && !speed.contains("isabled")) return std::nullopt;
  if (link.gigabytes_per_second && (*link.gigabytes_per_second < 0 || *link.gigabytes_per_second > 10000))
    return std::nullopt;
  return link;
}

facts::NvLink fact_of(const ListedLink& link) {
  facts::NvLink fact;
  fact.link = link.link;
  fact.active = link.gigabytes_per_second.has_value();
  put(fact.speed, link.gigabytes_per_second, 1e9);
  return fact;
}

using FailureKind = facts::DriverProblem::Kind;

struct Phrase {
  std::string_view text;
  FailureKind kind;
  ErrorCode code;
  std::string_view meaning;
  std::string_view hint;
};

constexpr Phrase kFailures[] = {
    {"couldn't communicate with the NVIDIA driver", FailureKind::not_loaded, ErrorCode::unavailable,
     "no NVIDIA driver is loaded",
     "install a driver or load its module (sudo modprobe nvidia); after a kernel update its module must be rebuilt"},
    {"Driver/library version mismatch", FailureKind::mismatch, ErrorCode::unavailable,
     "the loaded kernel module and the driver's libraries are of different versions",
     "reboot, or unload and load the nvidia modules: the driver was replaced while it ran"},
    {"Driver Not Loaded", FailureKind::not_loaded, ErrorCode::unavailable, "no NVIDIA driver is loaded",
     "sudo modprobe nvidia"},
    {"couldn't find libnvidia-ml", FailureKind::no_library, ErrorCode::unavailable, "the NVML library was not found",
     "install the driver's libraries; in a container, use the NVIDIA container runtime"},
    {"No devices were found", FailureKind::no_devices, ErrorCode::not_found,
     "the driver is loaded but answers for no GPU", "look into the kernel log (dmesg | grep -i nvrm)"},
    {"Insufficient Permissions", FailureKind::no_permission, ErrorCode::permission_denied,
     "the caller may not use the driver", "check the permissions of /dev/nvidia*"},
    {"GPU is lost", FailureKind::other, ErrorCode::unavailable, "a GPU fell off the PCIe bus",
     "look for its Xid in the kernel log, then reboot; check power, seating and cooling"},
    {"Unable to determine the device handle for GPU", FailureKind::other, ErrorCode::unavailable,
     "a GPU does not answer", "look for its Xid in the kernel log; reset the GPU or reboot"},
    {"GPU access blocked by the operating system", FailureKind::other, ErrorCode::unavailable,
     "WSL cannot reach the GPU of the Windows host", "update the Windows driver and WSL (wsl --update)"},
    {"Failed to initialize NVML: Unknown Error", FailureKind::unknown_error, ErrorCode::permission_denied,
     "NVML has no access to the GPUs: usually a container that lost its device nodes",
     "restart the container; where 'systemctl daemon-reload' on the host takes them away, set the cgroupfs driver"},
    {"Failed to initialize NVML", FailureKind::other, ErrorCode::unavailable, "NVML could not be initialised",
     "look into the kernel log (dmesg | grep -i nvrm)"},
    {"nvidia-smi: command not found", FailureKind::no_library, ErrorCode::not_found, "nvidia-smi is not installed",
     "install the NVIDIA driver"},
    {"Unable to retrieve Nvlink information", FailureKind::other, ErrorCode::not_found, "no NVLink is active", ""},
    {"No devices found", FailureKind::no_devices, ErrorCode::not_found, "the driver is loaded but answers for no GPU",
     "look into the kernel log (dmesg | grep -i nvrm)"},
    {"NVIDIA-SMI has failed", FailureKind::other, ErrorCode::unavailable, "nvidia-smi does not reach the driver",
     "look into the kernel log (dmesg | grep -i nvrm)"},
    {"is not a valid field to query", FailureKind::other, ErrorCode::invalid_argument,
     "nvidia-smi was asked for a field it does not know",
     "nvidia-smi --help-query-gpu lists the fields of this driver"},
    {"Invalid combination of input arguments", FailureKind::other, ErrorCode::invalid_argument,
     "nvidia-smi was called with wrong options", "nvidia-smi -h"},
    {"ERROR: Option", FailureKind::other, ErrorCode::invalid_argument, "nvidia-smi was called with wrong options",
     "nvidia-smi -h"},
};

/// A line below a GPU's: one of its MIG devices or links, or a remark on them.
bool take_detail(std::string_view line, GpuList& list) {
  ListedGpu& gpu = list.gpus.back();
  if (auto mig = mig_line(line)) {
    gpu.mig_devices.push_back(std::move(*mig));
    return true;
  }
  const auto link = link_line(line);
  if (link) gpu.links.push_back(*link);
  const bool about_links = link || contains_ignoring_case(line, "nvlink");
  list.has_links = list.has_links || about_links;
  return about_links;
}

}  // namespace

bool is_list_line(std::string_view line) { return gpu_line(line).has_value(); }

GpuList read_gpu_list(std::span<const Line> lines, std::size_t& end) {
  GpuList list;
  end = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i].text;
    if (line.empty() && !list.gpus.empty()) continue;
    if (auto gpu = gpu_line(line)) {
      list.gpus.push_back(std::move(*gpu));
    } else if (list.gpus.empty() || !take_detail(line, list)) {
      break;
    }
    end = i + 1;
  }
  return list;
}

facts::Snapshot snapshot_of_list(const GpuList& list) {
  facts::Snapshot snapshot;
  snapshot.source = "nvidia-smi";
  for (const ListedGpu& listed : list.gpus) {
    facts::GpuRecord record;
    record.gpu.index = GpuIndex{listed.index};
    record.gpu.name = printable(listed.name);
    if (!listed.uuid.ends_with("...")) record.gpu.uuid = Uuid(printable(listed.uuid));
    complete_from_model(record.gpu);
    if (!listed.mig_devices.empty()) record.gpu.mig_enabled = true;
    for (const ListedMig& device : listed.mig_devices) {
      facts::MigDevice mig;
      mig.index = device.device;
      mig.profile = printable(device.profile);
      if (!device.uuid.ends_with("...")) mig.uuid = Uuid(printable(device.uuid));
      mig.name = record.gpu.name + " MIG " + *mig.profile;
      record.mig_devices.push_back(std::move(mig));
    }
    for (const ListedLink& link : listed.links) record.sample.nvlinks.push_back(fact_of(link));
    snapshot.gpus.push_back(std::move(record));
  }
  return snapshot;
}

bool is_version_line(std::string_view line) {
  return trim(line).starts_with("NVIDIA-SMI version") && line.contains(" : ");
}

std::optional<std::string> VersionLines::value(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    for (const auto& [name, text] : values) {
      if (name == to_lower(key) && text_of(text)) return text_of(text);
    }
  }
  return std::nullopt;
}

VersionLines read_version_lines(std::span<const Line> lines, std::size_t& end) {
  VersionLines result;
  end = 0;
  for (const Line& line : lines) {
    const std::size_t colon = line.text.find(" : ");
    const std::string_view key = trim(std::string_view(line.text).substr(0, colon));
    if (colon == std::string::npos || !to_lower(key).ends_with("version") || !line.ended) break;
    result.values.emplace_back(to_lower(key), trim(std::string_view(line.text).substr(colon + 3)));
    result.lines.push_back(line.text);
    ++end;
  }
  return result;
}

namespace {

/// NVML's own words for why it gives up, as its bindings, container tools and device plugins print them.
struct NvmlWord {
  std::string_view text;
  FailureKind kind;
};

/// source: nvml.h, nvmlReturn_t; pynvml's exception names; libnvidia-container, nvc.c; NVIDIA/k8s-device-plugin
constexpr NvmlWord kNvmlWords[] = {
    {"ERROR_DRIVER_NOT_LOADED", FailureKind::not_loaded},
    {"NVMLError_DriverNotLoaded", FailureKind::not_loaded},
    {"nvml error: driver not loaded", FailureKind::not_loaded},
    {"ERROR_LIB_RM_VERSION_MISMATCH", FailureKind::mismatch},
    {"NVMLError_LibRmVersionMismatch", FailureKind::mismatch},
    {"nvml error: driver/library version mismatch", FailureKind::mismatch},
    {"NVML: Driver/library version mismatch", FailureKind::mismatch},
    {"NVMLError_LibraryNotFound", FailureKind::no_library},
    {"ERROR_LIBRARY_NOT_FOUND", FailureKind::no_library},
    {"NVML Shared Library Not Found", FailureKind::no_library},
    {"could not load NVML library", FailureKind::no_library},
    {"NVMLError_NoPermission", FailureKind::no_permission},
    {"NVML_ERROR_NO_PERMISSION", FailureKind::no_permission},
    {"nvml error: insufficient permissions", FailureKind::no_permission},
    {"NVMLError_Unknown", FailureKind::unknown_error},
    {"NVML_ERROR_UNKNOWN", FailureKind::unknown_error},
    {"initialize NVML: ERROR_UNKNOWN", FailureKind::unknown_error},
    {"nvml error: unknown error", FailureKind::unknown_error},
};

struct NvmlCode {
  std::int64_t code;
  FailureKind kind;
};
/// source: nvml.h, nvmlReturn_t
constexpr NvmlCode kNvmlCodes[] = {{4, FailureKind::no_permission},
                                   {9, FailureKind::not_loaded},
                                   {12, FailureKind::no_library},
                                   {18, FailureKind::mismatch},
                                   {999, FailureKind::unknown_error}};

/// Source code and documents name the constants without meaning them.
bool is_source_code(std::string_view line) {
  return line.contains("==") || line.contains("!=") || line.contains("case ") || line.contains("#define") ||
         line.contains("except ") || line.contains("//");
}

/// 18 of "nvmlInit_v2() failed: 18" and "nvmlInit returned 18".
std::optional<FailureKind> kind_of_init_code(std::string_view line) {
  const std::size_t at = line.find("nvmlInit");
  if (at == std::string_view::npos) return std::nullopt;
  if (!line.contains("fail") && !line.contains("return") && !line.contains("rror")) return std::nullopt;
  for (std::string_view word : split_words(line.substr(at + 8))) {
    while (!word.empty() && (word.back() == ')' || word.back() == '.' || word.back() == ',')) word.remove_suffix(1);
    while (!word.empty() && (word.front() == '(' || word.front() == '=')) word.remove_prefix(1);
    const auto number = parse_integer(word);
    const auto* const known = std::ranges::find_if(kNvmlCodes, [&](const NvmlCode& one) { return one.code == number; });
    if (number && known != std::end(kNvmlCodes)) return known->kind;
  }
  return std::nullopt;
}

std::optional<FailureKind> nvml_kind_of(std::string_view line) {
  if (is_source_code(line)) return std::nullopt;
  for (const NvmlWord& word : kNvmlWords) {
    if (contains_ignoring_case(line, word.text)) return word.kind;
  }
  return kind_of_init_code(line);
}

/// The failure of that kind, in the words of the first phrase for it.
std::optional<SmiFailure> nvml_failure_of(std::string_view line) {
  const auto kind = nvml_kind_of(line);
  if (!kind) return std::nullopt;
  for (const Phrase& phrase : kFailures) {
    if (phrase.kind == *kind)
      return SmiFailure{
          {*kind, {phrase.code, std::string(phrase.meaning), std::string(phrase.hint)}}, printable(trim(line)), {}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<SmiFailure> smi_failure_of(std::string_view line) {
  if (auto failure = nvml_failure_of(line)) return failure;
  // Prose may hold the same words; nvidia-smi's own lines begin in few ways.
  static constexpr std::string_view kBeginnings[] = {"NVIDIA-SMI",
                                                     "Failed",
                                                     "Unable",
                                                     "No devices",
                                                     "ERROR",
                                                     "Error",
                                                     "GPU ",
                                                     "GPU0",
                                                     "Insufficient",
                                                     "Field",
                                                     "Invalid",
                                                     "NVML",
                                                     "nvidia-smi",
                                                     "bash:",
                                                     "-bash:",
                                                     "sh:",
                                                     "/bin",
                                                     "zsh:",
                                                     "nvidia-container-cli: initialization error: nvml error"};
  std::string_view text = trim(line);
  // Prose quotes such lines.
  while (text.starts_with('`') || text.starts_with('"')) text.remove_prefix(1);
  if (std::ranges::none_of(kBeginnings, [&](std::string_view begin) { return text.starts_with(begin); }))
    return std::nullopt;
  for (const Phrase& phrase : kFailures) {
    if (!contains_ignoring_case(line, phrase.text)) continue;
    SmiFailure failure{
        {phrase.kind, {phrase.code, std::string(phrase.meaning), std::string(phrase.hint)}}, printable(trim(line)), {}};
    const std::size_t gpu = line.find("GPU ");
    if (gpu != std::string_view::npos) {
      const auto words = split_words(line.substr(gpu + 4));
      // "GPU 0000:17:00.0: Unknown Error", and since driver 535 "GPU0: 0000:17:00.0: ..."
      for (std::size_t i = 0; i < words.size() && !failure.pci_bus_id; ++i) {
        std::string_view word = words[i];
        while (word.ends_with(':') || word.ends_with('.')) word.remove_suffix(1);
        failure.pci_bus_id = bus_id_of(word);
      }
    }
    return failure;
  }
  return std::nullopt;
}

}  // namespace gpuwarden::capture
