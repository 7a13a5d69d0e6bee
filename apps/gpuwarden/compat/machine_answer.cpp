// SPDX-License-Identifier: Apache-2.0
// What a driver and GPUs run.
#include <fmt/format.h>

#include <algorithm>

#include "compat/answer.hpp"
#include "gpuwarden/base/text.hpp"
#include "render/columns.hpp"

namespace gpuwarden::cli::compat {
namespace {

using knowledge::RunsOn;
using knowledge::TorchBuild;
using knowledge::Version;
using Json = nlohmann::json;

constexpr std::size_t kReleasesShown = 6;

/// MAJOR.MINOR of every toolkit that can build for all GPUs of the place, newest first.
std::vector<Version> releases(const Asked& asked) {
  std::vector<Version> result;
  for (const auto& toolkit : asked.knowledge.toolkits()) result.push_back(release_of(toolkit.version));
  std::ranges::sort(result, std::greater<>());
  const auto [first, last] = std::ranges::unique(result);
  result.erase(first, last);
  return result;
}

bool builds_for_all(const Asked& asked, const Version& cuda) {
  return std::ranges::all_of(asked.place.architectures(),
                             [&](int one) { return asked.knowledge.can_target(cuda, one).value_or(true); });
}

/// "11.8 to 12.4" of releases that lie one after the other, newest first.
std::string range_text(const std::vector<Version>& range) {
  if (range.size() == 1) return to_string(range[0]);
  return fmt::format("{} to {}", to_string(range.back()), to_string(range.front()));
}

void add_driver(const Asked& asked, Answer& answer) {
  if (!asked.place.driver) {
    answer.text += "driver      not known: toolkits and frameworks are judged for the GPUs alone\n";
    return;
  }
  const auto highest = asked.knowledge.max_cuda(*asked.place.driver);
  answer.text += fmt::format("driver      {}: branch {}{}\n", to_string(*asked.place.driver),
                             branch_text(asked, asked.place.driver->major),
                             highest ? fmt::format("; offers CUDA {}", to_string(*highest)) : "");
  if (const auto* branch = asked.knowledge.branch(asked.place.driver->major))
    answer.sources.push_back(fmt::format("driver branch {}: {}", branch->branch, branch->source));
}

void add_gpus(const Asked& asked, Answer& answer) {
  for (const PlaceGpu& gpu : asked.place.gpus) {
    answer.text += fmt::format("GPU         {} x {}{}{}\n", gpu.count, printable(gpu.name),
                               gpu.architecture ? fmt::format(", compute capability {}", capability_text(*gpu.architecture))
                                                : ", not in this knowledge base",
                               gpu.model != nullptr ? fmt::format(", {}", gpu.model->architecture) : "");
    if (gpu.model != nullptr) answer.sources.push_back(fmt::format("{}: {}", gpu.name, gpu.model->source));
  }
}

void add_toolkits(const Asked& asked, Answer& answer) {
  Json list = Json::array();
  std::map<RunsOn, std::vector<Version>> by_way;
  for (const Version& cuda : releases(asked)) {
    const bool builds = builds_for_all(asked, cuda);
    Json row{{"cuda", to_string(cuda)}, {"builds_for_gpus", builds}, {"runs", nullptr}};
    if (asked.place.driver) {
      const RunsOn how = runs_here(asked, cuda);
      row["runs"] = words_for(how);
      if (builds) by_way[how].push_back(cuda);
    }
    list.push_back(std::move(row));
  }
  answer.json["toolkits"] = std::move(list);
  if (!asked.place.driver) return;
  answer.text += "\n" + asked.style.paint("CUDA toolkits whose programs run here", Tone::bold) + "\n";
  const auto line = [&](RunsOn how, const char* remark) {
    if (by_way[how].empty()) return;
    answer.text += fmt::format("  {:<13}  {}{}\n", range_text(by_way[how]), words_for(how), remark);
  };
  line(RunsOn::natively, "");
  line(RunsOn::by_minor_version,
       ": what has code for the GPU runs; PTX is not compiled,\n                 and what needs the newer driver fails");
  line(RunsOn::by_forward_compatibility, ", on data-centre GPUs only");
  line(RunsOn::not_at_all, "");
}

Json wheel_json(const Asked& asked, const TorchBuild& build) {
  const auto fit = fit_here(asked, build);
  return {{"torch", fmt::format("{}.{}.{}", build.torch.major, build.torch.minor, build.torch.patch)},
          {"build", build.build},
          {"default", build.is_default},
          {"runs", knowledge::is_fit(fit)},
          {"why", words_for(fit)}};
}

void add_torch(const Asked& asked, Answer& answer) {
  std::vector<Version> shown;
  for (const TorchBuild& build : asked.knowledge.torch_builds()) {
    if (knowledge::is_fit(fit_here(asked, build)) && std::ranges::find(shown, build.torch) == shown.end())
      shown.push_back(build.torch);
  }
  std::ranges::sort(shown, std::greater<>());
  answer.json["torch"] = Json::array();
  for (const TorchBuild& build : asked.knowledge.torch_builds())
    answer.json["torch"].push_back(wheel_json(asked, build));
  answer.text += "\n" + asked.style.paint("PyTorch wheels that run here", Tone::bold) + "\n";
  if (shown.empty()) {
    answer.text += "  none that is known\n";
    answer.exit_code = kNo;
    return;
  }
  for (std::size_t i = 0; i < std::min(shown.size(), kReleasesShown); ++i) {
    std::vector<std::string> builds;
    for (const TorchBuild* build : asked.knowledge.torch_builds_of(shown[i])) {
      if (knowledge::is_fit(fit_here(asked, *build)))
        builds.push_back(fmt::format("{}{}", build->build, build->is_default ? " (default)" : ""));
    }
    answer.text += fmt::format("  {}.{}.{:<8} {}\n", shown[i].major, shown[i].minor, shown[i].patch, join(builds, ", "));
  }
  if (shown.size() > kReleasesShown)
    answer.text += fmt::format("  and older, back to {}\n", to_string(shown.back()));
}

void add_recommendation(const Asked& asked, Answer& answer) {
  const auto* torch = knowledge::newest_torch_for(asked.knowledge, asked.place.architectures(), asked.place.driver);
  const auto* vllm = knowledge::newest_vllm_for(asked.knowledge, asked.place.architectures(), asked.place.driver);
  Json recommended{{"torch", nullptr}, {"torch_command", nullptr}, {"vllm", nullptr}, {"vllm_command", nullptr}};
  answer.text += "\n" + asked.style.paint("recommended", Tone::bold) + "\n";
  if (torch != nullptr) {
    recommended["torch"] = wheel_name(*torch);
    recommended["torch_command"] = knowledge::pip_command(*torch);
    answer.text += fmt::format("  PyTorch {:<14} {}\n", wheel_name(*torch), knowledge::pip_command(*torch));
    answer.sources.push_back(fmt::format("PyTorch {}: {}", wheel_name(*torch), torch->source));
  }
  if (vllm != nullptr) {
    const std::string version = fmt::format("{}.{}.{}", vllm->first.major, vllm->first.minor, vllm->first.patch);
    recommended["vllm"] = version;
    recommended["vllm_command"] = "pip install vllm==" + version;
    answer.text += fmt::format("  vLLM    {:<14} pip install vllm=={}  (brings PyTorch {})\n", version, version,
                               to_string(vllm->torch));
    answer.sources.push_back(fmt::format("vLLM {}: {}", version, vllm->source));
  }
  if (torch == nullptr && vllm == nullptr) answer.text += "  nothing that is known runs here\n";
  answer.json["recommended"] = std::move(recommended);
}

}  // namespace

Answer answer_machine(const Asked& asked) {
  Answer answer;
  if (asked.place.gpus.empty() && !asked.place.driver) {
    answer.text = "There is neither a GPU nor a driver to judge.\n"
                  "Name them: gpuwarden compat --gpu \"RTX 4090\" --driver 550.54.15\n";
    answer.json = {{"toolkits", Json::array()}, {"torch", Json::array()}, {"recommended", nullptr}};
    answer.exit_code = asked.place.problem ? kUnavailable : kNo;
    return answer;
  }
  add_driver(asked, answer);
  add_gpus(asked, answer);
  add_toolkits(asked, answer);
  add_torch(asked, answer);
  add_recommendation(asked, answer);
  return answer;
}

}  // namespace gpuwarden::cli::compat
