// SPDX-License-Identifier: Apache-2.0
#include "render/compat_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "render/columns.hpp"
#include "render/compat_parts.hpp"

namespace gpuwarden::cli {
namespace {

using namespace compat;
using compat::capability_text;  // functions of these names are this program's, too
using compat::obstacle_of;
using compat::three_numbers;
using compat::wheel_name;
using knowledge::OpenModule;
using knowledge::RunsOn;
using knowledge::Version;
using Wording = CompatWording;
using Table = std::vector<std::vector<std::string>>;

constexpr std::size_t kOthersShown = 8;

// ---- a machine

std::string driver_of_place(const Wording& to) {
  if (!to.asked.place.driver)
    return to.line("driver", "unknown: toolkits and frameworks are judged for the GPUs alone");
  const Version driver = *to.asked.place.driver;
  const auto highest = to.asked.knowledge.max_cuda(driver);
  const auto* row = to.asked.knowledge.branch(driver.major);
  const bool newer = driver.major > to.asked.knowledge.newest_branch() || (row != nullptr && !row->max_cuda);
  const std::string& told = to.asked.place.cuda;
  std::string offers = highest ? fmt::format("; offers CUDA {}{}", to_string(*highest), newer ? " at least" : "") : "";
  if (!told.empty()) {
    const bool differs = highest && !newer && Version::parse(told) != std::optional(release_of(*highest));
    offers = fmt::format("; offers CUDA {}{}", printable(told),
                         differs ? fmt::format(" as it says (its branch: {})", to_string(*highest)) : "");
  }
  return to.line("driver", fmt::format("{}: branch {}{}", to_string(driver), to.branch(driver.major), offers));
}

std::string gpus_of_place(const Wording& to) {
  const auto problem = [&](const std::string& what) {
    return what.empty() ? "" : to.line("", to.style.paint(printable(what), Tone::bad));
  };
  std::string text;
  for (const PlaceGpu& gpu : to.asked.place.gpus) {
    const std::string capability = gpu.architecture
                                       ? fmt::format(", compute capability {}", capability_text(*gpu.architecture))
                                       : ", not in this knowledge base";
    const std::string generation = gpu.model != nullptr ? fmt::format(", {}", gpu.model->architecture) : "";
    text += to.line("GPU", fmt::format("{} x {}{}{}", gpu.count, printable(gpu.name), capability, generation));
    for (const InstalledTorch& torch : to.asked.place.torches) text += problem(missing_kernels(torch, gpu));
    text += problem(obstacle_of(to.asked, gpu));
  }
  return text;
}

std::string toolkits(const Wording& to, const MachineAnswer& answer) {
  if (!to.asked.place.driver) {
    const std::string all = join(compat::spans_of(answer.toolkits, std::nullopt), ", ");
    return to.line("toolkits",
                   all.empty() ? "none builds for all of these GPUs" : all + " build for all of these GPUs");
  }
  if (compat::is_useless(to.asked)) return "";
  constexpr auto kRemarks = std::to_array<std::pair<RunsOn, std::string_view>>(
      {{RunsOn::natively, ""},
       {RunsOn::by_minor_version,
        ": what has code for the GPU runs; PTX is not compiled, and what needs the newer driver fails"},
       {RunsOn::by_forward_compatibility, ", on data-centre GPUs only"},
       {RunsOn::not_at_all, ""}});
  std::string text = heading("CUDA toolkits whose programs run here", to.style);
  for (const auto& [how, remark] : kRemarks) {
    const std::string spans = join(compat::spans_of(answer.toolkits, how), ", ");
    if (spans.empty()) continue;
    text += to.line(fmt::format("  {:<14}", spans), fmt::format("{}{}", compat::words_for(how), remark));
  }
  return text;
}

std::string text_of(const Wording& to, const MachineAnswer& answer) {
  if (answer.nothing_to_judge)
    return "There is neither a GPU nor a driver to judge.\n"
           "Name them: gpuwarden compat --gpu \"RTX 4090\" --driver 550.54.15\n";
  std::string text = driver_of_place(to) + gpus_of_place(to) + toolkits(to, answer);
  if (!compat::is_useless(to.asked)) text += to.torch(answer.torch);
  return text + to.recommended(*answer.recommended);
}

// ---- a toolkit

std::string drivers(const Wording& to, const CudaAnswer& answer) {
  if (!answer.native && !answer.minor) return to.line("driver", "not known");
  std::string text;
  if (answer.native) {
    const bool brings = answer.toolkit != nullptr && answer.toolkit->branch > 0;
    text +=
        to.line("driver", to_string(*answer.native) + " or newer, for all of it" +
                              (brings ? fmt::format(" (its installer brings branch {})", answer.toolkit->branch) : ""));
  }
  if (answer.minor && answer.minor != answer.native)
    text += to.line("", to_string(*answer.minor) +
                            " or newer by minor-version compatibility: what has code for the GPU runs, PTX is not "
                            "compiled");
  return text;
}

std::string here(const Wording& to, const CudaAnswer& answer) {
  if (!answer.here) return "";
  std::vector<std::string> parts;
  if (answer.here->runs)
    parts.push_back(fmt::format("on driver {} its programs run {}", to_string(*to.asked.place.driver),
                                compat::words_for(*answer.here->runs)));
  for (const TargetGpu& target : answer.here->gpus) {
    const std::string name = printable(target.gpu->name);
    if (!target.obstacle.empty()) parts.push_back(name + ": " + target.obstacle);
    if (target.builds)
      parts.push_back(fmt::format("{} for {} (sm_{})", *target.builds ? "it builds" : "it does NOT build", name,
                                  *target.gpu->architecture));
  }
  return to.line("here", join(parts, "; "));
}

std::string compilers(const Wording& to, const CudaAnswer& answer) {
  if (answer.toolkit == nullptr) return "";
  std::vector<std::string> parts;
  const auto up_to = [&](const char* name, const Version& version) {
    if (!version) return;
    parts.push_back(
        fmt::format("{} up to {}", name, version.minor == 0 ? std::to_string(version.major) : to_string(version)));
  };
  up_to("gcc", answer.toolkit->max_gcc);
  up_to("clang", answer.toolkit->max_clang);
  return to.line("compilers", join(parts, ", ")) +
         to.line("PTX", answer.toolkit->ptx ? to_string(answer.toolkit->ptx) : "");
}

std::string generations(const Wording& to, const CudaAnswer& answer) {
  Table table{{"built for", "generation", "driver at least", "for all of it", "last"}};
  const auto shown = [](const Version& version) { return version ? to_string(version) : "-"; };
  for (const GenerationRow& row : answer.architectures)
    table.push_back({fmt::format("sm_{}", row.architecture->number), std::string(row.architecture->name),
                     shown(row.least), shown(row.all), row.last_branch != 0 ? std::to_string(row.last_branch) : ""});
  return table.size() > 1 ? heading("GPUs and their drivers", to.style) + columns(table, to.style) : "";
}

std::string text_of(const Wording& to, const CudaAnswer& answer) {
  const auto* row = answer.toolkit;
  std::string title = "CUDA " + (row != nullptr ? std::string(row->name) : to_string(answer.cuda));
  if (row != nullptr && !row->released.empty()) title += fmt::format(", released {}", row->released);
  std::string text = to.bold(title) + "\n";
  if (row == nullptr)
    text += to.line("note", answer.newer_than_known
                                ? to.newer(to_string(to.asked.knowledge.newest_toolkit())) +
                                      ": judged by the rules of its major release, as far as they are known"
                                : "no toolkit of this number is in this knowledge base");
  text += drivers(to, answer) + here(to, answer) + compilers(to, answer) + to.line("PyTorch", join(answer.torch, ", "));
  if (!answer.vllm.empty()) text += to.line("vLLM", join(answer.vllm, ", ") + " (their default wheels)");
  return text + generations(to, answer);
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

std::string hardware(const Wording& to, const knowledge::GpuModel& model) {
  std::string text = to.bold(model.name) + fmt::format("  {}, compute capability {}\n", model.architecture,
                                                       capability_text(knowledge::architecture_of(model)));
  text += to.line("memory", fmt::format("{:g} GB, {:g} GB/s", model.memory_gb, model.memory_bandwidth_gb_s));
  std::vector<std::string> known;
  for (const Rate& rate : compat::rates()) {
    if (model.*rate.value > 0) known.push_back(fmt::format("{} {:g}", rate.label, model.*rate.value));
  }
  if (!known.empty()) text += to.line("rates", join(known, ", ") + " (tera-operations per second, dense)");
  std::vector<std::string> parts;
  if (model.cuda_cores > 0) parts.push_back(fmt::format("{} CUDA cores", model.cuda_cores));
  if (model.multiprocessors > 0) parts.push_back(fmt::format("{} SMs", model.multiprocessors));
  if (model.tdp_watts > 0) parts.push_back(fmt::format("{:g} W", model.tdp_watts));
  parts.push_back(model.nvlink_gb_s > 0 ? fmt::format("NVLink {:g} GB/s", model.nvlink_gb_s) : "no NVLink");
  parts.push_back(model.mig_max_instances > 0 ? fmt::format("MIG: up to {} instances", model.mig_max_instances)
                                              : "no MIG");
  return text + to.line("has", join(parts, ", "));
}

/// What it derives from and what it is good for, where that is published.
std::string use_of(const Wording& to, const knowledge::GpuUse* use) {
  return use == nullptr ? "" : to.line("is", use->derived_from) + to.line("good for", use->good_for);
}

bool is_jetson(const knowledge::GpuModel& model) {
  const auto* const board = knowledge::find_gpu_board(model.name);
  return board != nullptr && board->is_jetson;
}

std::string drivers(const Wording& to, const GpuAnswer& answer) {
  const auto& needs = answer.needs;
  std::string text = to.line("CUDA", range_text(answer.model->first_cuda, answer.model->last_cuda) + " builds for it");
  if (is_jetson(*answer.model)) return text + to.line("driver", "comes with JetPack (Jetson Linux, L4T)");
  const bool of_generation = needs.first.source.empty();
  std::string branches = !needs.minimum  ? "first branch not known"
                         : of_generation ? text_of(needs.first) + " or newer, as of its generation"
                                         : text_of(needs.first) + " or newer";
  if (needs.last_branch != 0) branches += fmt::format(", {} is the last", to.branch(needs.last_branch));
  text += to.line("driver", branches);
  text += to.line("recommended", needs.recommended ? to.branch(needs.recommended.major)
                                                   : "no branch that is still supported serves it");
  return text + to.line("kernel module", module_text(answer.model->open_module));
}

std::string not_served(const Wording& to, const Frameworks& found) {
  if (!found.not_served_by) return "";
  return to.line("", fmt::format("driver {} {}; what follows is for one that does", to_string(*found.not_served_by),
                                 found.too_old ? "does not know it" : "no longer serves it"));
}

std::string frameworks(const Wording& to, const Frameworks& found) {
  const std::string on = found.driver ? " on driver " + to_string(*found.driver) : "";
  std::string text = not_served(to, found);
  if (found.board != nullptr)
    text += to.line("processor", fmt::format("{}: wheels for aarch64, not x86_64", found.board->processor));
  if (found.board != nullptr && !found.board->builds.empty())
    return text + to.line("PyTorch, vLLM", found.board->builds);
  if (found.newest_torch == nullptr)
    text += to.line("PyTorch", "no wheel that is known has code for it" + on);
  else
    text += to.line("PyTorch",
                    fmt::format("{} to {}{}", wheel_name(*found.first_torch), wheel_name(*found.newest_torch), on)) +
            command_line("", knowledge::pip_command(*found.newest_torch));
  const auto* vllm = found.newest_vllm;
  return text + to.line("vLLM", (vllm != nullptr ? to_string(vllm->first) : "none that is known") + on);
}

std::string text_of(const Wording& to, const GpuAnswer& answer) {
  std::string text =
      hardware(to, *answer.model) + use_of(to, answer.use) + drivers(to, answer) + frameworks(to, answer.frameworks);
  if (answer.also.empty()) return text;
  const std::size_t shown = std::min(answer.also.size(), kOthersShown);
  const std::vector<std::string> first(answer.also.begin(), answer.also.begin() + static_cast<std::ptrdiff_t>(shown));
  const std::string rest = answer.also.size() > shown ? fmt::format(" and {} more", answer.also.size() - shown) : "";
  return text + to.line("also named so", join(first, ", ") + rest);
}

std::string text_of(const Wording& to, const ArchitectureAnswer& answer) {
  std::string text;
  if (!answer.asked_as.empty())
    text = fmt::format("{} is not in this knowledge base; its generation is:\n", printable(answer.asked_as));
  text += to.bold(fmt::format("sm_{}", answer.architecture)) +
          fmt::format("  compute capability {}{}\n", capability_text(answer.architecture),
                      answer.row != nullptr ? fmt::format(", {}", answer.row->name) : "");
  if (answer.row == nullptr) return text + to.line("note", "not in this knowledge base");
  if (const auto guest = knowledge::virtual_gpu_named(answer.asked_as))
    text += to.line("is", fmt::format("a vGPU of a {}, profile {} ({}): the guest takes NVIDIA's vGPU driver, of a "
                                      "release that the host's serves, and a licence",
                                      guest->board, guest->profile, guest->kind));
  text += to.line("CUDA", range_text(answer.row->first_cuda, answer.row->last_cuda) + " builds for it");
  if (answer.first_branch != 0)
    text += to.line("driver",
                    fmt::format("branch {} or newer{}", answer.first_branch,
                                answer.last_branch != 0 ? fmt::format(", {} is the last", answer.last_branch) : ""));
  text += to.line("runs code for", compat::code_for(answer.architecture));
  return text + to.line("GPUs", join(answer.gpus, ", ")) + frameworks(to, *answer.frameworks);
}

// ---- a job

std::string text_of(const Wording& to, const JobAnswer& answer) {
  std::string text = to.line("rule", answer.rule);
  if (answer.here)
    text += to.line("here", fmt::format("{} of {} {} hold it", answer.here->needed, answer.here->present,
                                        answer.here->model->name));
  if (answer.does_not_fit) text += to.line("here", "its GPUs do not hold it");
  if (answer.ranking.empty())
    return text + fmt::format("\nno GPU among these holds it, even {} of them\n", compat::kMostForJob);
  Table table{{"GPUs", "model", "each", "rate", "remark"}};
  const bool training = answer.job.settings.trains();
  const std::size_t shown = std::min(answer.ranking.size(), compat::kSuggestionsShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const compat::Suggestion& one = answer.ranking[i];
    const double rate = training ? one.rate : one.rate / 1000;
    table.push_back({fmt::format("{} x", one.gpus), std::string(one.model->name),
                     fmt::format("{:g} GB", one.model->memory_gb),
                     fmt::format("{:.{}f} {}", rate, rate < 100 ? 1 : 0, training ? "TFLOPS" : "TB/s"), one.remark});
  }
  text += "\n" + columns(table, to.style);
  if (answer.ranking.size() > shown)
    text += fmt::format("  and {} more (--json shows all)\n", answer.ranking.size() - shown);
  return text;
}

constexpr std::string_view kNotAtAll = "not at all";

std::vector<std::string> matrix_row(const MatrixRow& row) {
  const auto shown = [](const Version& version) { return version ? to_string(version) : "-"; };
  std::vector<std::string> cells{std::string(row.model->name), shown(row.cuda.value_or(Version{})),
                                 shown(row.needs.minimum)};
  cells.push_back(row.dropped ? std::string(kNotAtAll) : shown(row.needs.required));
  cells.push_back(is_jetson(*row.model) ? "JetPack's" : shown(row.needs.recommended));
  cells.push_back(shown(row.needs.optimal));
  cells.push_back(row.needs.last_branch != 0 ? std::to_string(row.needs.last_branch) : "");
  return cells;
}

std::string text_of(const Wording& to, const MatrixAnswer& answer) {
  Table table{{"GPU", "CUDA", "minimum", "required", "recommended", "optimal", "last"}};
  if (to.asked.place.driver) table[0].push_back(to_string(*to.asked.place.driver));
  for (const MatrixRow& row : answer.rows) {
    table.push_back(matrix_row(row));
    if (to.asked.place.driver) table.back().emplace_back(row.standing ? to_string(*row.standing) : kNotAtAll);
  }
  constexpr std::string_view kLegend =
      "minimum: the first branch that knows the GPU; required: the oldest driver that runs the CUDA of the work (of "
      "the newest PyTorch where none is named); recommended: the branch to take today; optimal: the driver with which "
      "nothing of that CUDA is missing (or the last that serves the GPU); last: the last branch that serves the GPU; "
      "not at all: that CUDA has left the GPU's generation, and no driver runs it there. "
      "--why shows the sources.";
  return columns(table, to.style, 0) + "\n" + wrapped(kLegend, 0, 0, to.style.width) + "\n";
}

std::string text_of(const Wording& to, const XidAnswer& answer) { return xid_text(answer, to.style); }

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
    text += labelled_line(label, words, style);
  }
  if (const auto* older = answer.before_ampere)
    text += labelled_line("before Ampere", fmt::format("{}: {}", older->description, older->action_plain), style);
  return text;
}

std::string compat_text(const compat::Asked& asked, const compat::Answer& answer, const Style& style) {
  return std::visit([&](const auto& one) { return text_of({asked, style}, one); }, answer);
}

std::string sources_text(const compat::Verdict& verdict, const Style& style) {
  std::string text = heading("sources", style);
  for (const std::string& source : verdict.sources)
    text += fmt::format("  {}\n", wrapped(printable(source), 2, 4, style.width));
  return text;
}

}  // namespace gpuwarden::cli
