// SPDX-License-Identifier: Apache-2.0
// What other libraries and frameworks need, in their maintainers' words, and whether a place's GPUs and driver have it.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "compat/recommend.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::ComponentRelease;
using knowledge::PackageNeeds;

bool speaks_of(const ComponentRelease& row, const std::string& version) {
  if (version.empty() || row.version.starts_with(version)) return true;
  const auto asked = Version::parse(version);
  const auto own = Version::parse(row.version);
  return asked && own && release_of(*asked) == release_of(*own);
}

/// Whether its kernels are for all of these GPUs; what a row does not say is not against it.
bool has_kernels(const PackageNeeds& row, const std::vector<int>& architectures) {
  return std::ranges::all_of(architectures, [&](int one) {
    return one >= row.min_capability && (row.max_capability == 0 || one <= row.max_capability);
  });
}

std::optional<Version> least_driver(const Asked& asked, const PackageNeeds& row) {
  if (row.min_driver) return row.min_driver;
  return row.cuda ? asked.knowledge.min_driver(row.cuda, false) : std::nullopt;
}

bool driver_is_enough(const Asked& asked, const PackageNeeds& row) {
  const auto least = least_driver(asked, row);
  return !least || !asked.place.driver || *asked.place.driver >= *least;
}

/// The row of the release; without one, the newest that the place's GPUs and driver are good for, else its GPUs alone,
/// else the newest.
const PackageNeeds* needs_of(const Asked& asked, const std::string& name, const std::string& version) {
  if (!version.empty()) return asked.knowledge.package(name, Version::parse(version));
  const auto architectures = asked.place.architectures();
  const PackageNeeds* best = nullptr;
  for (const PackageNeeds& row : asked.knowledge.packages()) {
    if (row.package != name) continue;
    const auto key = [&](const PackageNeeds& one) {
      return std::tuple(has_kernels(one, architectures), driver_is_enough(asked, one), one.first);
    };
    if (best == nullptr || key(*best) < key(row)) best = &row;
  }
  return best;
}

/// Compute capabilities of which a component's row speaks; most 0: no bound.
struct Capabilities {
  int least = 0;
  int most = 0;
};

/// 75 of "7.5"; empty: no number stands there.
std::optional<int> capability_at(std::string_view text) {
  const auto version = Version::parse(text);
  if (!version || text.find('.') == std::string_view::npos) return std::nullopt;
  return version->major * 10 + version->minor;
}

/// {50, 120} of "CC 5.0-12.0 (...)", {35, 0} of "CC 3.5;5.0;8.0+", {52, 0} of "CC >=5.2"; empty: other prose.
std::optional<Capabilities> capabilities_of(const ComponentRelease& row) {
  std::string_view text = row.capability;
  if (!text.starts_with("CC ")) return std::nullopt;
  text = text.substr(3, text.find(' ', 3) - 3);
  if (text.starts_with(">=")) {
    const auto least = capability_at(text.substr(2));
    return least ? std::optional(Capabilities{*least, 0}) : std::nullopt;
  }
  const std::size_t end = text.find_first_of("-;+");
  const auto least = capability_at(text.substr(0, end));
  if (!least || end == std::string_view::npos) return std::nullopt;
  if (text.ends_with('+')) return Capabilities{*least, 0};
  const auto most = text[end] == '-' ? capability_at(text.substr(end + 1)) : std::nullopt;
  return most ? std::optional(Capabilities{*least, *most}) : std::nullopt;
}

/// The newest CUDA that a row speaks of: 12.3 of "CUDA 11.x (11.8 best), 12.0-12.3", all of 12 of "CUDA 11-12"; empty:
/// none, or an open end.
std::optional<Version> newest_cuda_of(const ComponentRelease& row) {
  constexpr int kWhole = 99;
  std::string_view text = row.needs;
  if (!text.starts_with("CUDA ") || text.contains('>')) return std::nullopt;
  text = text.substr(0, text.find("cuDNN"));
  Version newest;
  for (std::size_t at = text.find_first_of("0123456789"); at < text.size();) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789.", at), text.size());
    Version one = Version::parse(text.substr(at, end - at)).value_or(Version{});
    if (!text.substr(at, end - at).contains('.') || text.substr(at, end - at).ends_with('.')) one.minor = kWhole;
    newest = std::max(newest, one);
    at = std::min(text.find_first_of("0123456789", end), text.size());
  }
  return newest ? std::optional(newest) : std::nullopt;
}

/// The CUDA that the release which is asked about is of; empty: not known, or no release is named.
std::optional<Version> cuda_of(const ComponentAnswer& answer) {
  if (answer.version.empty()) return std::nullopt;
  std::optional<Version> newest;
  for (const auto* row : answer.rows) newest = std::max(newest, newest_cuda_of(*row));
  if (newest || answer.needs == nullptr || !answer.needs->cuda || !answer.needs->last) return newest;
  constexpr int kWhole = 99;
  return Version{answer.needs->cuda.major, kWhole};
}

/// A GPU of the place whose generation came with a newer CUDA than the release's; empty: none.
std::string too_new_for(const Asked& asked, const ComponentAnswer& answer) {
  const auto cuda = cuda_of(answer);
  if (!cuda) return "";
  for (const PlaceGpu& gpu : asked.place.gpus) {
    const auto* row = gpu.architecture ? asked.knowledge.architecture(*gpu.architecture) : nullptr;
    if (row == nullptr || row->first_cuda <= *cuda) continue;
    return fmt::format("it is older than the generation of {}, which came with CUDA {}", printable(gpu.name),
                       to_string(row->first_cuda));
  }
  return "";
}

