// SPDX-License-Identifier: Apache-2.0
#include "capture/env_report.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

struct Label {
  std::string_view text;  ///< lower case
  std::string_view slot;
  EnvTool tool = EnvTool::collect_env;
  bool sure = false;  ///< no other program prints this label
};

constexpr auto kLabels = std::to_array<Label>({
    {"pytorch version", "torch", EnvTool::collect_env, true},
    {"is debug build", "debug"},
    {"cuda used to build pytorch", "cuda_build", EnvTool::collect_env, true},
    {"rocm used to build pytorch", "rocm_build", EnvTool::collect_env, true},
    {"os", "os"},
    {"gcc version", "gcc"},
    {"clang version", "clang"},
    {"cmake version", "cmake"},
    {"libc version", "libc"},
    {"python version", "python"},
    {"python platform", "platform"},
    {"is cuda available", "cuda_available", EnvTool::collect_env, true},
    {"cuda runtime version", "cuda_runtime"},
    {"cuda_module_loading set to", "module_loading"},
    {"gpu models and configuration", "gpus", EnvTool::collect_env, true},
    {"nvidia driver version", "driver"},
    {"cudnn version", "cudnn"},
    {"hip runtime version", "hip"},
    {"miopen runtime version", "miopen"},
    {"is xnnpack available", "xnnpack"},
    {"architecture", "machine"},
    {"cpu(s)", "cpus"},
    {"model name", "cpu_model"},
    {"socket(s)", "sockets"},
    {"numa node(s)", "numa_nodes"},
    {"hypervisor vendor", "hypervisor"},
    {"virtualization type", "virtualization"},
    {"rocm version", "rocm"},
    {"neuron sdk version", "neuron"},
    {"vllm version", "vllm"},
    {"vllm build flags", "vllm_flags"},
    {"cuda archs", "vllm_archs"},
    {"gpu topology", "topology"},
    {"python", "python", EnvTool::sglang},
    {"cuda available", "cuda_available", EnvTool::sglang, true},
    {"cuda_home", "cuda_home", EnvTool::sglang},
    {"nvcc", "nvcc", EnvTool::sglang},
    {"cuda driver version", "driver", EnvTool::sglang, true},
    {"pytorch", "torch", EnvTool::sglang},
    {"rocm driver version", "rocm_driver", EnvTool::sglang},
    {"ulimit soft", "ulimit", EnvTool::sglang},
    {"torch install path", "torch_path", EnvTool::deepspeed},
    {"torch version", "torch", EnvTool::deepspeed},
    {"torch cuda version", "cuda_build", EnvTool::deepspeed, true},
    {"torch hip version", "rocm_build", EnvTool::deepspeed},
    {"nvcc version", "nvcc", EnvTool::deepspeed},
    {"deepspeed info", "deepspeed", EnvTool::deepspeed, true},
    {"deepspeed wheel compiled w.", "deepspeed_wheel", EnvTool::deepspeed, true},
    {"shared memory (/dev/shm) size", "shm", EnvTool::deepspeed},
    {"pytorch version (gpu?)", "torch_gpu", EnvTool::transformers, true},
    {"transformers version", "transformers", EnvTool::transformers},
    {"accelerate version", "accelerate", EnvTool::transformers},
    {"platform", "platform", EnvTool::transformers},
    {"gpu type", "gpu_type", EnvTool::transformers},
    {"accelerator", "gpu_type", EnvTool::transformers},
    // TRL's and LLaMA-Factory's reports are made in the same manner.
    {"llamafactory version", "llamafactory", EnvTool::transformers, true},
    {"trl version", "trl", EnvTool::transformers, true},
    {"pytorch version", "torch_gpu", EnvTool::transformers},
    {"deepspeed version", "deepspeed", EnvTool::transformers},
    {"bitsandbytes version", "bitsandbytes", EnvTool::transformers},
    {"peft version", "peft", EnvTool::transformers},
    {"datasets version", "datasets", EnvTool::transformers},
    {"cuda device", "gpu_type", EnvTool::transformers},
    {"cuda device(s)", "gpu_type", EnvTool::transformers},
    {"accelerator(s)", "gpu_type", EnvTool::transformers},
    {"gpu number", "gpu_count", EnvTool::transformers},
    {"gpu memory", "gpu_memory", EnvTool::transformers},
    {"jax", "jax", EnvTool::jax},
    {"jaxlib", "jaxlib", EnvTool::jax, true},
    {"numpy", "numpy", EnvTool::jax},
    {"device info", "jax_devices", EnvTool::jax, true},
    {"process_count", "processes", EnvTool::jax, true},
});

