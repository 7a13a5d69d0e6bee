// SPDX-License-Identifier: Apache-2.0
#include "capture/messages.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

/// What follows the needle, up to a character that is not in the value.
enum class Take { nothing, word, number, rest, given, release };

struct Message {
  std::string_view kind;
  std::string_view needle;  ///< the line has it
  std::string_view also;    ///< and this; may be empty
  std::string_view before;  ///< the value stands behind this; for Take::given it is the value
  Take take = Take::nothing;
};

constexpr auto kMessages = std::to_array<Message>({
    {"arch_not_supported", "is not compatible with the current PyTorch installation", "CUDA capability",
     "CUDA capability ", Take::word},
    // source: pytorch/pytorch#182250, torch/cuda/__init__.py _warn_unsupported_code
    {"arch_not_supported", "which is of compute capability (CC) ", "Found GPU", "compute capability (CC) ",
     Take::number},
    {"arch_not_supported", "PyTorch no longer supports this GPU because it is too old", "", "", Take::nothing},
    // source: pytorch/vision#9174 and its like
    {"torchvision_operator", "operator torchvision::", "does not exist", "operator ", Take::nothing},
    // source: facebookresearch/xformers, xformers/_cpp_lib.py
    {"xformers_other_build", " with CUDA ", " (you have ", " (you have ", Take::rest},
    {"driver_too_old", "The NVIDIA driver on your system is too old", "", "found version ", Take::number},
    {"no_driver", "Found no NVIDIA driver on your system", "", "", Take::nothing},
    {"cuda_unknown_error", "CUDA unknown error - this may be due to", "", "", Take::nothing},
    {"cuda_error", "cudaGetDeviceCount()", "Error ", "Error ", Take::number},
    // source: the words of cudaGetErrorString for the errors with which CUDA starts, by their numbers
    {"cuda_error", "CUDA driver is a stub library", "", "34", Take::given},
    {"cuda_error", "CUDA driver version is insufficient for CUDA runtime version", "", "35", Take::given},
    {"cuda_error", "CUDA-capable device(s) is/are busy or unavailable", "", "46", Take::given},
    {"cuda_error", "all CUDA-capable devices are busy or unavailable", "", "46", Take::given},
    {"cuda_error", "no CUDA-capable device is detected", "", "100", Take::given},
    {"cuda_error", "No CUDA GPUs are available", "Error: ", "100", Take::given},
    {"cuda_error", "system not yet initialized", "", "802", Take::given},
    {"cuda_error", "system has unsupported display driver / cuda driver combination", "", "803", Take::given},
    {"cuda_error", "forward compatibility was attempted on non supported HW", "", "804", Take::given},
    {"cuda_error", "failed call to cuInit: CUDA_ERROR_UNKNOWN", "", "999", Take::given},
    {"no_kernel_image", "no kernel image is available for execution on the device", "", "", Take::nothing},
    {"hip_no_kernel", "HIP error: invalid device function", "", "", Take::nothing},
    {"no_cuda_build", "Torch not compiled with CUDA enabled", "", "", Take::nothing},
    {"glibc_missing", "version `GLIBC_", "not found", "version `GLIBC_", Take::number},
    {"glibcxx_missing", "version `GLIBCXX_", "not found", "version `GLIBCXX_", Take::number},
    {"undefined_symbol", ": undefined symbol: ", ".so", "", Take::nothing},
    {"cudnn_mismatch", "Loaded runtime CuDNN library: ", "compiled with",
     "Loaded runtime CuDNN library: ", Take::number},
    {"library_missing", "cannot open shared object file", ".so", "", Take::nothing},
    {"capability_needed", "requires device with capability", "your GPU has capability", "your GPU has capability (",
     Take::rest},
    {"cuda_mismatch", "The detected CUDA version (", "mismatches the version", "The detected CUDA version (",
     Take::number},
    {"nvcc_arch_unknown", "Unsupported gpu architecture 'compute_", "", "Unsupported gpu architecture 'compute_",
     Take::number},
    {"ptx_unsupported", "PTX was compiled with an unsupported toolchain", "", "", Take::nothing},
    {"mig_uuid_as_number", "invalid literal for int() with base 10: 'MIG-", "", "", Take::nothing},
    {"host_compiler_missing", "Failed to find C compiler", "", "", Take::nothing},
    {"header_missing", "fatal error: ", "No such file or directory", "fatal error: ", Take::word},
    {"unsupported_host_compiler", "unsupported GNU version", "", "", Take::nothing},
    // source: ollama/ollama, discover/types.go: its devices, of which the CPU is the last resort
    {"ollama_on_cpu", "msg=\"inference compute\"", "library=cpu", "", Take::nothing},
    // source: NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c and nv.c; the legacy GPUs' notice of nv-acpi
    {"nvrm_open_needed", "requires use of the NVIDIA open kernel modules", "", "", Take::nothing},
    {"nvrm_legacy_branch", "supported through the NVIDIA ", "Legacy", "supported through the NVIDIA ", Take::number},
    {"nvrm_legacy_branch", "supported through the ", ".xx Legacy", "supported through the ", Take::number},
    {"nvrm_ignores_gpu", "NVIDIA driver will ignore", "", "The ", Take::number},
    {"nvrm_init_failed", "RmInitAdapter failed!", "", "RmInitAdapter failed! (", Take::rest},
    {"nvrm_no_gpu", "NVRM: No NVIDIA GPU found", "", "", Take::nothing},
    {"nvrm_no_gpu", "NVRM: No NVIDIA graphics adapter found", "", "", Take::nothing},
    {"nvrm_no_gpu", "NVRM: None of the NVIDIA", "initialized", "", Take::nothing},
    {"nvrm_other_driver", "The NVIDIA probe routine was not called for", "", "", Take::nothing},
    {"nvrm_no_memory_window", "NVRM: BAR", "is 0M", "NVRM: ", Take::word},
    {"nvrm_no_memory_window", "PCI I/O region assigned to your NVIDIA device is invalid", "", "", Take::nothing},
    {"module_key_rejected", "Key was rejected by service", "nvidia", "", Take::nothing},
    {"module_key_rejected", "Required key not available", "nvidia", "", Take::nothing},
    {"module_not_found", "Module nvidia not found in directory ", "", "in directory /lib/modules/", Take::release},
    {"dkms_build_failed", "Bad return status for module build on kernel: ", "", "build on kernel: ", Take::release},
    {"dkms_build_log", "Consult /var/lib/dkms/", "make.log", "Consult /var/lib/dkms/", Take::word},
    // source: dell/dkms, dkms.in, "Your kernel headers for kernel ..."
    {"dkms_headers_missing", "ernel headers for kernel ", "cannot be found", "headers for kernel ", Take::release},
    {"ptxas_arch", "is not defined for option 'gpu-name'", "ptxas", "Value 'sm_", Take::word},
    {"container_needs_cuda", "unsatisfied condition: cuda>=", "", "condition: cuda>=", Take::number},
    {"container_without_toolkit", "could not select device driver", "[[gpu]]", "", Take::nothing},
    {"container_without_toolkit", "unresolvable CDI devices nvidia.com/gpu", "", "", Take::nothing},
    {"fabric_version_differs", "match with driver version ", "abric", "match with driver version ", Take::number},
});

