// SPDX-License-Identifier: Apache-2.0
#include "render/compat_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "render/columns.hpp"
#include "render/compat_parts.hpp"

namespace gpuwarden::cli {
namespace {

using compat::ArchitectureAnswer;
using compat::Asked;
using compat::capability_text;
using compat::ComponentAnswer;
using compat::CudaAnswer;
using compat::Frameworks;
using compat::GenerationRow;
using compat::GpuAnswer;
using compat::JobAnswer;
using compat::MachineAnswer;
using compat::MatrixAnswer;
using compat::MatrixRow;
using compat::obstacle_of;
using compat::PlaceGpu;
using compat::Rate;
using compat::TargetGpu;
using compat::three_numbers;
using compat::ToolkitRow;
using compat::TorchAnswer;
using compat::VllmAnswer;
using compat::Wheel;
using compat::wheel_name;
using compat::words_for;
using compat::XidAnswer;
using knowledge::OpenModule;
using knowledge::RunsOn;
using knowledge::Version;
using Table = std::vector<std::vector<std::string>>;

constexpr std::size_t kOthersShown = 8;

/// Puts the answers into words.
class Writer {
 public:
  Writer(const Asked& asked, const Style& style) : asked_(asked), style_(style) {}

  std::string operator()(const MachineAnswer& answer) const;
  std::string operator()(const CudaAnswer& answer) const;
  std::string operator()(const TorchAnswer& answer) const;
  std::string operator()(const VllmAnswer& answer) const;
  std::string operator()(const ComponentAnswer& answer) const;
  std::string operator()(const GpuAnswer& answer) const;
  std::string operator()(const ArchitectureAnswer& answer) const;
  std::string operator()(const XidAnswer& answer) const { return xid_text(answer, style_); }
  std::string operator()(const JobAnswer& answer) const;
  std::string operator()(const MatrixAnswer& answer) const;

 private:
  std::string line(std::string_view label, std::string_view text) const { return labelled_line(label, text, style_); }
  std::string bold(std::string_view text) const { return style_.paint(text, Tone::bold); }

  std::string driver_of_place() const;
  std::string gpus_of_place() const;
  std::string toolkits(const MachineAnswer& answer) const;
  std::string drivers(const CudaAnswer& answer) const;
  std::string here(const CudaAnswer& answer) const;
  std::string compilers(const CudaAnswer& answer) const;
  std::string generations(const CudaAnswer& answer) const;
  std::string unknown_release(const TorchAnswer& answer) const;
  std::string wheels(const TorchAnswer& answer) const;
  std::string verdict(const TorchAnswer& answer) const;
  std::string hardware(const knowledge::GpuModel& model) const;
  std::string drivers(const GpuAnswer& answer) const;
  std::string not_served(const Frameworks& found) const;
  std::string frameworks(const Frameworks& found) const;

