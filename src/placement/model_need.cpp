// SPDX-License-Identifier: Apache-2.0
#include "placement/model_need.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gpu_count.hpp"
#include "gpuwarden/planning/gpus.hpp"

namespace gpuwarden::placement {
namespace {

using planning::Fit;
using planning::rank_of;

double gib(double bytes) { return bytes / planning::kBytesPerGiB; }
double gib(Bytes bytes) { return gib(static_cast<double>(bytes.value)); }

/// What a kind is told by: GPUs of one name, instances of one size.
std::string kind_name(const Candidate& device) {
  return device.mig != nullptr ? device.device.name : device.record->gpu.name;
}

std::string recompute_words(const planning::Settings& settings) {
  if (!settings.trains() || settings.recompute == planning::Recompute::none) return "";
  const bool selective = settings.recompute == planning::Recompute::selective;
  return selective ? " with selective recomputation" : " with gradient checkpointing";
}

std::string verdict_words(Fit fit) {
  if (fit == Fit::fits) return "fits";
  return fit == Fit::tight ? "is tight on" : "does not fit";
}

}  // namespace

Result<std::optional<planning::Workload>> work_of(const Request& request) {
  std::optional<planning::Workload> work = request.work;
  if (!work && !request.model_size) return work;
  if (work && request.model_size)
    return fail(ErrorCode::invalid_argument, "a model and a model's size cannot be used together",
                "leave one of them out");
  if (!work) {
    GPUWARDEN_TRY(work, planning::workload_of_size(*request.model_size));
  }
  // Ranks follow from the GPUs: as many as the experts want are supposed here.
  planning::Settings settings = work->settings;
  settings.parallel.data = std::max(settings.parallel.data, settings.parallel.expert);
  GPUWARDEN_CHECK(planning::check(settings));
  const double share = planning::share_taken(*work);
  if (!(share > 0 && share <= 1))
    return fail(ErrorCode::invalid_argument, fmt::format("an engine that takes {} of a GPU's memory", share),
                "give more than 0, at most 1");
  // The largest micro-batch that fits would make every model need all of a GPU.
  work->fixed_micro_batch = true;
  return work;
}

ModelNeed::ModelNeed(const planning::Workload& work, const Wanted& wanted, bool as_if_free)
    : work_(work), wanted_(wanted), figures_(planning::figures_of(work.model)), as_if_free_(as_if_free) {}

Bytes ModelNeed::room_of(const Candidate& device) const {
  if (as_if_free_) return device.usable;
  if (!device.known_free) return {};
  if (work_.settings.task != planning::Task::serving) return device.free;
  // An engine takes a share of the whole GPU, or does not start.
  const double share = planning::share_taken(work_) * static_cast<double>(device.usable.value);
  return static_cast<double>(device.free.value) >= share ? device.usable : Bytes{};
}

std::uint32_t ModelNeed::node_of(std::size_t count) const {
  const auto gpus = static_cast<std::uint32_t>(count);
  return wanted_.request.nodes > 1 ? std::max(1U, gpus) : std::max(planning::kUsualNode, gpus);
}

ModelNeed::Kind ModelNeed::kind_of(std::vector<Candidate> devices) const {
  Kind kind{.devices = std::move(devices)};
  std::ranges::stable_sort(kind.devices, std::ranges::greater{}, [&](const Candidate& c) { return room_of(c); });
  std::vector<std::string> names;
  for (const Candidate& device : kind.devices) {
    if (std::ranges::find(names, kind_name(device)) == names.end()) names.push_back(kind_name(device));
  }
  kind.mixed = names.size() > 1;
  // Speeds decide between strategies that fit; of an unknown GPU the usual ones are taken.
  if (!kind.devices.empty())
    kind.group = planning::gpus_named(kind.devices.front().record->gpu.name).value_or(planning::GpuGroup{});
  kind.group.name = join(names, ", ");
  kind.group.usable_measured = true;
  return kind;
}

std::vector<ModelNeed::Kind> ModelNeed::kinds_of(std::span<const Candidate> devices) const {
  std::vector<Candidate> offering;
  for (const Candidate& device : devices) {
    if (room_of(device) > Bytes{}) offering.push_back(device);
  }
  std::vector<Kind> kinds;
  if (offering.empty()) return kinds;
  if (!wanted_.ids.empty() || wanted_.request.all) {
    kinds.push_back(kind_of(std::move(offering)));
    return kinds;
  }
  std::vector<std::vector<Candidate>> sorted;
  for (const Candidate& device : offering) {
    const auto same = std::ranges::find_if(
        sorted, [&](const std::vector<Candidate>& kind) { return kind_name(kind.front()) == kind_name(device); });
    if (same != sorted.end())
      same->push_back(device);
    else
      sorted.push_back({device});
  }
  for (auto& kind : sorted) kinds.push_back(kind_of(std::move(kind)));
  return kinds;
}

std::vector<std::uint32_t> ModelNeed::counts_for(std::size_t devices) const {
  const Request& request = wanted_.request;
  const std::size_t asked = wanted_.ids.empty() ? request.count.value_or(0) : wanted_.ids.size();
  if (asked > devices) return {};
  if (asked > 0) return {static_cast<std::uint32_t>(asked)};
  std::vector<std::uint32_t> counts(devices);
  std::iota(counts.begin(), counts.end(), 1U);
  if (request.all) std::ranges::reverse(counts);
  return counts;
}

std::optional<ModelFit> ModelNeed::fit_on(const Kind& kind, std::size_t count) const {
  const Bytes room = room_of(kind.devices[count - 1]);
  planning::GpuGroup gpus = kind.group;
  gpus.count = static_cast<std::uint32_t>(count) * wanted_.request.nodes;
  gpus.usable = room;
  auto best = planning::best_strategy(figures_, work_, gpus, node_of(count));
  if (!best) return std::nullopt;
  return fit_of(kind, count, *std::move(best));
}

ModelFit ModelNeed::fit_of(const Kind& kind, std::size_t count, planning::Candidate candidate) const {
  const Bytes room = room_of(kind.devices[count - 1]);
  ModelFit fit{.model = work_.model.name,
               .gpu = kind.group.name,
               .gpus = static_cast<std::uint32_t>(count),
               .candidate = std::move(candidate),
               .room = room,
               .mixed = kind.mixed};
  fit.fit = fit.candidate.fit;
  fit.needed = planning::needed_free(work_, fit.candidate, room);
  return fit;
}

bool ModelNeed::uses_all(const ModelFit& fit) const {
  return fit.candidate.settings.parallel.gpus() == fit.gpus * wanted_.request.nodes;
}

bool ModelNeed::will_do(const ModelFit& fit, const Candidate& device) const {
  const Bytes room = room_of(device);
  // How many tokens an engine holds was found for the GPU with the least.
  if (work_.settings.task == planning::Task::serving) return room >= fit.room;
  return rank_of(planning::judge(fit.candidate.estimate, {room})) <= rank_of(fit.fit);
}

std::string ModelNeed::fewer_words(const Kind& kind, std::size_t count) const {
  for (std::size_t fewer = count - 1; fewer > 0; --fewer) {
    const auto fit = fit_on(kind, fewer);
    if (!fit || !uses_all(*fit)) continue;
    const std::string on = fmt::format("; on {} ", fewer == 1 ? "one" : std::to_string(fewer));
    const double needed = fit->candidate.estimate.expected();
    const bool holds = needed <= static_cast<double>(fit->room.value);
    if (fit->fit != Fit::does_not_fit && fit->candidate.other_framework)
      return on + fmt::format("only {} in {} does", fit->candidate.name,
                              planning::title_of(fit->candidate.settings.framework));
    if (fit->fit == Fit::does_not_fit && holds) return on + "no room is left for the KV cache of a request";
    return on + fmt::format("it {} ({:.1f} of {:.1f} GiB)", holds ? "is tight" : "does not fit", gib(needed),
                            gib(fit->room));
  }
  return "";
}

std::optional<ModelChoice> ModelNeed::choose_of(const Kind& kind) const {
  const bool asked = wanted_.request.count || !wanted_.ids.empty();
  const auto on = [&](std::uint32_t count) -> std::optional<planning::Candidate> {
    auto fit = fit_on(kind, count);
    // Nobody is given GPUs that the plan leaves idle, unless so many were asked for.
    if (!fit || (!asked && !uses_all(*fit))) return std::nullopt;
    return std::move(fit->candidate);
  };
  const auto chosen = planning::choose_count(work_.model, counts_for(kind.devices.size()), on);
  if (!chosen) return std::nullopt;
  std::optional<ModelChoice> best =
      ModelChoice{.count = chosen->gpus, .fit = fit_of(kind, chosen->gpus, chosen->candidate)};
  std::ranges::copy_if(kind.devices, std::back_inserter(best->devices),
                       [&](const Candidate& device) { return will_do(best->fit, device); });
  if (!asked && !wanted_.request.all && best->count > 1) best->fewer = fewer_words(kind, best->count);
  return best;
}

/// Each instance by itself: those that hold the model with room to spare, and where these are too few the tight ones.
std::optional<ModelChoice> ModelNeed::choose_instances(std::span<const Candidate> devices) const {
  std::vector<std::pair<Candidate, ModelFit>> fitting;
  for (const Candidate& device : devices) {
    if (room_of(device) == Bytes{}) continue;
    auto fit = fit_on(kind_of({device}), 1);
    if (fit && fit->fit != Fit::does_not_fit) fitting.emplace_back(device, std::move(*fit));
  }
  if (fitting.empty()) return std::nullopt;
  const std::size_t asked = wanted_.ids.empty() ? wanted_.request.count.value_or(1) : wanted_.ids.size();
  const std::size_t count = wanted_.request.all ? fitting.size() : asked;
  if (fitting.size() < count) return std::nullopt;
  const auto roomy = static_cast<std::size_t>(
      std::ranges::count_if(fitting, [](const auto& pair) { return pair.second.fit == Fit::fits; }));
  ModelChoice choice{.count = count};
  for (auto& [device, fit] : fitting) {
    if (roomy >= count && fit.fit != Fit::fits) continue;
    if (choice.devices.empty() || fit.room < choice.fit.room) choice.fit = fit;
    choice.devices.push_back(device);
  }
  return choice;
}

/// The place of the device that the user likes best.
std::size_t ModelNeed::preferred(const ModelChoice& choice) const {
  std::size_t best = wanted_.prefer.size();
  for (const Candidate& device : choice.devices) {
    const auto place = std::ranges::find(wanted_.prefer, device.device.uuid) - wanted_.prefer.begin();
    best = std::min(best, static_cast<std::size_t>(place));
  }
  return best;
}

std::optional<ModelChoice> ModelNeed::choose(std::span<const Candidate> devices) const {
  if (wanted_.mig) return choose_instances(devices);
  const std::vector<Kind> kinds = kinds_of(devices);
  const auto key = [&](const ModelChoice& choice) {
    return std::tuple(rank_of(choice.fit.candidate), preferred(choice), choice.count, -gib(choice.fit.room));
  };
  std::optional<ModelChoice> best;
  for (const Kind& kind : kinds) {
    auto choice = choose_of(kind);
    if (choice && (!best || key(*choice) < key(*best))) best = std::move(choice);
  }
  if (best || kinds.size() < 2) return best;
  std::vector<Candidate> all;
  for (const Kind& kind : kinds) all.insert(all.end(), kind.devices.begin(), kind.devices.end());
  return choose_of(kind_of(std::move(all)));
}

const ModelNeed::Kind* ModelNeed::largest(const std::vector<Kind>& kinds) const {
  const auto together = [&](const Kind& kind) {
    return std::accumulate(kind.devices.begin(), kind.devices.end(), std::uint64_t{0},
                           [&](std::uint64_t sum, const Candidate& device) { return sum + room_of(device).value; });
  };
  const auto found = std::ranges::max_element(kinds, {}, together);
  return found == kinds.end() ? nullptr : &*found;
}

std::optional<ModelFit> ModelNeed::nearest(std::span<const Candidate> devices) const {
  const std::vector<Kind> kinds = kinds_of(devices);
  const Kind* const largest_one = largest(kinds);
  if (largest_one == nullptr) return std::nullopt;
  const std::size_t asked = wanted_.ids.empty() ? wanted_.request.count.value_or(0) : wanted_.ids.size();
  const bool together = !wanted_.mig && asked > largest_one->devices.size();
  const Kind kind = together ? kind_of({devices.begin(), devices.end()}) : *largest_one;
  if (together && asked > kind.devices.size()) return std::nullopt;
  // Fewer than were asked for are no answer: the model may fit them.
  const std::size_t most = wanted_.mig ? 1 : asked > 0 ? asked : kind.devices.size();
  const std::size_t least = asked > 0 ? most : 1;
  for (std::size_t count = most; count >= least; --count) {
    auto fit = fit_on(kind, count);
    if (!fit) continue;
    fit->fit = Fit::does_not_fit;
    fit->reason = sentence(*fit);
    return fit;
  }
  return std::nullopt;
}

planning::GpuGroup ModelNeed::largest_kind(std::span<const Candidate> devices) const {
  const std::vector<Kind> kinds = kinds_of(devices);
  const Kind* const kind = largest(kinds);
  planning::GpuGroup group{.count = 0};
  if (kind == nullptr) return group;
  const std::size_t asked = wanted_.ids.empty() ? wanted_.request.count.value_or(0) : wanted_.ids.size();
  const std::size_t count = wanted_.mig ? 1 : std::min(asked > 0 ? asked : kind->devices.size(), kind->devices.size());
  group = kind->group;
  group.count = static_cast<std::uint32_t>(count) * wanted_.request.nodes;
  group.usable = room_of(kind->devices[count - 1]);
  return group;
}

ModelFit ModelNeed::on_taken(const ModelChoice& choice, std::span<const Candidate> taken) const {
  ModelFit fit = choice.fit;
  if (!taken.empty()) {
    fit.room = room_of(*std::ranges::min_element(taken, {}, [&](const Candidate& device) { return room_of(device); }));
    fit.fit = planning::judge(fit.candidate.estimate, {fit.room});
    const Kind kind = kind_of({taken.begin(), taken.end()});
    fit.gpu = kind.group.name;
    fit.mixed = kind.mixed;
  }
  fit.reason = sentence(fit) + choice.fewer;
  return fit;
}

std::string ModelNeed::sentence(const ModelFit& fit) const {
  const planning::Estimate& estimate = fit.candidate.estimate;
  const bool one = fit.gpus * wanted_.request.nodes == 1;
  const std::string where = fit.gpus == 1 ? "one " + fit.gpu
                            : fit.mixed   ? fmt::format("{} different GPUs ({})", fit.gpus, fit.gpu)
                                          : fmt::format("{} x {}", fit.gpus, fit.gpu);
  std::string text = fmt::format(
      "{} {} {}{} for {}: ", printable(work_.model.name), verdict_words(fit.fit), where,
      wanted_.request.nodes > 1 ? fmt::format(" of each of {} nodes", wanted_.request.nodes) : std::string(),
      planning::words_of(work_.settings.task));
  const std::string recomputed = recompute_words(fit.candidate.settings);
  const std::string elsewhere = fit.candidate.other_framework
                                    ? fmt::format(" (in {})", planning::title_of(fit.candidate.settings.framework))
                                    : "";
  text += one ? "it needs " : fmt::format("{}{}{} needs ", fit.candidate.name, elsewhere, recomputed);
  text += fmt::format("{:.1f} GiB{} ({:.1f} to {:.1f})", gib(estimate.expected()), one ? recomputed : " of each",
                      gib(estimate.low()), gib(estimate.high()));
  const bool holds = estimate.expected() <= static_cast<double>(fit.room.value);
  if (work_.settings.task != planning::Task::serving || !holds)
    text += fmt::format(", {:.1f} GiB are {}", gib(fit.room), as_if_free_ ? "there" : "free");
  else if (fit.fit == Fit::does_not_fit)
    text +=
        fmt::format(", which leaves the engine's {:.1f} GiB no room for the KV cache of a request", gib(fit.needed));
  else
    text += fmt::format(" at least, and the engine takes {:.1f} of {:.1f} GiB", gib(fit.needed), gib(fit.room));
  if (!uses_all(fit))
    text += fmt::format("; {} of the {} GPUs are used", fit.candidate.settings.parallel.gpus(),
                        fit.gpus * wanted_.request.nodes);
  return text + (work_.model.estimated ? "; its shape is a guess" : "");
}

}  // namespace gpuwarden::placement