/// Distributions whose version sglang prints as "name: version" (and its module names on PyPI).
constexpr auto kSglangPackages =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"sglang", "sglang"},
                                                                  {"sgl_kernel", "sgl-kernel"},
                                                                  {"flashinfer", "flashinfer"},
                                                                  {"flashinfer_python", "flashinfer-python"},
                                                                  {"triton", "triton"},
                                                                  {"transformers", "transformers"},
                                                                  {"torchao", "torchao"},
                                                                  {"numpy", "numpy"},
                                                                  {"vllm", "vllm"},
                                                                  {"xgrammar", "xgrammar"},
                                                                  {"flashinfer_cubin", "flashinfer-cubin"}});

constexpr auto kUnknown = std::to_array<std::string_view>(
    {"", "Could not collect", "N/A", "No CUDA", "None", "unknown", "Not Found", "Module Not Found"});

/// "torch cuda version ............... 11.8": dots for a colon. Otherwise up to the first colon.
std::optional<std::pair<std::string, std::string_view>> labelled(std::string_view line) {
  std::string_view text = trim(line);
  if (text.starts_with("- ")) text.remove_prefix(2);
  std::size_t end = text.find(" ...");
  std::size_t begin = end == std::string_view::npos ? end : text.find_first_not_of(". ", end);
  const std::size_t colon = text.find(':');
  if (end == std::string_view::npos || colon < end) {
    if (colon == std::string_view::npos) return std::nullopt;
    end = colon;
    begin = colon + 1;
  }
  std::string label = to_lower(trim(text.substr(0, end)));
  std::erase(label, '`');
  return std::pair(std::move(label), begin >= text.size() ? std::string_view() : trim(text.substr(begin)));
}

bool is_identifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

/// More GPUs, packages or variables than one machine has are a hostile file's.
constexpr std::size_t kMostEntries = 2000;

class Reader {
 public:
  explicit Reader(std::vector<Line>& lines) : lines_(lines) {}

  std::optional<EnvReport> read() {
    if (!is_report()) return std::nullopt;
    for (Line& line : lines_) {
      if (take(line)) line.text.clear();
    }
    return std::move(report_);
  }

 private:
  static const Label* find(std::string_view label, EnvTool tool) {
    const auto* found =
        std::ranges::find_if(kLabels, [&](const Label& known) { return known.text == label && known.tool == tool; });
    if (found == kLabels.end()) found = std::ranges::find(kLabels, label, &Label::text);
    return found == kLabels.end() ? nullptr : found;
  }

  static const Label* sure_label(std::string_view text) {
    const auto cell = labelled(text);
    const Label* label = cell ? find(cell->first, EnvTool::collect_env) : nullptr;
    return label != nullptr && label->sure ? label : nullptr;
  }

  /// What stands behind gaps in a line: a terminal's line ends may have been pasted as blanks.
  static std::vector<std::string_view> joined(std::string_view line) {
    constexpr std::string_view kGap = "        ";
    std::vector<std::string_view> pieces;
    std::string_view rest = trim(line);
    for (std::size_t gap = rest.find(kGap); gap != std::string_view::npos; gap = rest.find(kGap)) {
      rest = trim(rest.substr(gap));
      const std::string_view piece = rest.substr(0, rest.find(kGap));
      if (piece.contains(": ")) pieces.push_back(piece);
    }
    return pieces;
  }

  /// Two labels that no other program prints make a report, and say whose it is.
  bool is_report() {
    std::map<EnvTool, std::set<const Label*>> sure;
    for (const Line& line : lines_) {
      if (const Label* label = sure_label(line.text)) sure[label->tool].insert(label);
      for (const std::string_view piece : joined(line.text)) {
        if (const Label* label = sure_label(piece)) sure[label->tool].insert(label);
      }
    }
    // Of "PyTorch version" and "TRL version" the second one says whose both are.
    const auto most = std::ranges::max_element(sure, {}, [](const auto& entry) {
      return std::pair(entry.second.size(), entry.first == EnvTool::transformers);
    });
    if (most == sure.end() || (most->second.size() < 2 && most->first != EnvTool::transformers)) return false;
    report_.tool = most->first;
    return true;
  }

  bool take(const Line& line) {
    const std::string_view text = trim(line.text);
    if (text.empty()) return false;
    if (continues(text, line.ended)) return true;
    open_.clear();
    bool taken = take_package(text, line.ended) || take_gpu(text, line.ended) || take_variable(text, line.ended) ||
                 take_label(text, line.ended);
    for (const std::string_view piece : joined(text)) {
      const bool ended = line.ended || piece.end() != text.end();
      taken = take_gpu(piece, ended) || take_label(piece, ended) || taken;
    }
    if (taken && report_.line == 0) report_.line = line.number;
    return taken;
  }

