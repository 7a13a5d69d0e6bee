// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/audience.hpp"

#include <algorithm>
#include <array>

#include "diagnosis/machine.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/maker_steps.hpp"

namespace gpuwarden::diagnosis {
namespace {

using Tags = std::set<std::string>;

constexpr std::string_view kRocm = "rocm";
constexpr std::string_view kBackend = "backend";

/// Whether the facts are of a machine that no Mac is.
bool is_no_mac(const facts::Snapshot* machine) {
  if (machine == nullptr) return false;
  if (!machine->gpus.empty() || machine->driver_version || machine->kernel_module_version) return true;
  const auto distribution = machine->environment ? machine->environment->host.distribution : std::nullopt;
  return (distribution && distribution != knowledge::kMacos) ||
         (machine->environment && machine->environment->host.kernel);
}

/// By the log's own words, and by what is known of the machine.
knowledge::Platform platform_of(const Reading& reading, std::initializer_list<const facts::Snapshot*> machines) {
  Tags tags = reading.tags;
  for (const facts::Snapshot* machine : machines) {
    if (machine != nullptr) tags.merge(tags_of(*machine));
  }
  if (tags.contains("wsl")) return knowledge::Platform::wsl;
  if (tags.contains("windows")) return knowledge::Platform::windows;
  // A Mac's own lines may stand around those of a machine that was reached from it.
  constexpr auto kOfOthers = std::to_array<std::string_view>(
      {"cuda_machine", "smi_works", "nvidia_module", "slurm", "kubernetes", "jetson", "rocm"});
  const bool elsewhere = std::ranges::any_of(kOfOthers, [&](auto tag) { return tags.contains(std::string(tag)); }) ||
                         std::ranges::any_of(machines, is_no_mac);
  return tags.contains("mac_machine") && !elsewhere ? knowledge::Platform::macos : knowledge::Platform::linux_own;
}

/// Whether the log is of a program that has no PyTorch in it.
bool is_without_torch(const Reading& reading) {
  const auto is_set = [&](std::string_view tag) { return reading.tags.contains(std::string(tag)); };
  constexpr auto kOthers = std::to_array<std::string_view>({"jax", "llama_cpp", "tensorflow"});
  constexpr auto kWithTorch = std::to_array<std::string_view>({"torch", "vllm", "sglang", "comfyui"});
  if (std::ranges::none_of(kOthers, is_set) || std::ranges::any_of(kWithTorch, is_set)) return false;
  const auto tells = [](std::string_view text) { return to_lower(text).contains("torch"); };
  return std::ranges::none_of(reading.events, [&](const Event& event) { return tells(event.text); }) &&
         std::ranges::none_of(reading.tracebacks,
                              [&](const Traceback& end) { return tells(end.exception) || tells(end.frame); });
}

/// Whether the GPUs are AMD's, where a cause's own evidence does not say otherwise. A HIP program says so in its own
/// errors; of other words (an amdgpu in a list of modules) a machine may have both makers' GPUs.
bool is_of_amd(const Reading& reading, std::initializer_list<const facts::Snapshot*> machines) {
  if (reading.tags.contains("hip")) return true;
  const auto has_nvidia = [](const facts::Snapshot* machine) {
    return machine != nullptr && std::ranges::any_of(machine->gpus, [](const facts::GpuRecord& record) {
             return record.gpu.vendor == "NVIDIA";
           });
  };
  if (reading.tags.contains("cuda_machine") || std::ranges::any_of(machines, has_nvidia)) return false;
  return reading.tags.contains(std::string(kRocm)) || std::ranges::any_of(machines, [](const auto* machine) {
           return machine != nullptr && tags_of(*machine).contains(std::string(kRocm));
         });
}

/// Whether a cause is of NVIDIA's GPUs by its own evidence, whatever else the log tells of.
bool is_of_nvidia(const Cause& cause, const Tags& tags) {
  constexpr auto kDriver = std::to_array<std::string_view>({"NVRM", "Xid"});
  constexpr auto kProgram =
      std::to_array<std::string_view>({"CUDA error", "CUDA out of memory", "CUDA_ERROR_", "cudaError"});
  constexpr auto kOthers = std::to_array<std::string_view>({"HIP", "ROCm", "hipError", "rocBLAS"});
  // llama.cpp built for AMD's GPUs has lines of its CUDA code (ggml/src/ggml-cuda, which ggml-hip compiles).
  const bool both_makers = tags.contains("llama_cpp");
  return std::ranges::any_of(cause.evidence, [&](const Evidence& one) {
    const auto names = [&](std::string_view word) { return one.text.contains(word); };
    if (std::ranges::any_of(kDriver, names)) return true;
    return !both_makers && std::ranges::any_of(kProgram, names) && std::ranges::none_of(kOthers, names);
  });
}

/// What only one program's reader can use, by that program; a page that speaks of no program, or of the usual one, is
/// said with the program's own.
struct ProgramsPage {
  std::string_view program;
  std::string_view usual;  ///< how the usual page begins
  std::string_view own;
};
constexpr std::string_view kTorchMemory = "https://pytorch.org/docs/stable/notes/cuda.html";
constexpr std::string_view kKvCache = "https://huggingface.co/docs/transformers/kv_cache";
constexpr std::string_view kSignals = "https://man7.org/linux/man-pages/man7/signal.7.html";
constexpr std::string_view kSglangQuestions = "https://docs.sglang.io/references/faq.html";
constexpr auto kPages = std::to_array<ProgramsPage>(
    {{"vllm", kKvCache, "https://docs.vllm.ai/en/latest/configuration/conserving_memory.html"},
     {"vllm", kSignals, "https://docs.vllm.ai/en/latest/usage/troubleshooting.html"},
     {"sglang", kKvCache, kSglangQuestions},
     {"sglang", kSignals, kSglangQuestions},
     {"jax", kTorchMemory, "https://docs.jax.dev/en/latest/gpu_memory_allocation.html"},
     {"llama_cpp", kTorchMemory, "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"}});

std::string page_for(std::string_view page, const Audience& audience) {
  const auto* const row = std::ranges::find_if(kPages, [&](const ProgramsPage& one) {
    return audience.tags.contains(std::string(one.program)) && page.starts_with(one.usual);
  });
  const bool with_torch = audience.tags.contains("vllm") || audience.tags.contains("sglang");
  if (row == kPages.end() || (row->usual == kTorchMemory && with_torch)) return std::string(page);
  return std::string(row->own);
}

}  // namespace

void leave_out_torch(std::vector<std::string>& steps) {
  const auto names_torch = [](const std::string& step) {
    const std::string lower = to_lower(step);
    return lower.contains("torch") && !lower.contains("jax") && !lower.contains("llama") &&
           !lower.contains("tensorflow");
  };
  if (!std::ranges::all_of(steps, names_torch)) std::erase_if(steps, names_torch);
}

Audience audience_of(const Reading& reading, std::initializer_list<const facts::Snapshot*> machines) {
  return {platform_of(reading, machines), is_of_amd(reading, machines), is_without_torch(reading), reading.tags};
}

void suit(Cause& cause, const Audience& audience) {
  const Fact rocm = std::string(kRocm);
  const auto backend = cause.facts.find(std::string(kBackend));
  const bool nvidia = is_of_nvidia(cause, audience.tags);
  const bool amd = !nvidia && (audience.amd || (backend != cause.facts.end() && backend->second == rocm));
  if (amd || (!nvidia && audience.tags.contains(std::string(kRocm))))
    cause.facts.try_emplace(std::string(kBackend), rocm);
  if (amd) {
    cause.fix = knowledge::steps_for_amd(cause.fix);
    cause.confirm = knowledge::steps_for_amd(cause.confirm);
    cause.link = knowledge::link_for_amd(cause.link);
  }
  cause.fix = knowledge::steps_on(audience.platform, cause.fix);
  cause.confirm = knowledge::tests_on(audience.platform, cause.confirm);
  if (audience.without_torch) {
    leave_out_torch(cause.fix);
    leave_out_torch(cause.confirm);
  }
  cause.link = page_for(cause.link, audience);
}

}  // namespace gpuwarden::diagnosis
