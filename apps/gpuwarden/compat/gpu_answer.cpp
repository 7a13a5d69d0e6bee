// SPDX-License-Identifier: Apache-2.0
// A GPU, or an architecture: what it is, and which drivers, toolkits and frameworks serve it.
#include <fmt/format.h>

#include <algorithm>

#include "compat/answer.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli::compat {
namespace {

using knowledge::GpuModel;
using knowledge::OpenModule;
using knowledge::TorchBuild;
using knowledge::Version;
using Json = nlohmann::json;

constexpr std::size_t kOthersShown = 8;

Json number(double value) { return value > 0 ? Json(value) : Json(); }

std::string_view words_of(OpenModule module) {
  switch (module) {
    case OpenModule::required:
      return "required";
    case OpenModule::supported:
      return "supported";
    case OpenModule::unsupported:
      return "unsupported";
    case OpenModule::unknown:
      break;
  }
  return "";
}

std::string_view module_text(OpenModule module) {
  switch (module) {
    case OpenModule::required:
      return "the open one only";
    case OpenModule::supported:
      return "open or proprietary";
    case OpenModule::unsupported:
      return "the proprietary one only";
    case OpenModule::unknown:
      break;
  }
  return "not known";
}

/// "12.8 or newer", "8.0 to 12.9".
std::string range_of(const Version& first, const Version& last) {
  if (!first) return "not known";
  return last ? fmt::format("{} to {}", to_string(first), to_string(last)) : to_string(first) + " or newer";
}

struct Rate {
  const char* key;
  const char* label;
  double GpuModel::* value;
};
constexpr auto kRates = std::to_array<Rate>({{"fp32_tflops", "FP32", &GpuModel::fp32_tflops},
                                             {"tf32_dense_tflops", "TF32", &GpuModel::tf32_dense_tflops},
                                             {"fp16_dense_tflops", "FP16", &GpuModel::fp16_dense_tflops},
                                             {"bf16_dense_tflops", "BF16", &GpuModel::bf16_dense_tflops},
                                             {"fp8_dense_tflops", "FP8", &GpuModel::fp8_dense_tflops},
                                             {"int8_dense_tops", "INT8", &GpuModel::int8_dense_tops}});

void add_hardware(const Asked& asked, const GpuModel& model, Answer& answer) {
  answer.json.update({{"name", model.name},
                      {"generation", model.architecture},
                      {"compute_capability", capability_text(knowledge::architecture_of(model))},
                      {"memory_gb", number(model.memory_gb)},
                      {"memory_bandwidth_gb_s", number(model.memory_bandwidth_gb_s)},
                      {"multiprocessors", number(model.multiprocessors)},
                      {"cuda_cores", number(model.cuda_cores)},
                      {"tdp_watts", number(model.tdp_watts)},
                      {"nvlink_gb_s", number(model.nvlink_gb_s)},
                      {"mig_max_instances", model.mig_max_instances}});
  answer.text +=
      asked.style.paint(model.name, Tone::bold) + fmt::format("  {}, compute capability {}\n", model.architecture,
                                                              capability_text(knowledge::architecture_of(model)));
  answer.text += line(asked, "memory", fmt::format("{:g} GB, {:g} GB/s", model.memory_gb, model.memory_bandwidth_gb_s));
  std::vector<std::string> rates;
  for (const Rate& rate : kRates) {
    const double value = model.*rate.value;
    answer.json[rate.key] = number(value);
    if (value > 0) rates.push_back(fmt::format("{} {:g}", rate.label, value));
  }
  if (!rates.empty()) answer.text += line(asked, "rates", join(rates, ", ") + " (tera-operations per second, dense)");
  std::vector<std::string> parts{fmt::format("{} SMs", model.multiprocessors)};
  if (model.tdp_watts > 0) parts.push_back(fmt::format("{:g} W", model.tdp_watts));
  parts.push_back(model.nvlink_gb_s > 0 ? fmt::format("NVLink {:g} GB/s", model.nvlink_gb_s) : "no NVLink");
  parts.push_back(model.mig_max_instances > 0 ? fmt::format("MIG: up to {} instances", model.mig_max_instances)
                                              : "no MIG");
  answer.text += line(asked, "has", join(parts, ", "));
}

void add_drivers(const Asked& asked, const GpuModel& model, Answer& answer) {
  const TorchBuild* wheel = knowledge::newest_torch_for(asked.knowledge, {knowledge::architecture_of(model)}, {});
  const auto cuda = wheel != nullptr ? knowledge::cuda_of_build(wheel->build) : std::nullopt;
  const auto needs = knowledge::driver_needs(asked.knowledge, model, cuda, "", asked.when);
  answer.json.update({{"first_cuda", version_json(model.first_cuda)},
                      {"last_cuda", version_json(model.last_cuda)},
                      {"min_driver", version_json(needs.minimum)},
                      {"recommended_driver", version_json(needs.recommended)},
                      {"last_driver_branch", needs.last_branch != 0 ? Json(needs.last_branch) : Json()},
                      {"open_kernel_module", Json()}});
  if (model.open_module != OpenModule::unknown) answer.json["open_kernel_module"] = words_of(model.open_module);
  answer.text += line(asked, "CUDA", range_of(model.first_cuda, model.last_cuda) + " builds for it");
  std::string drivers =
      needs.minimum ? fmt::format("branch {} or newer", needs.minimum.major) : "first branch not known";
  if (needs.last_branch != 0) drivers += fmt::format(", {} is the last", branch_text(asked, needs.last_branch));
  answer.text += line(asked, "driver", drivers);
  answer.text += line(
      asked, "recommended",
      needs.recommended ? branch_text(asked, needs.recommended.major) : "no branch that is still supported serves it");
  answer.text += line(asked, "kernel module", module_text(model.open_module));
  answer.sources.push_back(fmt::format("{}: {}", model.name, model.source));
  answer.sources.insert(answer.sources.end(), needs.sources.begin(), needs.sources.end());
}

/// The place's driver, unless it is of a branch that does not serve such a GPU (0: no bound); then it is told.
std::optional<knowledge::Version> serving_driver(const Asked& asked, int first_branch, int last_branch,
                                                 Answer& answer) {
  const auto driver = asked.place.driver;
  if (!driver) return driver;
  const bool too_old = first_branch != 0 && driver->major < first_branch;
  if (!too_old && (last_branch == 0 || driver->major <= last_branch)) return driver;
  answer.text += line(asked, "",
                      fmt::format("driver {} {}; what follows is for one that does", to_string(*driver),
                                  too_old ? "does not know it" : "no longer serves it"));
  answer.exit_code = kNo;
  return std::nullopt;
}

/// The first and the newest PyTorch with code for an architecture.
void add_frameworks(const Asked& asked, int architecture, const std::optional<knowledge::Version>& driver,
                    Answer& answer) {
  const TorchBuild* newest = knowledge::newest_torch_for(asked.knowledge, {architecture}, driver);
  const TorchBuild* first = nullptr;
  for (const TorchBuild& build : asked.knowledge.torch_builds()) {
    if (!knowledge::is_fit(knowledge::wheel_fit(asked.knowledge, build, architecture, driver))) continue;
    if (first == nullptr || build.torch < first->torch) first = &build;
  }
  const auto* vllm = knowledge::newest_vllm_for(asked.knowledge, {architecture}, driver);
  answer.json["first_torch"] = first != nullptr ? Json(wheel_name(*first)) : Json();
  answer.json["newest_torch"] = newest != nullptr ? Json(wheel_name(*newest)) : Json();
  answer.json["torch_command"] = newest != nullptr ? Json(knowledge::pip_command(*newest)) : Json();
  answer.json["newest_vllm"] = vllm != nullptr ? version_json(vllm->first) : Json();
  const std::string on = driver ? " on driver " + to_string(*driver) : "";
  if (newest == nullptr) {
    answer.text += line(asked, "PyTorch", "no wheel that is known has code for it" + on);
  } else {
    answer.text += line(asked, "PyTorch", fmt::format("{} to {}{}", wheel_name(*first), wheel_name(*newest), on));
    answer.text += command_line("", knowledge::pip_command(*newest));
    answer.sources.push_back(fmt::format("PyTorch {}: {}", wheel_name(*newest), newest->source));
  }
  answer.text += line(asked, "vLLM", vllm != nullptr ? to_string(vllm->first) + on : "none that is known" + on);
}

/// Which compiled code runs on an architecture (source: CUDA programming guide, binary compatibility).
std::string code_text(int architecture) {
  constexpr int kFirstWithOwnCode = 90;
  const std::string own = architecture >= kFirstWithOwnCode
                              ? fmt::format("; of code for one architecture alone only sm_{}a", architecture)
                              : "";
  const int first = architecture / 10 * 10;
  const std::string range =
      first == architecture ? fmt::format("sm_{}", first) : fmt::format("sm_{} to sm_{}", first, architecture);
  return fmt::format("{}, and PTX up to compute_{}{}", range, architecture, own);
}

Error unknown_gpu(const Asked& asked, const std::string& words) {
  std::vector<std::string> names;
  for (const GpuModel& model : asked.knowledge.models()) {
    const std::string_view name = model.name;
    names.emplace_back(name.starts_with("NVIDIA ") ? name.substr(7) : name);
    if (names.back().starts_with("GeForce ")) names.push_back(names.back().substr(8));
  }
  const std::string close = closest_match(words, names);
  return {ErrorCode::not_found,
          fmt::format("'{}' is no question that is understood, and no GPU that is known", printable(words)),
          close.empty() ? "gpuwarden compat --help shows what can be asked" : fmt::format("did you mean '{}'?", close)};
}

}  // namespace

