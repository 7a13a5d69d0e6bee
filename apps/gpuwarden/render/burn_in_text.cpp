// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "burn_in.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/burn_in/verdict.hpp"

namespace gpuwarden::cli {
namespace {

using facts::BurnInFigure;
using facts::BurnInGpu;

constexpr std::size_t kIndent = 21;

std::string line(std::string_view label, const std::string& words, const Style& style) {
  return fmt::format("  {:<18} {}\n", label, wrapped(printable(words), kIndent, kIndent, style.width));
}

std::string figure_words(const BurnInFigure& figure) {
  std::string words = fmt::format("{:.4g} {}", figure.value, figure.unit);
  if (figure.expected && figure.least && *figure.expected > 0)
    words += fmt::format(" of {:.4g} ({:.0f} %, at least {:.0f} %)", *figure.expected,
                         100 * figure.value / *figure.expected, 100 * *figure.least / *figure.expected);
  else if (figure.expected && *figure.expected > 0)
    words += fmt::format(" of {:.4g} ({:.0f} %)", *figure.expected, 100 * figure.value / *figure.expected);
  return words + "; " + figure.method;
}

std::string memory_words(const facts::BurnInMemory& memory) {
  const std::string words = fmt::format("{} of {} free, {}", format_size(memory.tested), format_size(memory.free),
                                        counted(memory.patterns.size(), "pattern"));
  if (memory.mismatches == 0) return words + ": all came back as written";
  return words + fmt::format(": {} words did not come back as written", memory.mismatches);
}

std::string moment_words(const facts::BurnInMoment& moment) {
  std::vector<std::string> parts;
  if (moment.clock_sm) parts.push_back(fmt::format("{} MHz", moment.clock_sm->value));
  if (moment.temperature) parts.push_back(fmt::format("{} °C", moment.temperature->value));
  if (moment.power) parts.push_back(fmt::format("{} W", (moment.power->value + 500) / 1000));
  if (moment.pcie_generation && moment.pcie_width)
    parts.push_back(fmt::format("PCIe {}.0 x{}", moment.pcie_generation->value, moment.pcie_width->value));
  if (moment.throttle_reasons) {
    for (const auto reason : *moment.throttle_reasons)
      if (facts::is_slowdown(reason)) parts.push_back(fmt::format("held back by {}", to_string(reason)));
  }
  return join(parts, ", ");
}

/// "   3200 GB/s" in the colour of its verdict, and so on: a line for each thing that was found.
std::string gpu_text(const BurnInGpu& gpu, const Style& style) {
  std::string text =
      gpu.index ? fmt::format("GPU {}  {}\n", gpu.index->value, printable(gpu.name)) : printable(gpu.name) + "\n";
  if (gpu.not_possible) return text + line("not tested", *gpu.not_possible, style);
  if (gpu.memory) text += line("memory", memory_words(*gpu.memory), style);
  for (const BurnInFigure& figure : gpu.figures) text += line(spaced(figure.id), figure_words(figure), style);
  if (gpu.wrong_results > 0) text += line("arithmetic", fmt::format("{} wrong sums", gpu.wrong_results), style);
  for (const auto& moment : gpu.moments) {
    const std::string words = moment_words(moment);
    if (!words.empty()) text += line(moment.when == "load" ? "under load" : moment.when, words, style);
  }
  for (const std::string& note : gpu.notes) text += line("note", note, style);
  if (gpu.failed) text += line("stopped early", *gpu.failed, style);
  return text;
}

/// One that the listing has not is called by its UUID's beginning.
std::string name_in_matrix(const std::optional<GpuIndex>& index, const Uuid& uuid) {
  return index ? std::to_string(index->value) : uuid.value.substr(0, uuid.value.find('-') + 1 + 6);
}
std::string sender_of(const facts::BurnInPair& pair) { return name_in_matrix(pair.from_index, pair.from); }
std::string receiver_of(const facts::BurnInPair& pair) { return name_in_matrix(pair.to_index, pair.to); }

std::string rate_cell(const facts::BurnInPair* pair, const Style& style) {
  if (pair == nullptr) return fmt::format(" {:>9}", "-");
  const std::string rate = fmt::format("{:.4g}{}", pair->figure->value, pair->direct == true ? "" : "*");
  return style.paint(fmt::format(" {:>9}", rate), burn_in::is_low(*pair->figure) ? Tone::bad : Tone::plain);
}

/// The rates, as nvidia-smi's topology is laid out: the GPU that sends in the first column. `*` where the host's memory
/// lies between.
std::string pair_matrix(const std::vector<facts::BurnInPair>& pairs, const Style& style) {
  std::vector<std::string> names;
  std::map<std::pair<std::string, std::string>, const facts::BurnInPair*> measured;
  for (const auto& pair : pairs) {
    for (const std::string& name : {sender_of(pair), receiver_of(pair)}) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    if (pair.figure) measured.emplace(std::pair(sender_of(pair), receiver_of(pair)), &pair);
  }
  std::string text = fmt::format("{:>10}", "");
  for (const std::string& name : names) text += fmt::format(" {:>9}", name);
  for (const std::string& from : names) {
    text += fmt::format("\n{:>10}", from);
    for (const std::string& to : names) text += rate_cell(measured[{from, to}], style);
  }
  return text + '\n';
}

std::string pairs_text(const std::vector<facts::BurnInPair>& pairs, const Style& style) {
  if (pairs.empty()) return "";
  const bool host = std::ranges::any_of(pairs, [](const auto& pair) { return pair.direct == false; });
  std::string text = fmt::format("GPU to GPU, GB/s, one direction{}\n{}", host ? " (*: through the host's memory)" : "",
                                 pair_matrix(pairs, style));
  for (const auto& pair : pairs) {
    const std::string label = fmt::format("{} to {}", sender_of(pair), receiver_of(pair));
    if (pair.failed) text += line(label, "stopped early: " + *pair.failed, style);
    const bool low = pair.figure && burn_in::is_low(*pair.figure);
    if (low) text += line(label, figure_words(*pair.figure) + "; " + pair.figure->expected_from, style);
  }
  return text;
}

}  // namespace

std::string burn_in_text(std::string_view title, const facts::BurnInRun& run, const Style& style) {
  std::string text =
      fmt::format("\n{}{}\n", title, run.cuda_version ? fmt::format(", CUDA {}", *run.cuda_version) : "");
  if (run.stand_in)
    text += style.paint(
        fmt::format("STAND-IN {}: these figures are its own, not those of hardware\n", printable(run.library)),
        Tone::warning);
  if (run.not_possible) text += line("not possible", *run.not_possible, style);
  if (run.failed) text += line("failed", *run.failed, style);
  for (const BurnInGpu& gpu : run.gpus) text += gpu_text(gpu, style);
  return text + pairs_text(run.pairs, style);
}

}  // namespace gpuwarden::cli
