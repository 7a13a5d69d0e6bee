// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/toolkits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::toolkits {

namespace {

using facts::Toolkit;
using knowledge::Knowledge;
using knowledge::RunsOn;
using knowledge::Version;

Version version_of(const Toolkit& toolkit) { return Version::parse(toolkit.version).value_or(Version{}); }

std::string name_of(const Toolkit& toolkit) { return fmt::format("{} ({})", toolkit.version, toolkit.path); }

/// Whether `version` is `wanted` or one of its releases: 12.4.131 of "12.4", not 12.40 of "12.4".
bool is_release_of(std::string_view version, std::string_view wanted) {
  return version == wanted || (version.starts_with(wanted) && version[wanted.size()] == '.');
}

bool is_version(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0 &&
         text.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// The version in what people write: "12.4", "v12.4", "cuda-12.4", "cu124".
std::string version_in(std::string_view wanted) {
  const std::string text = to_lower(wanted);
  std::string_view rest = text;
  for (const std::string_view prefix : {"cuda", "-", "/", "v"}) {
    if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  }
  if (const auto build = knowledge::cuda_of_build(text)) return to_string(*build);
  while (rest.ends_with('.')) rest.remove_suffix(1);
  return is_version(rest) ? std::string(rest) : "";
}

std::string_view without_slash(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

/// What nvcc lists, else what is published.
std::optional<bool> targets(const Toolkit& toolkit, int architecture, const Knowledge& knowledge) {
  if (!toolkit.architectures.empty())
    return std::ranges::find(toolkit.architectures, fmt::format("sm_{}", architecture)) != toolkit.architectures.end();
  if (const auto known = knowledge.can_target(version_of(toolkit), architecture)) return known;
  // A toolkit newer than the tables is taken to build for what its predecessors still do.
  const auto range = knowledge.toolkits_for(architecture);
  if (!range || range->second || version_of(toolkit) < range->first) return std::nullopt;
  return version_of(toolkit) > knowledge.newest_toolkit();
}

/// Why a toolkit is out of the question; empty: it is not.
std::string refusal(const Toolkit& toolkit, const std::vector<int>& architectures, std::optional<RunsOn> runs,
                    const Knowledge& knowledge) {
  if (!toolkit.nvcc) return "has no nvcc";
  for (const int architecture : architectures) {
    if (targets(toolkit, architecture, knowledge).value_or(false)) continue;
    const auto range = knowledge.toolkits_for(architecture);
    if (!range) return fmt::format("is not known to build for sm_{}", architecture);
    return range->second
               ? fmt::format("cannot build for sm_{} (CUDA {} to {} can)", architecture, to_string(range->first),
                             to_string(range->second))
               : fmt::format("cannot build for sm_{} (CUDA {} and newer can)", architecture, to_string(range->first));
  }
  if (runs == RunsOn::not_at_all) return "the driver is too old to run its programs";
  if (runs == RunsOn::by_forward_compatibility)
    return "the driver runs its programs only with cuda-compat, on data-centre GPUs";
  return "";
}

std::string names_of(const std::vector<int>& architectures) {
  std::vector<std::string> names;
  for (const int architecture : architectures) names.push_back(fmt::format("sm_{}", architecture));
  return join(names, ", ");
}

}  // namespace

std::vector<const Toolkit*> newest_first(std::span<const Toolkit> toolkits) {
  std::vector<const Toolkit*> sorted;
  for (const Toolkit& toolkit : toolkits) sorted.push_back(&toolkit);
  std::ranges::stable_sort(sorted, [](const Toolkit* a, const Toolkit* b) {
    if (version_of(*a) != version_of(*b)) return version_of(*a) > version_of(*b);
    return a->nvcc.has_value() && !b->nvcc.has_value();
  });
  return sorted;
}

std::string describe(std::span<const Toolkit> toolkits) {
  std::vector<std::string> names;
  for (const Toolkit* toolkit : newest_first(toolkits)) names.push_back(name_of(*toolkit));
  return names.empty() ? "none" : join(names, ", ");
}

Result<const Toolkit*> find_toolkit(std::span<const Toolkit> toolkits, std::string_view wanted) {
  const bool is_folder = wanted.starts_with('/');
  const std::string version = is_folder ? "" : version_in(wanted);
  if (!is_folder && version.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a CUDA version", printable(wanted)),
                "a version (12.4) or the folder of a toolkit (/usr/local/cuda-12.4)");
  const Toolkit* found = nullptr;
  for (const Toolkit* toolkit : newest_first(toolkits)) {
    const bool fits = is_folder ? toolkit->path == without_slash(wanted) : is_release_of(toolkit->version, version);
    if (fits && (found == nullptr || (toolkit->active && !found->active && version_of(*toolkit) == version_of(*found))))
      found = toolkit;
  }
  if (found != nullptr) return found;
  return fail(ErrorCode::not_found,
              is_folder ? fmt::format("there is no CUDA toolkit in {}", printable(wanted))
                        : fmt::format("there is no CUDA toolkit {} here", version),
              toolkits.empty()
                  ? "none was found; gpuwarden env create NAME --cuda VERSION makes an environment with one"
                  : "there are: " + describe(toolkits));
}

std::vector<std::string> reasons_in_use(const Toolkit& toolkit) {
  std::vector<std::string> reasons;
  if (toolkit.active) reasons.emplace_back("PATH finds its nvcc");
  for (const std::string& name : toolkit.named_by) {
    if (name == "LD_LIBRARY_PATH")
      reasons.emplace_back("its libraries are first on LD_LIBRARY_PATH");
    else if (name.starts_with('/'))
      reasons.push_back(name + " leads to it");
    else
      reasons.push_back(name + " names it");
  }
  return reasons;
}

std::string targets_of(const Toolkit& toolkit, const Knowledge& knowledge) {
  if (!toolkit.architectures.empty())
    return fmt::format("{} to {}", toolkit.architectures.front(), toolkit.architectures.back());
  const auto* const release = knowledge.toolkit(version_of(toolkit));
  return release == nullptr ? "" : fmt::format("sm_{} to sm_{}", release->lowest, release->highest);
}

std::string on_driver(const Toolkit& toolkit, std::optional<Version> driver, const Knowledge& knowledge) {
  if (!driver || !version_of(toolkit)) return "";
  switch (knowledge.runs_on(version_of(toolkit), *driver)) {
    case RunsOn::natively:
      return "as they are";
    case RunsOn::by_minor_version:
      return "by minor-version compatibility: compiled code runs, PTX does not";
    case RunsOn::by_forward_compatibility:
      return "only with cuda-compat, on data-centre GPUs";
    case RunsOn::not_at_all:
      return "not at all: the driver is too old";
  }
  return "";
}

Result<int> parse_architecture(std::string_view text, const Knowledge& knowledge) {
  const std::string lower = to_lower(trim(text));
  std::string_view digits = lower;
  for (const std::string_view prefix : {"sm_", "compute_", "sm"}) {
    if (digits.starts_with(prefix)) digits.remove_prefix(prefix.size());
  }
  // "90a" and "120f" are the same chip's special features.
  if (digits.size() > 1 && (digits.ends_with('a') || digits.ends_with('f'))) digits.remove_suffix(1);
  std::string number(digits);
  std::erase(number, '.');
  const bool single_dot = std::ranges::count(digits, '.') <= 1 && !digits.ends_with('.') && !digits.starts_with('.');
  const auto value = single_dot ? parse_integer(number) : std::nullopt;
  if (value && *value >= 10 && *value < 1000 && knowledge.architecture(static_cast<int>(*value)) != nullptr)
    return static_cast<int>(*value);
  if (!value) {
    if (const auto named = knowledge.architecture_of_name(text)) return *named;
    if (const auto* model = knowledge.model(text)) return model->capability_major * 10 + model->capability_minor;
  }
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a known GPU architecture", printable(text)),
              "for example sm_89, 8.9, \"NVIDIA L4\", or native for this machine's GPUs");
}

Result<ToolkitChoice> choose_toolkit(std::span<const Toolkit> toolkits, const std::vector<int>& architectures,
                                     std::optional<Version> driver, const Knowledge& knowledge) {
  ToolkitChoice choice;
  bool natively = false;
  for (const Toolkit* toolkit : newest_first(toolkits)) {
    const auto runs = driver ? std::optional(knowledge.runs_on(version_of(*toolkit), *driver)) : std::nullopt;
    std::string why_not = refusal(*toolkit, architectures, runs, knowledge);
    if (why_not.empty() && choice.toolkit != nullptr && (natively || runs != RunsOn::natively)) {
      why_not = version_of(*toolkit) == version_of(*choice.toolkit) ? "is the same version" : "is older";
    } else if (why_not.empty()) {
      if (choice.toolkit != nullptr)
        choice.passed_over.push_back(name_of(*choice.toolkit) +
                                     ": the driver runs its programs only by minor-version compatibility");
      choice.toolkit = toolkit;
      natively = !runs || runs == RunsOn::natively;
      continue;
    }
    choice.passed_over.push_back(fmt::format("{}: {}", name_of(*toolkit), why_not));
  }
  const std::string wanted = names_of(architectures);
  if (choice.toolkit == nullptr)
    return fail(ErrorCode::unsatisfied,
                fmt::format("no toolkit here can build for {}{}", wanted,
                            driver ? " and run on driver " + to_string(*driver) : ""),
                choice.passed_over.empty() ? "no CUDA toolkit was found" : join(choice.passed_over, "; "));
  const std::string how = on_driver(*choice.toolkit, driver, knowledge);
  choice.why = fmt::format("CUDA {}: the newest here that builds for {}{}", name_of(*choice.toolkit), wanted,
                           how.empty() ? "; the driver's version is not known"
                                       : fmt::format("; driver {} runs its programs {}", to_string(*driver), how));
  return choice;
}

}  // namespace gpuwarden::toolkits