Result<Answer> answer_gpu(const Asked& asked, const std::string& words) {
  const auto models = knowledge::models_named(asked.knowledge, words);
  if (models.empty()) {
    const auto architecture = asked.knowledge.architecture_of_name(words);
    if (!architecture) return std::unexpected(unknown_gpu(asked, words));
    Answer answer = answer_architecture(asked, *architecture);
    answer.text = fmt::format("{} is not in this knowledge base; its generation is:\n", printable(words)) + answer.text;
    return answer;
  }
  Answer answer;
  add_hardware(asked, *models[0], answer);
  add_drivers(asked, *models[0], answer);
  const auto driver = serving_driver(asked, models[0]->first_driver_branch, models[0]->last_driver_branch, answer);
  add_frameworks(asked, knowledge::architecture_of(*models[0]), driver, answer);
  std::vector<std::string> others;
  for (std::size_t i = 1; i < models.size(); ++i) others.emplace_back(models[i]->name);
  answer.json["also"] = others;
  const std::size_t all = others.size();
  others.resize(std::min(all, kOthersShown));
  const std::string rest = all > kOthersShown ? fmt::format(" and {} more", all - kOthersShown) : "";
  if (!others.empty()) answer.text += line(asked, "also named so", join(others, ", ") + rest);
  return answer;
}