constexpr std::string_view kSupported = "The current PyTorch install supports CUDA capabilities ";

/// Nothing where the line was cut in the value.
std::optional<std::string> value_of(const Message& message, const Line& whole) {
  if (message.take == Take::nothing) return "";
  if (message.take == Take::given) return std::string(message.before);
  const std::string_view line = whole.text;
  const std::size_t at = line.find(message.before);
  if (at == std::string_view::npos) return whole.ended ? std::optional<std::string>("") : std::nullopt;
  const std::string_view rest = line.substr(at + message.before.size());
  std::size_t end = 0;
  const auto fits = [&](unsigned char c) {
    if (message.take == Take::number) return std::isdigit(c) != 0 || c == '.';
    if (message.take == Take::word) return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/';
    // Of a kernel: letters, numbers and what Debian, Fedora and users put between; a quote or a slash ends it.
    if (message.take == Take::release)
      return std::isalnum(c) != 0 || std::string_view("._+-~").contains(static_cast<char>(c));
    return c != ')';
  };
  while (end < rest.size() && fits(static_cast<unsigned char>(rest[end]))) ++end;
  if (end == rest.size() && !whole.ended) return std::nullopt;
  std::string_view value = rest.substr(0, end);
  while (value.ends_with('.')) value.remove_suffix(1);
  return printable(value);
}

/// "libcudart.so.12" of "ImportError: libcudart.so.12: cannot open shared object file: ...".
std::optional<std::string> library_of(std::string_view line) {
  const std::string_view head = line.substr(0, line.find(": cannot open shared object file"));
  const std::size_t begin = head.rfind("lib");
  return begin == std::string_view::npos ? "" : printable(trim(head.substr(begin)));
}

void add(facts::Environment& environment, const Message& message, const Line& line) {
  const auto value = message.kind == "library_missing" ? library_of(line.text) : value_of(message, line);
  if (!value) return;
  constexpr std::size_t kMost = 500;  // more are a hostile file's
  if (environment.messages.size() >= kMost) return;
  for (const auto& known : environment.messages) {
    if (known.kind == message.kind && known.value == *value) return;
  }
  constexpr std::size_t kLongest = 400;
  environment.messages.push_back({std::string(message.kind),
                                  printable(trim(std::string_view(line.text).substr(0, kLongest))), *value,
                                  line.number});
}

void read_supported(std::string_view line, facts::Environment& environment) {
  const std::size_t at = line.find(kSupported);
  if (at == std::string_view::npos) return;
  if (environment.pythons.empty()) {
    facts::PythonEnvironment& python = environment.pythons.emplace_back();
    python.kind = "reported";
    python.active = true;
  }
  auto& architectures = environment.pythons.front().torch_architectures;
  if (!architectures.empty()) return;
  for (std::string_view word : split_words(line.substr(at + kSupported.size()))) {
    while (word.ends_with('.') || word.ends_with(',')) word.remove_suffix(1);
    if (word.starts_with("sm_") || word.starts_with("compute_")) architectures.push_back(printable(word));
  }
}

}  // namespace

void read_messages(std::span<const Line> lines, facts::Environment& environment) {
  for (const Line& line : lines) {
    if (line.text.size() < 12) continue;
    for (const Message& message : kMessages) {
      if (line.text.contains(message.needle) && line.text.contains(message.also)) add(environment, message, line);
    }
    if (line.ended) read_supported(line.text, environment);
  }
}

}  // namespace gpuwarden::capture
