// SPDX-License-Identifier: Apache-2.0
// What a driver and GPUs run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "compat/answer.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli::compat {
namespace {

using knowledge::RunsOn;
using knowledge::Version;
using Json = nlohmann::json;

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
    answer.text += line(asked, "driver", "not known: toolkits and frameworks are judged for the GPUs alone");
    return;
  }
  const Version driver = *asked.place.driver;
  const auto highest = asked.knowledge.max_cuda(driver);
  const bool newer = driver.major > asked.knowledge.newest_branch();
  const std::string offers =
      highest ? fmt::format("; offers CUDA {}{}", to_string(*highest), newer ? " at least" : "") : "";
  answer.text += line(asked, "driver",
                      fmt::format("{}: branch {}{}", to_string(driver), branch_text(asked, driver.major), offers));
  if (const auto* branch = asked.knowledge.branch(driver.major))
    answer.sources.push_back(fmt::format("driver branch {}: {}", branch->branch, branch->source));
}

void add_gpus(const Asked& asked, Answer& answer) {
  for (const PlaceGpu& gpu : asked.place.gpus) {
    const std::string capability = gpu.architecture
                                       ? fmt::format(", compute capability {}", capability_text(*gpu.architecture))
                                       : ", not in this knowledge base";
    const std::string generation = gpu.model != nullptr ? fmt::format(", {}", gpu.model->architecture) : "";
    answer.text +=
        line(asked, "GPU", fmt::format("{} x {}{}{}", gpu.count, printable(gpu.name), capability, generation));
    const std::string obstacle = obstacle_of(asked, gpu);
    if (!obstacle.empty()) {
      answer.text += line(asked, "", asked.style.paint(obstacle, Tone::bad));
      answer.json["obstacles"].push_back(fmt::format("{}: {}", gpu.name, obstacle));
      answer.exit_code = kNo;
    }
    if (gpu.model != nullptr) answer.sources.push_back(fmt::format("{}: {}", gpu.name, gpu.model->source));
  }
}

/// What compiles for the GPUs, where no driver says what runs.
std::string building_text(const Asked& asked) {
  std::vector<Version> range;
  for (const Version& cuda : releases(asked)) {
    if (builds_for_all(asked, cuda)) range.push_back(cuda);
  }
  return range.empty() ? "none builds for all of these GPUs" : range_text(range) + " build for all of these GPUs";
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
  if (!asked.place.driver) {
    answer.text += line(asked, "toolkits", building_text(asked));
    return;
  }
  if (is_useless(asked)) return;
  answer.text += heading(asked, "CUDA toolkits whose programs run here");
  constexpr auto kRemarks = std::to_array<std::pair<RunsOn, std::string_view>>(
      {{RunsOn::natively, ""},
       {RunsOn::by_minor_version,
        ": what has code for the GPU runs; PTX is not compiled, and what needs the newer driver fails"},
       {RunsOn::by_forward_compatibility, ", on data-centre GPUs only"},
       {RunsOn::not_at_all, ""}});
  for (const auto& [how, remark] : kRemarks) {
    if (by_way[how].empty()) continue;
    answer.text +=
        line(asked, fmt::format("  {:<14}", range_text(by_way[how])), fmt::format("{}{}", words_for(how), remark));
  }
}

}  // namespace

Answer answer_machine(const Asked& asked) {
  Answer answer;
  answer.json["obstacles"] = Json::array();
  if (asked.place.gpus.empty() && !asked.place.driver) {
    answer.text =
        "There is neither a GPU nor a driver to judge.\n"
        "Name them: gpuwarden compat --gpu \"RTX 4090\" --driver 550.54.15\n";
    answer.json.update({{"toolkits", Json::array()}, {"torch", Json::array()}, {"recommended", nullptr}});
    answer.exit_code = asked.place.problem ? kUnavailable : kNo;
    return answer;
  }
  add_driver(asked, answer);
  add_gpus(asked, answer);
  add_toolkits(asked, answer);
  // With a driver that drives none of the GPUs nothing runs: only the way out is worth showing.
  answer.json["torch"] = Json::array();
  if (!is_useless(asked)) add_torch(asked, answer);
  add_recommendation(asked, answer);
  return answer;
}

}  // namespace gpuwarden::cli::compat
