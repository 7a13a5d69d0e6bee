// SPDX-License-Identifier: Apache-2.0
// Which PyTorch, and which vLLM, for a place.
#include <fmt/format.h>

#include <algorithm>

#include "compat/answer.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli::compat {

using knowledge::TorchBuild;
using knowledge::Version;
using Json = nlohmann::json;

namespace {

constexpr std::size_t kReleasesShown = 6;

/// The place's driver; where it cannot drive one of the GPUs, the branch to take for all of them.
std::optional<Version> driver_to_take(const Asked& asked) {
  int first = 0;
  int last = 0;
  bool fits = true;
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (gpu.model == nullptr) continue;
    fits = fits && obstacle_of(asked, gpu).empty();
    first = std::max(first, gpu.model->first_driver_branch);
    const int own_last = gpu.model->last_driver_branch;
    if (own_last != 0) last = last == 0 ? own_last : std::min(last, own_last);
  }
  const int branch = fits ? 0 : asked.knowledge.recommended_branch(first, last, asked.when);
  return branch != 0 ? std::optional(Version{branch}) : asked.place.driver;
}

}  // namespace

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
  answer.text += heading(asked, "PyTorch wheels that run here");
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
    const std::string release = fmt::format("  {}.{}.{}", shown[i].major, shown[i].minor, shown[i].patch);
    answer.text += line(asked, release, join(builds, ", "));
  }
  if (shown.size() > kReleasesShown) answer.text += fmt::format("  and older, back to {}\n", to_string(shown.back()));
}

void add_recommendation(const Asked& asked, Answer& answer) {
  Json recommended{{"driver", nullptr},
                   {"torch", nullptr},
                   {"torch_command", nullptr},
                   {"vllm", nullptr},
                   {"vllm_command", nullptr}};
  answer.text += heading(asked, "recommended");
  const auto driver = driver_to_take(asked);
  if (driver && driver != asked.place.driver) {
    recommended["driver"] = to_string(*driver);
    answer.text += command_line("  driver", branch_text(asked, driver->major));
  }
  const auto* torch = knowledge::newest_torch_for(asked.knowledge, asked.place.architectures(), driver);
  const auto* vllm = knowledge::newest_vllm_for(asked.knowledge, asked.place.architectures(), driver);
  if (torch != nullptr) {
    recommended["torch"] = wheel_name(*torch);
    recommended["torch_command"] = knowledge::pip_command(*torch);
    answer.text += command_line("  PyTorch", knowledge::pip_command(*torch));
    answer.sources.push_back(fmt::format("PyTorch {}: {}", wheel_name(*torch), torch->source));
  }
  if (vllm != nullptr) {
    const std::string version = fmt::format("{}.{}.{}", vllm->first.major, vllm->first.minor, vllm->first.patch);
    recommended["vllm"] = version;
    recommended["vllm_command"] = "pip install vllm==" + version;
    answer.text += command_line(
        "  vLLM", fmt::format("pip install vllm=={}   (brings PyTorch {})", version, to_string(vllm->torch)));
    answer.sources.push_back(fmt::format("vLLM {}: {}", version, vllm->source));
  }
  if (torch == nullptr && vllm == nullptr) answer.text += "  nothing that is known runs here\n";
  answer.json["recommended"] = std::move(recommended);
}

}  // namespace gpuwarden::cli::compat