Answer answer_architecture(const Asked& asked, int architecture) {
  Answer answer;
  const auto* row = asked.knowledge.architecture(architecture);
  std::vector<std::string> names;
  int first_branch = 0;
  int last_branch = 0;
  for (const GpuModel& model : asked.knowledge.models()) {
    if (knowledge::architecture_of(model) != architecture) continue;
    names.emplace_back(model.name);
    first_branch = first_branch == 0 ? model.first_driver_branch : std::min(first_branch, model.first_driver_branch);
    last_branch = std::max(last_branch, model.last_driver_branch);
  }
  answer.json = {{"architecture", architecture},
                 {"generation", row != nullptr ? Json(row->name) : Json()},
                 {"first_cuda", row != nullptr ? version_json(row->first_cuda) : Json()},
                 {"last_cuda", row != nullptr ? version_json(row->last_cuda) : Json()},
                 {"min_driver", first_branch != 0 ? Json(std::to_string(first_branch)) : Json()},
                 {"last_driver_branch", last_branch != 0 ? Json(last_branch) : Json()},
                 {"gpus", names}};
  answer.text = asked.style.paint(fmt::format("sm_{}", architecture), Tone::bold) +
                fmt::format("  compute capability {}{}\n", capability_text(architecture),
                            row != nullptr ? fmt::format(", {}", row->name) : "");
  if (row == nullptr) {
    answer.text += line(asked, "note", "not in this knowledge base");
    answer.exit_code = kNo;
    return answer;
  }
  answer.text += line(asked, "CUDA", range_of(row->first_cuda, row->last_cuda) + " builds for it");
  if (first_branch != 0)
    answer.text += line(asked, "driver",
                        fmt::format("branch {} or newer{}", first_branch,
                                    last_branch != 0 ? fmt::format(", {} is the last", last_branch) : ""));
  answer.text += line(asked, "runs code for", code_text(architecture));
  if (!names.empty()) answer.text += line(asked, "GPUs", join(names, ", "));
  add_frameworks(asked, architecture, serving_driver(asked, first_branch, last_branch, answer), answer);
  answer.sources.push_back(fmt::format("sm_{}: {}", architecture, row->source));
  return answer;
}

}  // namespace gpuwarden::cli::compat