  const Asked& asked_;
  const Style& style_;
};

// ---- a machine

std::string Writer::driver_of_place() const {
  if (!asked_.place.driver) return line("driver", "unknown: toolkits and frameworks are judged for the GPUs alone");
  const Version driver = *asked_.place.driver;
  const auto highest = asked_.knowledge.max_cuda(driver);
  const bool newer = driver.major > asked_.knowledge.newest_branch();
  const std::string offers =
      highest ? fmt::format("; offers CUDA {}{}", to_string(*highest), newer ? " at least" : "") : "";
  return line("driver", fmt::format("{}: branch {}{}", to_string(driver), branch_text(asked_, driver.major), offers));
}

std::string Writer::gpus_of_place() const {
  std::string text;
  for (const PlaceGpu& gpu : asked_.place.gpus) {
    const std::string capability = gpu.architecture
                                       ? fmt::format(", compute capability {}", capability_text(*gpu.architecture))
                                       : ", not in this knowledge base";
    const std::string generation = gpu.model != nullptr ? fmt::format(", {}", gpu.model->architecture) : "";
    text += line("GPU", fmt::format("{} x {}{}{}", gpu.count, printable(gpu.name), capability, generation));
    const std::string obstacle = obstacle_of(asked_, gpu);
    if (!obstacle.empty()) text += line("", style_.paint(obstacle, Tone::bad));
  }
  return text;
}

/// "11.8 to 12.4" of releases that lie one after the other, newest first.
std::string span_text(const std::vector<Version>& releases) {
  if (releases.size() == 1) return to_string(releases[0]);
  return fmt::format("{} to {}", to_string(releases.back()), to_string(releases.front()));
}

std::string Writer::toolkits(const MachineAnswer& answer) const {
  std::map<std::optional<RunsOn>, std::vector<Version>> by_way;
  for (const ToolkitRow& row : answer.toolkits) {
    if (row.builds) by_way[row.runs].push_back(row.cuda);
  }
  if (!asked_.place.driver)
    return line("toolkits", by_way.empty() ? "none builds for all of these GPUs"
                                           : span_text(by_way[std::nullopt]) + " build for all of these GPUs");
  if (compat::is_useless(asked_)) return "";
  constexpr auto kRemarks = std::to_array<std::pair<RunsOn, std::string_view>>(
      {{RunsOn::natively, ""},
       {RunsOn::by_minor_version,
        ": what has code for the GPU runs; PTX is not compiled, and what needs the newer driver fails"},
       {RunsOn::by_forward_compatibility, ", on data-centre GPUs only"},
       {RunsOn::not_at_all, ""}});
  std::string text = heading("CUDA toolkits whose programs run here", style_);
  for (const auto& [how, remark] : kRemarks) {
    if (by_way[how].empty()) continue;
    text += line(fmt::format("  {:<14}", span_text(by_way[how])), fmt::format("{}{}", words_for(how), remark));
  }
  return text;
}

std::string Writer::operator()(const MachineAnswer& answer) const {
  if (answer.nothing_to_judge)
    return "There is neither a GPU nor a driver to judge.\n"
           "Name them: gpuwarden compat --gpu \"RTX 4090\" --driver 550.54.15\n";
  std::string text = driver_of_place() + gpus_of_place() + toolkits(answer);
  if (!compat::is_useless(asked_)) text += torch_text(asked_, answer.torch, style_);
  return text + recommendation_text(asked_, *answer.recommended, style_);
}

// ---- a toolkit

std::string Writer::drivers(const CudaAnswer& answer) const {
  if (!answer.native && !answer.minor) return line("driver", "not known");
  std::string text;
  if (answer.native) {
    const bool brings = answer.toolkit != nullptr && answer.toolkit->branch > 0;
    text +=
        line("driver", to_string(*answer.native) + " or newer, for all of it" +
                           (brings ? fmt::format(" (its installer brings branch {})", answer.toolkit->branch) : ""));
  }
  if (answer.minor && answer.minor != answer.native)
    text += line("", to_string(*answer.minor) +
                         " or newer by minor-version compatibility: what has code for the GPU runs, PTX is not "
                         "compiled");
  return text;
}

std::string Writer::here(const CudaAnswer& answer) const {
  if (!answer.here) return "";
  std::vector<std::string> parts;
  if (answer.here->runs)
    parts.push_back(fmt::format("on driver {} its programs run {}", to_string(*asked_.place.driver),
                                words_for(*answer.here->runs)));
  for (const TargetGpu& target : answer.here->gpus) {
    const std::string name = printable(target.gpu->name);
    if (!target.obstacle.empty()) parts.push_back(name + ": " + target.obstacle);
    if (target.builds)
      parts.push_back(fmt::format("{} for {} (sm_{})", *target.builds ? "it builds" : "it does NOT build", name,
                                  *target.gpu->architecture));
  }
  return line("here", join(parts, "; "));
}

std::string Writer::compilers(const CudaAnswer& answer) const {
  if (answer.toolkit == nullptr) return "";
  std::vector<std::string> parts;
  const auto up_to = [&](const char* name, const Version& version) {
    if (!version) return;
    parts.push_back(
        fmt::format("{} up to {}", name, version.minor == 0 ? std::to_string(version.major) : to_string(version)));
  };
  up_to("gcc", answer.toolkit->max_gcc);
  up_to("clang", answer.toolkit->max_clang);
  return (parts.empty() ? "" : line("compilers", join(parts, ", "))) +
         (answer.toolkit->ptx ? line("PTX", to_string(answer.toolkit->ptx)) : "");
}

std::string Writer::generations(const CudaAnswer& answer) const {
  Table table{{"built for", "generation", "driver at least", "for all of it", "last"}};
  const auto shown = [](const Version& version) { return version ? to_string(version) : "-"; };
  for (const GenerationRow& row : answer.architectures)
    table.push_back({fmt::format("sm_{}", row.architecture->number), std::string(row.architecture->name),
                     shown(row.least), shown(row.all), row.last_branch != 0 ? std::to_string(row.last_branch) : ""});
  return table.size() > 1 ? heading("GPUs and their drivers", style_) + columns(table, style_) : "";
}

std::string Writer::operator()(const CudaAnswer& answer) const {
  const auto* row = answer.toolkit;
  std::string title = "CUDA " + (row != nullptr ? std::string(row->name) : to_string(answer.cuda));
  if (row != nullptr && !row->released.empty()) title += fmt::format(", released {}", row->released);
  std::string text = bold(title) + "\n";
  if (row == nullptr)
    text += line("note", answer.newer_than_known
                             ? fmt::format("newer than this knowledge base, which ends with {}: judged by the rules "
                                           "of its major release, as far as they are known",
                                           to_string(asked_.knowledge.newest_toolkit()))
                             : "no toolkit of this number is in this knowledge base");
  text += drivers(answer) + here(answer) + compilers(answer);
  if (!answer.torch.empty()) text += line("PyTorch", join(answer.torch, ", "));
  return text + generations(answer);
}

// ---- a framework

std::string Writer::unknown_release(const TorchAnswer& answer) const {
  std::string text = fmt::format("PyTorch {} is {}\n", to_string(*answer.version),
                                 answer.newer_than_known ? "newer than this knowledge base, which ends with " +
                                                               three_numbers(asked_.knowledge.newest_torch())
                                                         : "not in this knowledge base");
  if (answer.min_driver)
    text += line("driver", fmt::format("{} or newer, as every program built with CUDA {}",
                                       to_string(*answer.min_driver), to_string(*answer.cuda)));
  return text;
}

std::string Writer::wheels(const TorchAnswer& answer) const {
  Table table{{"wheel", "driver at least", "code for compute capability"}};
  if (!asked_.place.is_empty()) table[0].emplace_back("here");
  for (const Wheel& wheel : answer.wheels) {
    std::string code(wheel.build.architectures);
    std::ranges::replace(code, ';', ' ');
    table.push_back({wheel_name(wheel.build) + (wheel.build.is_default ? " (default)" : ""),
                     to_string(wheel.build.min_driver), std::move(code)});
    if (wheel.fit) table.back().emplace_back(words_for(*wheel.fit));
  }
  return "\n" + columns(table, style_) + "\n";
}

std::string Writer::verdict(const TorchAnswer& answer) const {
  if (!answer.chosen)
    return line("note", fmt::format("there is no {} wheel of it that is known", answer.missing_build));
  const Wheel& wheel = answer.wheels[*answer.chosen];
  std::string text;
  if (wheel.fit) text += line("here", fmt::format("{}: {}", wheel_name(wheel.build), words_for(*wheel.fit)));
  if (answer.obstacle) text += line("", fmt::format("{}: {}", printable(answer.obstacle->gpu), answer.obstacle->why));
  if (answer.instead) return text + recommendation_text(asked_, *answer.instead, style_);
  return text + command_line("install", knowledge::pip_command(wheel.build));
}

std::string Writer::operator()(const TorchAnswer& answer) const {
  if (!answer.version)
    return fmt::format("PyTorch: the newest that is known is {}\n", three_numbers(asked_.knowledge.newest_torch())) +
           torch_text(asked_, answer.all, style_) + recommendation_text(asked_, *answer.instead, style_);
  if (!answer.known) return unknown_release(answer);
  const auto& first = answer.wheels[0].build;
  std::string text = bold("PyTorch " + three_numbers(*answer.version));
  text += (first.released.empty() ? "" : fmt::format(", released {}", first.released)) + "\n";
  if (first.python_lowest)
    text += line("Python", fmt::format("{} to {}", to_string(first.python_lowest), to_string(first.python_highest)));
  return text + wheels(answer) + verdict(answer);
}

std::string Writer::operator()(const VllmAnswer& answer) const {
  if (answer.row == nullptr)
    return answer.asked.empty() ? "no vLLM that is known runs here\n"
                                : fmt::format("vLLM {} is not in this knowledge base\n", printable(answer.asked));
  const auto& row = *answer.row;
  constexpr int kEndless = 99;
  std::string text = bold("vLLM " + three_numbers(*answer.version)) + "\n";
  if (answer.estimated)
    text += line("note", fmt::format("not in this knowledge base itself: the needs of {}, the nearest known release "
                                     "before it",
                                     three_numbers(row.last.patch == kEndless ? row.first : row.last)));
  text += line("PyTorch", three_numbers(row.torch) + " (pinned)");
  text += line("CUDA", to_string(row.cuda) + " in the default wheel");
  if (answer.min_driver) text += line("driver", to_string(*answer.min_driver) + " or newer");
  text += line("GPU", fmt::format("compute capability {} or higher", capability_text(row.min_capability)));
  text += command_line("install", "pip install vllm==" + three_numbers(*answer.version));
  if (answer.obstacle) text += line("here", answer.obstacle->empty() ? "runs" : "no: " + *answer.obstacle);
  return text + (answer.instead ? recommendation_text(asked_, *answer.instead, style_) : "");
}

std::string Writer::operator()(const ComponentAnswer& answer) const {
  std::string text;
  if (!answer.known)
    text = fmt::format("{} {} is not in this knowledge base; these are:\n", printable(answer.name),
                       printable(answer.version));
  for (const auto* row : answer.rows) {
    text += bold(fmt::format("{} {}", row->component, row->version)) + "\n";
    if (!row->needs.empty()) text += line("  needs", row->needs);
    if (!row->capability.empty()) text += line("  GPU", row->capability);
    if (!row->driver_or_other.empty()) text += line("  also", row->driver_or_other);
  }
  return text;
}

// ---- a GPU

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

std::string Writer::hardware(const knowledge::GpuModel& model) const {
  std::string text = bold(model.name) + fmt::format("  {}, compute capability {}\n", model.architecture,
                                                    capability_text(knowledge::architecture_of(model)));
  text += line("memory", fmt::format("{:g} GB, {:g} GB/s", model.memory_gb, model.memory_bandwidth_gb_s));
  std::vector<std::string> known;
  for (const Rate& rate : compat::rates()) {
    if (model.*rate.value > 0) known.push_back(fmt::format("{} {:g}", rate.label, model.*rate.value));
  }
  if (!known.empty()) text += line("rates", join(known, ", ") + " (tera-operations per second, dense)");
  std::vector<std::string> parts{fmt::format("{} SMs", model.multiprocessors)};
  if (model.tdp_watts > 0) parts.push_back(fmt::format("{:g} W", model.tdp_watts));
  parts.push_back(model.nvlink_gb_s > 0 ? fmt::format("NVLink {:g} GB/s", model.nvlink_gb_s) : "no NVLink");
  parts.push_back(model.mig_max_instances > 0 ? fmt::format("MIG: up to {} instances", model.mig_max_instances)
                                              : "no MIG");
  return text + line("has", join(parts, ", "));
}

std::string Writer::drivers(const GpuAnswer& answer) const {
  const auto& needs = answer.needs;
  std::string text = line("CUDA", range_text(answer.model->first_cuda, answer.model->last_cuda) + " builds for it");
  std::string branches =
      needs.minimum ? fmt::format("branch {} or newer", needs.minimum.major) : "first branch not known";
  if (needs.last_branch != 0) branches += fmt::format(", {} is the last", branch_text(asked_, needs.last_branch));
  text += line("driver", branches);
  text += line("recommended", needs.recommended ? branch_text(asked_, needs.recommended.major)
                                                : "no branch that is still supported serves it");
  return text + line("kernel module", module_text(answer.model->open_module));
}

std::string Writer::not_served(const Frameworks& found) const {
  if (!found.not_served_by) return "";
  return line("", fmt::format("driver {} {}; what follows is for one that does", to_string(*found.not_served_by),
                              found.too_old ? "does not know it" : "no longer serves it"));
}

std::string Writer::frameworks(const Frameworks& found) const {
  const std::string on = found.driver ? " on driver " + to_string(*found.driver) : "";
  std::string text = not_served(found);
  if (found.newest_torch == nullptr)
    text += line("PyTorch", "no wheel that is known has code for it" + on);
  else
    text += line("PyTorch",
                 fmt::format("{} to {}{}", wheel_name(*found.first_torch), wheel_name(*found.newest_torch), on)) +
            command_line("", knowledge::pip_command(*found.newest_torch));
  const auto* vllm = found.newest_vllm;
  return text + line("vLLM", (vllm != nullptr ? to_string(vllm->first) : "none that is known") + on);
}

std::string Writer::operator()(const GpuAnswer& answer) const {
  std::string text = hardware(*answer.model) + drivers(answer) + frameworks(answer.frameworks);
  if (answer.also.empty()) return text;
  const std::size_t shown = std::min(answer.also.size(), kOthersShown);
  const std::vector<std::string> first(answer.also.begin(), answer.also.begin() + static_cast<std::ptrdiff_t>(shown));
  const std::string rest = answer.also.size() > shown ? fmt::format(" and {} more", answer.also.size() - shown) : "";
  return text + line("also named so", join(first, ", ") + rest);
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

std::string Writer::operator()(const ArchitectureAnswer& answer) const {
  std::string text;
  if (!answer.asked_as.empty())
    text = fmt::format("{} is not in this knowledge base; its generation is:\n", printable(answer.asked_as));
  text += bold(fmt::format("sm_{}", answer.architecture)) +
          fmt::format("  compute capability {}{}\n", capability_text(answer.architecture),
                      answer.row != nullptr ? fmt::format(", {}", answer.row->name) : "");
  if (answer.row == nullptr) return text + line("note", "not in this knowledge base");
  text += line("CUDA", range_text(answer.row->first_cuda, answer.row->last_cuda) + " builds for it");
  if (answer.first_branch != 0)
    text +=
        line("driver", fmt::format("branch {} or newer{}", answer.first_branch,
                                   answer.last_branch != 0 ? fmt::format(", {} is the last", answer.last_branch) : ""));
  text += line("runs code for", code_text(answer.architecture));
  if (!answer.gpus.empty()) text += line("GPUs", join(answer.gpus, ", "));
  return text + frameworks(*answer.frameworks);
}

// ---- a job

std::string Writer::operator()(const JobAnswer& answer) const {
  std::string text = line("rule", knowledge::rule_of(answer.job));
  if (answer.here)
    text += line("here", fmt::format("{} of {} {} hold it", answer.here->needed, answer.here->present,
                                     answer.here->model->name));
  if (answer.does_not_fit) text += line("here", "its GPUs do not hold it");
  if (answer.ranking.empty()) return text + "\nno GPU among these holds it, even 64 of them\n";
  Table table{{"GPUs", "model", "each", "rate", "remark"}};
  const std::size_t shown = std::min(answer.ranking.size(), compat::kSuggestionsShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const knowledge::Suggestion& one = answer.ranking[i];
    const double rate = answer.job.training ? one.rate : one.rate / 1000;
    table.push_back(
        {fmt::format("{} x", one.gpus), std::string(one.model->name), fmt::format("{:g} GB", one.model->memory_gb),
         fmt::format("{:.{}f} {}", rate, rate < 100 ? 1 : 0, answer.job.training ? "TFLOPS" : "TB/s"), one.remark});
  }
  text += "\n" + columns(table, style_);
  if (answer.ranking.size() > shown)
    text += fmt::format("  and {} more (--json shows all)\n", answer.ranking.size() - shown);
  return text;
}

std::string Writer::operator()(const MatrixAnswer& answer) const {
  Table table{{"GPU", "CUDA", "minimum", "required", "recommended", "optimal", "last"}};
  if (asked_.place.driver) table[0].push_back(to_string(*asked_.place.driver));
  const auto shown = [](const Version& version) { return version ? to_string(version) : "-"; };
  for (const MatrixRow& row : answer.rows) {
    table.push_back({std::string(row.model->name), shown(row.cuda.value_or(Version{})), shown(row.needs.minimum),
                     shown(row.needs.required), shown(row.needs.recommended), shown(row.needs.optimal),
                     row.needs.last_branch != 0 ? std::to_string(row.needs.last_branch) : ""});
    if (row.standing) table.back().emplace_back(to_string(*row.standing));
  }
  constexpr std::string_view kLegend =
      "minimum: the first branch that knows the GPU; required: the oldest driver that runs the CUDA of the work (of "
      "the newest PyTorch where none is named); recommended: the branch to take today; optimal: the driver with which "
      "nothing of that CUDA is missing (or the last that serves the GPU); last: the last branch that serves the GPU. "
      "--why shows the sources.";
  return columns(table, style_, 0) + "\n" + wrapped(kLegend, 0, 0, style_.width) + "\n";
}

}  // namespace

std::string xid_text(const compat::XidAnswer& answer, const Style& style) {
  const auto* row = answer.row;
  if (row == nullptr) return fmt::format("Xid {} is not in this knowledge base\n", answer.code);
  const Tone tone = row->severity == "critical" || row->severity == "error" ? Tone::bad
                    : row->severity == "warning"                            ? Tone::warning
                                                                            : Tone::dim;
  std::string text = style.paint(fmt::format("Xid {}", answer.code), Tone::bold) +
                     fmt::format("  {}: {}\n", style.paint(row->severity, tone),
                                 row->description.empty() ? "only its name is known" : row->description);
  for (const auto& [label, words] :
       {std::pair("name", row->mnemonic), std::pair("cause", row->cause), std::pair("do", row->action_plain),
        std::pair("NVIDIA's word", row->action), std::pair("investigate", row->investigate)}) {
    if (!words.empty()) text += labelled_line(label, words, style);
  }
  return text;
}

std::string compat_text(const compat::Asked& asked, const compat::Answer& answer, const Style& style) {
  return std::visit(Writer(asked, style), answer);
}

std::string sources_text(const compat::Verdict& verdict, const Style& style) {
  std::string text = heading("sources", style);
  for (const std::string& source : verdict.sources)
    text += fmt::format("  {}\n", wrapped(printable(source), 2, 4, style.width));
  return text;
}

}  // namespace gpuwarden::cli