/// What the one row that speaks of the release has against a GPU of the place; empty: nothing, or it is not said.
std::string missing_by_row(const Asked& asked, const ComponentAnswer& answer) {
  const auto bounds = answer.rows.size() == 1 ? capabilities_of(*answer.rows[0]) : std::nullopt;
  if (!bounds) return "";
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (!gpu.architecture) continue;
    if (*gpu.architecture < bounds->least || (bounds->most != 0 && *gpu.architecture > bounds->most))
      return fmt::format("{} has compute capability {}", printable(gpu.name), capability_text(*gpu.architecture));
  }
  return "";
}

/// Why a GPU of the place has no use for it, else why the driver has not; empty: neither.
std::string obstacle_to(const Asked& asked, const ComponentAnswer& answer) {
  if (answer.needs == nullptr) {
    if (std::string missing = missing_by_row(asked, answer); !missing.empty()) return missing;
    const auto gpu = gpu_obstacle(asked);
    return gpu ? fmt::format("{}: {}", printable(gpu->gpu), gpu->why) : "";
  }
  const PackageNeeds& row = *answer.needs;
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (!gpu.architecture || has_kernels(row, {*gpu.architecture})) continue;
    return fmt::format("{} has compute capability {}", printable(gpu.name), capability_text(*gpu.architecture));
  }
  if (const auto gpu = gpu_obstacle(asked)) return fmt::format("{}: {}", printable(gpu->gpu), gpu->why);
  const auto least = least_driver(asked, row);
  if (asked.place.driver && least && *asked.place.driver < *least)
    return fmt::format("driver {} is older than {}", to_string(*asked.place.driver), to_string(*least));
  return "";
}

/// Why nothing can be said of the place's GPUs; empty: something can.
std::string why_not_judged(const Asked& asked, const ComponentAnswer& answer) {
  const auto& gpus = asked.place.gpus;
  const auto unknown = std::ranges::find_if(gpus, [](const PlaceGpu& gpu) { return !gpu.architecture; });
  if (unknown != gpus.end()) return fmt::format("the compute capability of {} is not known", printable(unknown->name));
  if (std::string older = too_new_for(asked, answer); !older.empty()) return older;
  const bool by_row = answer.rows.size() == 1 && capabilities_of(*answer.rows[0]);
  if (answer.needs == nullptr && !by_row)
    return "the compute capability that it asks for is not in this knowledge base";
  if (const auto* board = asked.place.board_of_other_builds()) return std::string(board->builds);
  if (gpus.empty()) return "no GPU is named";
  if (answer.needs == nullptr || answer.needs->min_capability != 0) return "";
  return answer.needs->torch ? "it serves the GPUs that its PyTorch serves: gpuwarden compat torch"
                             : "for which GPUs it has code is not in this knowledge base";
}

void judge(const Asked& asked, ComponentAnswer& answer) {
  answer.needs = needs_of(asked, answer.name, answer.version);
  if (answer.needs != nullptr) {
    const PackageNeeds& row = *answer.needs;
    answer.min_driver = least_driver(asked, row);
    answer.sources.push_back(
        fmt::format("{} {}: {} (as of {})", row.package, to_string(row.first), row.source, row.as_of));
  }
  answer.known = !answer.rows.empty() || answer.needs != nullptr;
  if (asked.place.is_empty() || !answer.known) return;
  const std::string obstacle = obstacle_to(asked, answer);
  answer.not_judged = obstacle.empty() ? why_not_judged(asked, answer) : "";
  if (answer.not_judged.empty()) answer.obstacle = obstacle;
  if (!obstacle.empty()) answer.positive = false;
}

}  // namespace

Result<ComponentAnswer> answer_component(const Asked& asked, const std::string& name, const std::string& version) {
  ComponentAnswer answer;
  answer.name = to_lower(name);
  answer.version = version;
  // flash-attn-3 is a package of its own, and a version in its maintainers' words.
  constexpr std::string_view kSeries = "flash-attn-";
  const bool of_series = answer.name.starts_with(kSeries);
  const std::string component = of_series ? "flash-attn" : answer.name;
  const std::string wanted = of_series ? answer.name.substr(kSeries.size()) : version;
  std::vector<const ComponentRelease*> all;
  for (const ComponentRelease& row : asked.knowledge.components()) {
    if (row.component.starts_with(component)) all.push_back(&row);
  }
  std::ranges::copy_if(all, std::back_inserter(answer.rows), [&](const auto* row) { return speaks_of(*row, wanted); });
  if (all.empty() && asked.knowledge.package(answer.name, std::nullopt) == nullptr)
    return fail(ErrorCode::not_found, fmt::format("nothing is known about '{}'", printable(name)));
  judge(asked, answer);
  answer.positive = answer.positive && answer.known;
  if (!answer.known) answer.rows = all;
  for (const auto* row : answer.rows)
    answer.sources.push_back(fmt::format("{} {}: {}", row->component, row->version, row->source));
  return answer;
}

}  // namespace gpuwarden::compat
