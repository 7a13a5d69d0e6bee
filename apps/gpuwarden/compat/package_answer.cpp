// SPDX-License-Identifier: Apache-2.0
// What a framework needs: PyTorch and vLLM by their tables, the others in their maintainers' words.
#include <fmt/format.h>

#include <algorithm>

#include "compat/answer.hpp"
#include "gpuwarden/base/text.hpp"
#include "render/columns.hpp"

namespace gpuwarden::cli::compat {
namespace {

using knowledge::ComponentRelease;
using knowledge::RunsOn;
using knowledge::TorchBuild;
using knowledge::Version;
using knowledge::VllmRelease;
using Json = nlohmann::json;

std::string three(const Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

// ---- PyTorch

/// The rows of a release, under the number that was asked for: releases of one MAJOR.MINOR have the same builds.
std::vector<TorchBuild> builds_of(const Asked& asked, const std::string& text, const Version& version) {
  std::vector<TorchBuild> builds;
  for (const TorchBuild* row : asked.knowledge.torch_builds_of(version)) {
    builds.push_back(*row);
    if (std::ranges::count(text, '.') >= 2) builds.back().torch = version;
  }
  return builds;
}

void add_wheels(const Asked& asked, const std::vector<TorchBuild>& builds, Answer& answer) {
  std::vector<std::vector<std::string>> table{{"wheel", "driver at least", "code for compute capability"}};
  if (!asked.place.is_empty()) table[0].emplace_back("here");
  answer.json["wheels"] = Json::array();
  for (const TorchBuild& build : builds) {
    table.push_back({wheel_name(build) + (build.is_default ? " (default)" : ""), to_string(build.min_driver),
                     architectures_text(build.architectures)});
    Json row = wheel_json(asked, build);
    if (asked.place.is_empty()) {
      row["runs"] = nullptr;
      row["why"] = nullptr;
    } else {
      table.back().emplace_back(words_for(fit_here(asked, build)));
    }
    row["min_driver"] = version_json(build.min_driver);
    row["architectures"] = split(build.architectures, ';');
    row["python"] = {to_string(build.python_lowest), to_string(build.python_highest)};
    row["command"] = knowledge::pip_command(build);
    answer.json["wheels"].push_back(std::move(row));
    answer.sources.push_back(fmt::format("PyTorch {}: {}", wheel_name(build), build.source));
  }
  answer.text += "\n" + columns(table, asked.style);
}

/// The wheel that the question means: its build, else the default one, else one that runs here.
const TorchBuild* chosen(const Asked& asked, const std::vector<TorchBuild>& builds,
                         const std::optional<std::string>& build) {
  if (build) {
    const auto found = std::ranges::find(builds, *build, &TorchBuild::build);
    return found == builds.end() ? nullptr : &*found;
  }
  const TorchBuild* best = nullptr;
  for (const TorchBuild& one : builds) {
    const auto key = [&](const TorchBuild& row) {
      return std::pair(knowledge::is_fit(fit_here(asked, row)), row.is_default);
    };
    if (best == nullptr || key(*best) <= key(one)) best = &one;
  }
  return best;
}

/// What keeps the GPUs of the place from working at all.
std::string gpu_obstacle(const Asked& asked) {
  for (const PlaceGpu& gpu : asked.place.gpus) {
    const std::string obstacle = obstacle_of(asked, gpu);
    if (!obstacle.empty()) return fmt::format("{}: {}", printable(gpu.name), obstacle);
  }
  return "";
}

void add_verdict(const Asked& asked, const TorchBuild& wheel, Answer& answer) {
  if (!asked.place.is_empty()) {
    const auto fit = fit_here(asked, wheel);
    const std::string obstacle = gpu_obstacle(asked);
    answer.text += line(asked, "here", fmt::format("{}: {}", wheel_name(wheel), words_for(fit)));
    if (!obstacle.empty()) answer.text += line(asked, "", obstacle);
    if (!obstacle.empty() || !knowledge::is_fit(fit)) {
      answer.exit_code = kNo;
      add_recommendation(asked, answer);
      return;
    }
  }
  answer.text += command_line("install", knowledge::pip_command(wheel));
}

Answer unknown_torch(const Asked& asked, const Version& version, const std::optional<std::string>& build) {
  Answer answer;
  const Version newest = asked.knowledge.newest_torch();
  const bool newer = version > newest;
  answer.json = {
      {"package", "torch"}, {"version", to_string(version)}, {"newer_than_known", newer}, {"wheels", Json::array()}};
  answer.text = fmt::format(
      "PyTorch {} is {}\n", to_string(version),
      newer ? "newer than this knowledge base, which ends with " + three(newest) : "not in this knowledge base");
  const auto cuda = build ? knowledge::cuda_of_build(*build) : std::nullopt;
  const auto driver = cuda ? asked.knowledge.min_driver(*cuda, false) : std::nullopt;
  answer.json["min_driver"] = version_json(driver.value_or(Version{}));
  if (driver)
    answer.text +=
        line(asked, "driver",
             fmt::format("{} or newer, as every program built with CUDA {}", to_string(*driver), to_string(*cuda)));
  if (!newer) answer.exit_code = kNo;
  return answer;
}

Answer answer_torch(const Asked& asked, const doctor::Purpose::Package& package) {
  Answer answer;
  if (!package.version) {
    answer.json["package"] = "torch";
    answer.text = fmt::format("PyTorch: the newest that is known is {}\n", three(asked.knowledge.newest_torch()));
    add_torch(asked, answer);
    add_recommendation(asked, answer);
    return answer;
  }
  const Version version = Version::parse(*package.version).value_or(Version{});
  const auto builds = builds_of(asked, *package.version, version);
  if (builds.empty()) return unknown_torch(asked, version, package.build);
  answer.json = {{"package", "torch"},
                 {"version", three(builds[0].torch)},
                 {"newer_than_known", false},
                 {"released", builds[0].released.empty() ? Json() : Json(builds[0].released)}};
  answer.text = asked.style.paint("PyTorch " + three(builds[0].torch), Tone::bold) +
                (builds[0].released.empty() ? "" : fmt::format(", released {}", builds[0].released)) + "\n";
  if (builds[0].python_lowest)
    answer.text +=
        line(asked, "Python",
             fmt::format("{} to {}", to_string(builds[0].python_lowest), to_string(builds[0].python_highest)));
  add_wheels(asked, builds, answer);
  answer.text += "\n";
  const TorchBuild* wheel = chosen(asked, builds, package.build);
  if (wheel == nullptr) {
    answer.text += line(asked, "note", fmt::format("there is no {} wheel of it that is known", *package.build));
    answer.exit_code = kNo;
  } else {
    add_verdict(asked, *wheel, answer);
  }
  return answer;
}

// ---- vLLM

/// Why the release's wheel does not run on the place; empty: it does.
std::string obstacle(const Asked& asked, const VllmRelease& row) {
  if (const std::string gpu = gpu_obstacle(asked); !gpu.empty()) return gpu;
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (gpu.architecture && *gpu.architecture < row.min_capability)
      return fmt::format("{} has compute capability {}", printable(gpu.name), capability_text(*gpu.architecture));
  }
  if (asked.place.driver) {
    const RunsOn how = runs_here(asked, row.cuda);
    if (how != RunsOn::natively && how != RunsOn::by_minor_version)
      return fmt::format("driver {} runs CUDA {} {}", to_string(*asked.place.driver), to_string(row.cuda),
                         words_for(how));
  }
  const TorchBuild* wheel = asked.knowledge.torch(row.torch, knowledge::build_of_cuda(row.cuda));
  if (wheel != nullptr && !knowledge::is_fit(fit_here(asked, *wheel)))
    return fmt::format("its PyTorch {}: {}", wheel_name(*wheel), words_for(fit_here(asked, *wheel)));
  return "";
}

void add_vllm_place(const Asked& asked, const VllmRelease& row, Answer& answer) {
  answer.json["here"] = nullptr;
  if (asked.place.is_empty()) return;
  const std::string why = obstacle(asked, row);
  answer.json["here"] = {{"runs", why.empty()}, {"why", why}};
  answer.text += line(asked, "here", why.empty() ? "runs" : "no: " + why);
  if (why.empty()) return;
  answer.exit_code = kNo;
  add_recommendation(asked, answer);
}

Answer answer_vllm(const Asked& asked, const std::optional<std::string>& text) {
  Answer answer;
  const auto* newest = knowledge::newest_vllm_for(asked.knowledge, asked.place.architectures(), asked.place.driver);
  const auto version = text ? Version::parse(*text) : newest != nullptr ? std::optional(newest->first) : std::nullopt;
  const VllmRelease* row = version ? asked.knowledge.vllm_near(*version) : nullptr;
  answer.json = {{"package", "vllm"}, {"version", version ? Json(three(*version)) : Json()}};
  if (row == nullptr) {
    answer.text = text ? fmt::format("vLLM {} is not in this knowledge base\n", printable(*text))
                       : "no vLLM that is known runs here\n";
    answer.exit_code = kNo;
    return answer;
  }
  const bool estimated = *version > row->last;
  const auto driver = asked.knowledge.min_driver(row->cuda, false);
  answer.json.update({{"estimated", estimated},
                      {"torch", three(row->torch)},
                      {"cuda", to_string(row->cuda)},
                      {"min_compute_capability", capability_text(row->min_capability)},
                      {"min_driver", version_json(driver.value_or(Version{}))},
                      {"command", "pip install vllm==" + three(*version)}});
  answer.text = asked.style.paint("vLLM " + three(*version), Tone::bold) + "\n";
  if (estimated)
    answer.text += line(asked, "note",
                        fmt::format("not in this knowledge base itself: the needs of {}, the nearest "
                                    "known release before it",
                                    three(row->last.patch == 99 ? row->first : row->last)));
  answer.text += line(asked, "PyTorch", three(row->torch) + " (pinned)");
  answer.text += line(asked, "CUDA", to_string(row->cuda) + " in the default wheel");
  if (driver) answer.text += line(asked, "driver", to_string(*driver) + " or newer");
  answer.text +=
      line(asked, "GPU", fmt::format("compute capability {} or higher", capability_text(row->min_capability)));
  answer.text += command_line("install", "pip install vllm==" + three(*version));
  answer.sources.push_back(fmt::format("vLLM {}: {}", three(row->first), row->source));
  add_vllm_place(asked, *row, answer);
  return answer;
}

bool speaks_of(const ComponentRelease& row, const std::string& version) {
  if (version.empty() || row.version.starts_with(version)) return true;
  const auto asked = Version::parse(version);
  const auto own = Version::parse(row.version);
  return asked && own && release_of(*asked) == release_of(*own);
}

}  // namespace

Result<Answer> answer_package(const Asked& asked, const doctor::Purpose::Package& package) {
  if (package.name == "torch") return answer_torch(asked, package);
  if (package.name == "vllm") return answer_vllm(asked, package.version);
  return answer_component(asked, package.name, package.version.value_or(""));
}

Result<Answer> answer_component(const Asked& asked, const std::string& name, const std::string& version) {
  std::vector<const ComponentRelease*> all;
  std::vector<const ComponentRelease*> rows;
  for (const ComponentRelease& row : asked.knowledge.components()) {
    if (!row.component.starts_with(to_lower(name))) continue;
    all.push_back(&row);
    if (speaks_of(row, version)) rows.push_back(&row);
  }
  if (all.empty()) return fail(ErrorCode::not_found, fmt::format("nothing is known about '{}'", printable(name)));
  Answer answer;
  answer.json = {
      {"component", name}, {"version", version.empty() ? Json() : Json(version)}, {"releases", Json::array()}};
  if (rows.empty()) {
    answer.text = fmt::format("{} {} is not in this knowledge base; these are:\n", printable(name), printable(version));
    answer.exit_code = kNo;
    rows = all;
  }
  for (const ComponentRelease* row : rows) {
    answer.json["releases"].push_back({{"version", row->version},
                                       {"needs", row->needs},
                                       {"capability", row->capability},
                                       {"driver_or_other", row->driver_or_other}});
    answer.text += asked.style.paint(fmt::format("{} {}", row->component, row->version), Tone::bold) + "\n";
    if (!row->needs.empty()) answer.text += line(asked, "  needs", row->needs);
    if (!row->capability.empty()) answer.text += line(asked, "  GPU", row->capability);
    if (!row->driver_or_other.empty()) answer.text += line(asked, "  also", row->driver_or_other);
    answer.sources.push_back(fmt::format("{} {}: {}", row->component, row->version, row->source));
  }
  return answer;
}

}  // namespace gpuwarden::cli::compat
