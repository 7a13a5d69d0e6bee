// SPDX-License-Identifier: Apache-2.0
// What a CUDA toolkit needs: driver, GPUs, host compilers.
#include <fmt/format.h>

#include <algorithm>

#include "compat/answer.hpp"
#include "gpuwarden/base/text.hpp"
#include "render/columns.hpp"

namespace gpuwarden::cli::compat {
namespace {

using knowledge::Architecture;
using knowledge::CudaToolkit;
using knowledge::RunsOn;
using knowledge::Version;
using Json = nlohmann::json;

/// The exact release where the question names one ("12.4.1"), else the newest of "12.4".
const CudaToolkit* row_for(const Asked& asked, const Version& cuda) {
  const auto rows = asked.knowledge.toolkits();
  const auto exact = std::ranges::find(rows, cuda, &CudaToolkit::version);
  return cuda.patch != 0 && exact != rows.end() ? &*exact : asked.knowledge.toolkit(cuda);
}

struct Drivers {
  std::optional<Version> native;
  std::optional<Version> minor;
};

Drivers drivers_for(const Asked& asked, const CudaToolkit* row, const Version& cuda) {
  Drivers drivers{asked.knowledge.min_driver(cuda, true), asked.knowledge.min_driver(cuda, false)};
  if (row != nullptr && row->version == cuda && row->min_driver) drivers.native = row->min_driver;
  return drivers;
}

/// First and last driver branch of the models with this architecture; 0: not known, still.
std::pair<int, int> branches_of(const Asked& asked, int architecture) {
  int first = 0;
  int last = 0;
  for (const auto& model : asked.knowledge.models()) {
    if (knowledge::architecture_of(model) != architecture) continue;
    if (first == 0 || (model.first_driver_branch != 0 && model.first_driver_branch < first))
      first = model.first_driver_branch;
    last = std::max(last, model.last_driver_branch);
  }
  return {first, last};
}

void add_head(const Asked& asked, const CudaToolkit* row, const Version& cuda, Answer& answer) {
  std::string text = "CUDA " + (row != nullptr ? std::string(row->name) : to_string(cuda));
  if (row != nullptr && !row->released.empty()) text += fmt::format(", released {}", row->released);
  answer.text = asked.style.paint(text, Tone::bold) + "\n";
  const bool newer = release_of(cuda) > asked.knowledge.newest_toolkit();
  if (row == nullptr)
    answer.text += line(asked, "note",
                        newer ? fmt::format("newer than this knowledge base, which ends with {}: judged by the rules "
                                            "of its major release, as far as they are known",
                                            to_string(asked.knowledge.newest_toolkit()))
                              : "no toolkit of this number is in this knowledge base");
  answer.json["cuda"] = to_string(release_of(cuda));
  answer.json["toolkit"] = row != nullptr ? Json(row->name) : Json();
  answer.json["released"] = row != nullptr && !row->released.empty() ? Json(row->released) : Json();
  answer.json["newer_than_known"] = newer;
  if (row != nullptr) answer.sources.push_back(fmt::format("CUDA {}: {}", row->name, row->source));
}

void add_drivers(const Asked& asked, const CudaToolkit* row, const Drivers& drivers, Answer& answer) {
  answer.json["min_driver"] = version_json(drivers.native.value_or(Version{}));
  answer.json["min_driver_minor_version"] = version_json(drivers.minor.value_or(Version{}));
  if (drivers.native) {
    const std::string brings =
        row != nullptr && row->branch > 0 ? fmt::format(" (its installer brings branch {})", row->branch) : "";
    answer.text += line(asked, "driver", to_string(*drivers.native) + " or newer, for all of it" + brings);
  }
  if (drivers.minor && drivers.minor != drivers.native)
    answer.text += line(asked, "",
                        to_string(*drivers.minor) +
                            " or newer by minor-version compatibility: what has code for the "
                            "GPU runs, PTX is not compiled");
  if (!drivers.native && !drivers.minor) answer.text += line(asked, "driver", "not known");
}

void add_compilers(const Asked& asked, const CudaToolkit* row, Answer& answer) {
  const CudaToolkit none;
  const CudaToolkit& known = row != nullptr ? *row : none;
  answer.json["max_gcc"] = version_json(known.max_gcc);
  answer.json["max_clang"] = version_json(known.max_clang);
  answer.json["ptx"] = version_json(known.ptx);
  std::vector<std::string> parts;
  const auto up_to = [](const Version& version) {
    return version.minor == 0 ? std::to_string(version.major) : to_string(version);
  };
  if (known.max_gcc) parts.push_back("gcc up to " + up_to(known.max_gcc));
  if (known.max_clang) parts.push_back("clang up to " + up_to(known.max_clang));
  if (!parts.empty()) answer.text += line(asked, "compilers", join(parts, ", "));
  if (known.ptx) answer.text += line(asked, "PTX", to_string(known.ptx));
}

/// The wheels of PyTorch that bring this CUDA.
void add_wheels(const Asked& asked, const Version& cuda, Answer& answer) {
  const std::string build = knowledge::build_of_cuda(release_of(cuda));
  std::vector<std::string> releases;
  for (const auto& wheel : asked.knowledge.torch_builds()) {
    if (wheel.build == build) releases.push_back(wheel_name(wheel));
  }
  answer.json["torch"] = releases;
  if (!releases.empty()) answer.text += line(asked, "PyTorch", join(releases, ", "));
}

void add_generations(const Asked& asked, const Version& cuda, const Drivers& drivers, Answer& answer) {
  std::vector<std::vector<std::string>> table{{"built for", "generation", "driver at least", "for all of it", "last"}};
  answer.json["architectures"] = Json::array();
  for (const Architecture& one : asked.knowledge.architectures()) {
    if (!asked.knowledge.can_target(cuda, one.number).value_or(false)) continue;
    const auto [first, last] = branches_of(asked, one.number);
    // Jetson's driver comes with its system: those architectures have no branch.
    const Version least = first == 0 ? Version{} : std::max(Version{first}, drivers.minor.value_or(Version{}));
    const Version all = first == 0 ? Version{} : std::max(least, drivers.native.value_or(Version{}));
    table.push_back({fmt::format("sm_{}", one.number), std::string(one.name), least ? to_string(least) : "-",
                     all ? to_string(all) : "-", last != 0 ? std::to_string(last) : ""});
    answer.json["architectures"].push_back({{"architecture", one.number},
                                            {"generation", one.name},
                                            {"min_driver", version_json(all)},
                                            {"min_driver_minor_version", version_json(least)},
                                            {"last_driver_branch", last != 0 ? Json(last) : Json()}});
  }
  if (table.size() > 1) answer.text += heading(asked, "GPUs and their drivers") + columns(table, asked.style);
}

void add_place(const Asked& asked, const Version& cuda, Answer& answer) {
  answer.json["here"] = nullptr;
  if (asked.place.is_empty()) return;
  Json here{{"runs", nullptr}, {"builds_for_gpus", nullptr}};
  std::vector<std::string> parts;
  if (asked.place.driver) {
    const RunsOn how = runs_here(asked, cuda);
    here["runs"] = words_for(how);
    parts.push_back(fmt::format("on driver {} its programs run {}", to_string(*asked.place.driver), words_for(how)));
    if (how == RunsOn::not_at_all) answer.exit_code = kNo;
  }
  for (const PlaceGpu& gpu : asked.place.gpus) {
    const std::string obstacle = obstacle_of(asked, gpu);
    if (!obstacle.empty()) {
      parts.push_back(fmt::format("{}: {}", printable(gpu.name), obstacle));
      answer.exit_code = kNo;
    }
    const auto builds = gpu.architecture ? asked.knowledge.can_target(cuda, *gpu.architecture) : std::nullopt;
    if (!builds) continue;
    here["builds_for_gpus"] = *builds && here["builds_for_gpus"] != false;
    parts.push_back(fmt::format("{} for {} (sm_{})", *builds ? "it builds" : "it does NOT build", printable(gpu.name),
                                *gpu.architecture));
    if (!*builds) answer.exit_code = kNo;
  }
  answer.json["here"] = std::move(here);
  answer.text += line(asked, "here", join(parts, "; "));
}

}  // namespace

Answer answer_cuda(const Asked& asked, const Version& cuda) {
  Answer answer;
  const CudaToolkit* row = row_for(asked, cuda);
  const Drivers drivers = drivers_for(asked, row, cuda);
  add_head(asked, row, cuda, answer);
  add_drivers(asked, row, drivers, answer);
  add_place(asked, cuda, answer);
  add_compilers(asked, row, answer);
  add_wheels(asked, cuda, answer);
  add_generations(asked, cuda, drivers, answer);
  if (row == nullptr && !drivers.native && !drivers.minor) answer.exit_code = kNo;
  return answer;
}

}  // namespace gpuwarden::cli::compat