  /// Lines below "GPU models and configuration:" and "cuDNN version: Probably one of the following:".
  bool continues(std::string_view text, bool ended) {
    if (open_ == "gpus" && (text.starts_with("GPU ") || text.starts_with("MIG "))) {
      if (ended) add_gpu(text);
      return true;
    }
    if (open_ != "cudnn" || !(text.starts_with('/') || (text.size() > 2 && text[1] == ':'))) return false;
    if (ended) report_.cells["cudnn"].append(" ").append(text);
    return true;
  }

  /// "[pip3] torch==2.5.1", "[pip] torch (1.0.0)", "[conda] torch  2.6.0  pypi_0  pypi".
  bool take_package(std::string_view text, bool ended) {
    if (!text.starts_with("[pip") && !text.starts_with("[conda]")) return false;
    const bool conda = text[1] == 'c';
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view rest = trim(text.substr(end + 1));
    const auto words = split_words(rest);
    const std::size_t equals = rest.find("==");
    std::string_view name;
    std::string_view version;
    if (!conda && equals != std::string_view::npos) {
      name = rest.substr(0, equals);
      version = rest.substr(equals + 2);
    } else if (words.size() >= 2) {
      name = words[0];
      version = words[1];
      if (version.starts_with('(') && version.ends_with(')')) version = version.substr(1, version.size() - 2);
    }
    const bool dated = !version.empty() && std::isdigit(static_cast<unsigned char>(version[0])) != 0;
    if (ended && is_identifier(name) && dated && report_.packages.size() < kMostEntries)
      report_.packages.push_back({std::string(name), std::string(split_words(version)[0]), conda ? "conda" : "pip"});
    return true;
  }

  void add_gpu(std::string_view text) {
    if (report_.gpus.size() < kMostEntries) report_.gpus.emplace_back(text);
  }

  /// sglang's "GPU 0,1: NVIDIA A10G" and "GPU 0,1 Compute Capability: 8.6".
  bool take_gpu(std::string_view text, bool ended) {
    if (report_.tool != EnvTool::sglang || !text.starts_with("GPU ")) return false;
    const std::size_t colon = text.find(": ");
    if (colon == std::string_view::npos || text.find_first_not_of("0123456789, GPUComuteapbliy") < colon) return false;
    if (!ended) return true;
    constexpr std::string_view kCapability = " Compute Capability";
    const std::string_view head = text.substr(0, colon);
    const std::string_view value = text.substr(colon + 2);
    if (!head.ends_with(kCapability)) {
      add_gpu(text);
      return true;
    }
    report_.cells.try_emplace("compute_capability", value);
    const std::string_view numbers = head.substr(4, head.size() - 4 - kCapability.size());
    if (report_.capabilities.size() < kMostEntries)
      report_.capabilities.emplace_back(numbers, value.substr(0, value.find(' ')));
    return true;
  }

  bool take_variable(std::string_view text, bool ended) {
    if (text.starts_with("export ")) text.remove_prefix(7);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0 || text.substr(equals, 2) == "==") return false;
    const std::string_view name = text.substr(0, equals);
    if (!facts::is_gathered_variable(name)) return false;
    if (ended && report_.variables.size() < kMostEntries) report_.variables.emplace_back(name, text.substr(equals + 1));
    return true;
  }

  bool take_label(std::string_view text, bool ended) {
    const auto cell = labelled(text);
    if (!cell) return false;
    const bool sglang = report_.tool == EnvTool::sglang;
    if (sglang && take_sglang_package(cell->first, ended ? cell->second : std::string_view())) return true;
    const Label* label = find(cell->first, report_.tool);
    // A last line that was cut has lost an unknown part of its value.
    if (label == nullptr || !ended) return label != nullptr;
    const auto [at, added] = report_.cells.try_emplace(std::string(label->slot), cell->second);
    if (!added) return true;
    open_ = label->slot;
    if (label->slot == "gpus" && !cell->second.empty()) add_gpu(cell->second);
    return true;
  }

  bool take_sglang_package(std::string_view label, std::string_view value) {
    const auto* const known =
        std::ranges::find(kSglangPackages, label, &std::pair<std::string_view, std::string_view>::first);
    if (known == kSglangPackages.end()) return false;
    const auto words = split_words(value);
    if (words.size() == 1 && std::isdigit(static_cast<unsigned char>(value[0])) != 0)
      report_.packages.push_back({std::string(known->second), std::string(value), ""});
    return true;
  }

  std::vector<Line>& lines_;
  EnvReport report_;
  std::string open_;  ///< the slot whose value goes on in the next lines
};

}  // namespace

std::string_view EnvReport::cell(std::string_view slot) const {
  const auto found = cells.find(slot);
  return found == cells.end() ? std::string_view() : std::string_view(found->second);
}

bool is_unknown_word(std::string_view value) { return std::ranges::find(kUnknown, trim(value)) != kUnknown.end(); }

std::optional<EnvReport> take_env_report(std::vector<Line>& lines) { return Reader(lines).read(); }

}  // namespace gpuwarden::capture
