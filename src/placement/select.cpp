// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/select.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/indices.hpp"
#include "placement/candidates.hpp"
#include "placement/fitting.hpp"
#include "placement/model_need.hpp"
#include "placement/names.hpp"
#include "placement/ranking.hpp"

namespace gpuwarden::placement {
namespace {

/// "GPU 0" of an index, else "GPU 'GPU-3f'": the word that the user knows the GPU by.
std::string as_typed(const GpuName& name) {
  return parse_integer(name.text) ? "GPU " + name.text : fmt::format("GPU '{}'", printable(name.text));
}

Result<void> check_request(const Request& request, const Wanted& wanted) {
  const auto bad = [](std::string what, std::string hint = {}) {
    return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
  };
  for (std::size_t i = 0; i < wanted.ids.size(); ++i) {
    const Uuid& uuid = wanted.ids[i];
    if (std::ranges::count(wanted.ids, uuid) > 1)
      return bad(fmt::format("{} is listed twice", as_typed(request.gpu_ids[i])), "list every GPU once");
    if (std::ranges::find(wanted.exclude, uuid) != wanted.exclude.end())
      return bad(fmt::format("{} is both named and excluded", as_typed(request.gpu_ids[i])));
  }
  if (request.nodes == 0) return bad("0 nodes were requested", "1 is this machine alone");
  if (request.count == 0U) return bad("0 GPUs were requested", "use --device cpu to run without a GPU");
  if (!wanted.ids.empty() && request.count && *request.count != wanted.ids.size()) {
    return bad(fmt::format("{} listed, but {} requested", counted(wanted.ids.size(), "GPU is", "GPUs are"),
                           counted(*request.count, "was", "were")),
               "leave out one of the two");
  }
  const auto migs = std::ranges::count_if(wanted.ids, [](const Uuid& uuid) { return uuid.value.starts_with("MIG-"); });
  if (migs > 0 && static_cast<std::size_t>(migs) < wanted.ids.size()) {
    return bad("MIG instances and whole GPUs cannot be used together: CUDA enumerates either", "name only one kind");
  }
  const bool several = migs > 1 || (wanted.mig && request.count.value_or(1) > 1);
  if (several && !request.one_process_per_device) {
    return bad("one process can use only one MIG instance",
               "use gpuwarden run --nproc-per-node gpu, which gives each rank its own");
  }
  return {};
}

/// Named GPUs that the inherited variable hides are a mistake worth a word of its own.
Result<void> check_visibility(const Wanted& wanted) {
  if (!wanted.visible.restricted) return {};
  for (std::size_t i = 0; i < wanted.ids.size(); ++i) {
    if (std::ranges::find(wanted.visible.uuids, wanted.ids[i]) == wanted.visible.uuids.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is hidden by CUDA_VISIBLE_DEVICES={}", as_typed(wanted.request.gpu_ids[i]),
                              printable(wanted.inputs.visibility.cuda_visible_devices.value_or(""))),
                  wanted.visible.warnings.empty() ? "unset CUDA_VISIBLE_DEVICES, or list a GPU that it shows"
                                                  : join(wanted.visible.warnings, "; "));
    }
  }
  return {};
}

/// How many are to be taken, out of the fitting ones.
std::size_t how_many(const Request& request, const Wanted& wanted, std::size_t fitting) {
  if (!wanted.ids.empty()) return wanted.ids.size();
  return request.all ? fitting : request.count.value_or(1);
}

/// Devices that have one reason.
struct SameReason {
  std::string reason;
  std::vector<std::uint32_t> gpus;
  std::map<std::uint32_t, std::vector<std::uint32_t>> instances;  ///< by the GPU that they are on

  /// "GPUs 0-3, 6", "GPU 0 MIG 0-2, GPU 1 MIG 0"
  std::string label() const {
    std::string text = gpus.empty() ? "" : facts::name_gpus(gpus);
    for (const auto& [gpu, indices] : instances)
      text += fmt::format("{}GPU {} MIG {}", text.empty() ? "" : ", ", gpu, facts::index_ranges(indices));
    return text;
  }
};

std::vector<SameReason> by_reason(const Decision& decision) {
  std::vector<SameReason> groups;
  for (const Verdict& verdict : decision.verdicts) {
    if (verdict.kind == Verdict::Kind::fits || verdict.kind == Verdict::Kind::not_named) continue;
    auto same = std::ranges::find(groups, verdict.reason, &SameReason::reason);
    if (same == groups.end()) same = groups.insert(groups.end(), {verdict.reason, {}, {}});
    const Device& device = verdict.device;
    if (device.mig)
      same->instances[device.index.value].push_back(*device.mig);
    else
      same->gpus.push_back(device.index.value);
  }
  return groups;
}

/// A line for each reason: "  GPUs 0-3: leased by ada": why they cannot be had.
std::string objections(const Decision& decision) {
  constexpr int kMost = 8;
  std::string text;
  int said = 0;
  for (const SameReason& group : by_reason(decision)) {
    if (++said > kMost) return text + "\n  and more (--explain)";
    text += fmt::format("\n  {}: {}", group.label(), group.reason);
  }
  return text;
}

/// How many of the requested can be had; where there are not even as many, that.
std::string how_few(const Wanted& wanted, const Decision& decision, std::size_t fitting, std::size_t count) {
  const std::size_t all = decision.verdicts.size();
  const auto things = [&](std::size_t number) {
    return wanted.mig ? counted(number, "MIG instance") : counted(number, "GPU");
  };
  // Why some of them cannot be had means nothing then.
  if (count > all) return fmt::format("{} were requested, but this machine has {}", things(count), things(all));
  std::string sentence = fmt::format("only {} of the {} requested GPUs are available", fitting, count);
  if (fitting == 0)
    sentence = count == 1 ? "no GPU is available" : fmt::format("none of the {} requested GPUs is available", count);
  return sentence + objections(decision);
}

std::string missing_sentence(const Wanted& wanted, const Decision& decision, std::size_t fitting, std::size_t count) {
  const auto& gpus = wanted.inputs.snapshot.gpus;
  if (gpus.empty()) return "this machine has no GPU";
  if (decision.verdicts.empty()) {
    const bool on = std::ranges::any_of(gpus, [](const auto& gpu) { return gpu.gpu.mig_enabled.value_or(false); });
    return on ? "MIG is enabled, but no GPU has a MIG instance" : "no GPU of this machine has MIG enabled";
  }
  return how_few(wanted, decision, fitting, count);
}

Strategy strategy_of(const ModelFit& fit, std::size_t devices) {
  const planning::Parallelism& parallel = fit.candidate.settings.parallel;
  const bool whole = parallel.sharding == planning::Sharding::none && parallel.data == parallel.gpus();
  if (!whole) return Strategy::fsdp;
  return devices * parallel.data > 1 ? Strategy::ddp : Strategy::single;
}

/// Devices by what stands in the way of the request.
struct Sorted {
  std::vector<Candidate> fitting;
  std::vector<Candidate> possible;  ///< and those that would fit if nobody used them
};

void note(std::vector<std::string>& list, const std::string& one) {
  if (std::ranges::find(list, one) == list.end()) list.push_back(one);
}

Sorted sort_candidates(const Wanted& wanted, Decision& decision) {
  Sorted sorted;
  for (const Candidate& candidate : list_candidates(wanted)) {
    const auto objection = object_to(candidate, wanted);
    decision.verdicts.push_back({candidate.device, false, objection && objection->transient,
                                 objection ? objection->kind : Verdict::Kind::fits,
                                 objection ? objection->reason : ""});
    if (objection && !objection->leftover_of.empty()) note(decision.leftover_runs, objection->leftover_of);
    if (!objection) sorted.fitting.push_back(candidate);
    if (!objection || objection->transient) sorted.possible.push_back(candidate);
  }
  return sorted;
}

/// Takes `count` of the ranked devices and says of all others why not.
std::vector<Candidate> take(std::vector<Candidate> devices, std::size_t count, const Wanted& wanted,
                            Decision& decision) {
  rank(devices, wanted);
  std::vector<Candidate> chosen = pick(devices, count, wanted);
  decision.satisfied = true;
  for (const Candidate& candidate : chosen) decision.selected.push_back(candidate.device);
  for (Verdict& verdict : decision.verdicts) {
    verdict.chosen = std::ranges::find(decision.selected, verdict.device) != decision.selected.end();
    if (!verdict.chosen && verdict.kind == Verdict::Kind::fits) verdict.reason = "fits, but others were preferred";
  }
  return chosen;
}

/// Devices that nobody keeps from the request, but that have too little for its model.
void object_for_model(const ModelNeed& need, const ModelFit& fit, const std::vector<Candidate>& fitting,
                      Decision& decision) {
  for (const Candidate& candidate : fitting) {
    const auto verdict = std::ranges::find(decision.verdicts, candidate.device, &Verdict::device);
    if (need.room_of(candidate) >= fit.needed) continue;
    verdict->transient = candidate.usable >= fit.needed;
    verdict->kind = verdict->transient ? Verdict::Kind::little_free : Verdict::Kind::little_memory;
    verdict->reason = !candidate.known_free ? std::string("its free memory is unknown")
                                            : fmt::format("has {} free, the chosen plan needs {}",
                                                          format_size(candidate.free), format_size(fit.needed));
  }
}

/// As a count of devices does, so does a model: how many follow from planning.
void decide_for_model(const planning::Workload& work, const Wanted& wanted, const Sorted& sorted, Decision& decision) {
  const ModelNeed if_free(work, wanted, true);
  if (const auto ideal = if_free.choose(sorted.possible)) {
    decision.may_come_true = true;
    decision.wanted = ideal->count;
    for (const Candidate& candidate : ideal->devices) decision.candidates.push_back(candidate.device.uuid);
  }
  const ModelNeed need(work, wanted);
  if (const auto choice = need.choose(sorted.fitting)) {
    decision.wanted = choice->count;
    object_for_model(need, choice->fit, sorted.fitting, decision);
    const auto taken = take(choice->devices, choice->count, wanted, decision);
    decision.model = need.on_taken(*choice, taken);
    decision.strategy = strategy_of(*decision.model, taken.size());
    if (choice->fit.mixed)
      decision.warnings.push_back(
          fmt::format("the model is spread over different GPUs ({}): the slowest sets the pace", decision.model->gpu));
    return;
  }
  const std::size_t asked = wanted.ids.empty() ? wanted.request.count.value_or(0) : wanted.ids.size();
  decision.model = need.nearest(sorted.fitting);
  if (sorted.fitting.size() < asked || decision.verdicts.empty()) {
    decision.missing = missing_sentence(wanted, decision, sorted.fitting.size(), asked);
  } else if (decision.model) {
    decision.missing = decision.model->reason + objections(decision);
  } else if (sorted.fitting.empty()) {
    decision.missing = fmt::format("no GPU is available for {}", work.model.name) + objections(decision);
  } else {
    decision.missing = fmt::format("{} cannot be spread over {} GPUs: its heads and layers do not divide so",
                                   work.model.name, asked > 0 ? asked : sorted.fitting.size()) +
                       objections(decision);
  }
}

Result<Wanted> understand(const Request& request, const Inputs& inputs) {
  GPUWARDEN_TRY(auto visible, read_visible_devices(inputs.visibility, inputs.snapshot));
  GPUWARDEN_TRY(auto ids, resolve(request.gpu_ids, inputs.snapshot));
  GPUWARDEN_TRY(auto prefer, resolve(request.prefer, inputs.snapshot));
  GPUWARDEN_TRY(auto exclude, resolve(request.exclude, inputs.snapshot));
  const auto is_mig = [](const Uuid& uuid) { return uuid.value.starts_with("MIG-"); };
  const bool mig =
      request.mig || request.mig_profile.has_value() || std::ranges::any_of(ids, is_mig) ||
      (ids.empty() && visible.restricted && !visible.uuids.empty() && std::ranges::all_of(visible.uuids, is_mig));
  return Wanted{request, inputs, std::move(visible), std::move(ids), std::move(prefer), std::move(exclude), mig};
}

Decision cpu_decision() {
  Decision decision;
  decision.satisfied = true;
  decision.cpu = true;
  return decision;
}

}  // namespace

std::string_view to_string(Verdict::Kind kind) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"fits",     "not_named",     "hidden",          "excluded",   "other_vendor",   "disabled",        "unhealthy",
       "mig_on",   "other_profile", "mode_prohibited", "other_name", "low_capability", "little_memory",   "leased",
       "promised", "in_use",        "use_unknown",     "unseen_use", "little_free",    "high_utilization"});
  static_assert(kNames.size() == static_cast<std::size_t>(Verdict::Kind::high_utilization) + 1);
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string_view to_string(Strategy strategy) {
  switch (strategy) {
    case Strategy::single:
      return "single";
    case Strategy::ddp:
      return "ddp";
    case Strategy::fsdp:
      return "fsdp";
  }
  return "?";
}

namespace {

/// What select() and plan_if_free() look at alike: nothing of it depends on how many GPUs are wanted.
Result<Wanted> checked(const Request& request, const Inputs& inputs) {
  const bool any_usable = std::ranges::any_of(inputs.snapshot.gpus, [](const facts::GpuRecord& record) {
    return facts::is_usable(record) && record.gpu.vendor == "NVIDIA";
  });
  if (const auto& problem = inputs.snapshot.problem; problem && !any_usable) {
    const bool forbidden = problem->code == ErrorCode::permission_denied;
    return fail(forbidden ? ErrorCode::permission_denied : ErrorCode::unavailable, problem->message, problem->hint);
  }
  GPUWARDEN_TRY(Wanted wanted, understand(request, inputs));
  GPUWARDEN_CHECK(check_request(request, wanted));
  GPUWARDEN_CHECK(check_visibility(wanted));
  return wanted;
}

}  // namespace

Result<Fitting> count_fitting(const Request& request, const Inputs& inputs) {
  GPUWARDEN_TRY(const Wanted wanted, checked(request, inputs));
  Fitting fitting;
  for (const Candidate& candidate : list_candidates(wanted)) {
    ++fitting.all;
    if (!wanted.visible.cpu_only && !object_to(candidate, wanted)) ++fitting.count;
  }
  return fitting;
}

Result<Decision> select(const Request& request, const Inputs& inputs) {
  if (request.force_cpu) return cpu_decision();
  GPUWARDEN_TRY(const Wanted wanted, checked(request, inputs));
  GPUWARDEN_TRY(const auto work, work_of(request));
  Decision decision;
  decision.warnings = wanted.visible.warnings;
  if (wanted.visible.cpu_only) {
    decision.missing = fmt::format("CUDA_VISIBLE_DEVICES={} shows no GPU: this shell is restricted to the CPU",
                                   printable(inputs.visibility.cuda_visible_devices.value_or("")));
    return decision;
  }
  const Sorted sorted = sort_candidates(wanted, decision);
  if (work) {
    decide_for_model(*work, wanted, sorted, decision);
    return decision;
  }
  for (const Candidate& candidate : sorted.possible) decision.candidates.push_back(candidate.device.uuid);
  const std::size_t count = how_many(request, wanted, sorted.fitting.size());
  decision.wanted = std::max<std::size_t>(1, count);
  decision.may_come_true = sorted.possible.size() >= count;
  if (sorted.fitting.size() < count || count == 0)
    decision.missing = missing_sentence(wanted, decision, sorted.fitting.size(), decision.wanted);
  else
    take(sorted.fitting, count, wanted, decision);
  return decision;
}

Result<planning::PlanAnswer> plan_if_free(const Request& request, const Inputs& inputs) {
  GPUWARDEN_TRY(const Wanted wanted, checked(request, inputs));
  GPUWARDEN_TRY(auto work, work_of(request));
  if (!work) return fail(ErrorCode::invalid_argument, "the request names no model", "set its work or model_size");
  Decision decision;
  const Sorted sorted = sort_candidates(wanted, decision);
  const ModelNeed need(*work, wanted, true);
  planning::PlanRequest plan;
  plan.gpus = need.largest_kind(sorted.possible);
  if (plan.gpus.count == 0)
    return fail(ErrorCode::unsatisfied, missing_sentence(wanted, decision, 0, request.count.value_or(1)));
  plan.gpus_per_node = need.node_of(plan.gpus.count / request.nodes);
  plan.work = *std::move(work);
  GPUWARDEN_TRY(planning::PlanAnswer answer, planning::answer(std::move(plan)));
  if (wanted.mig) {
    // Instances are never joined.
    std::erase_if(answer.search.changes,
                  [](const planning::Change& change) { return change.candidate.settings.parallel.gpus() > 1; });
    answer.search.smallest_gpus.reset();
  }
  return answer;
}

std::string cuda_visible_devices(const Decision& decision) {
  std::vector<std::string> uuids;
  // Where a capture tells no UUID, only the index names the GPU.
  for (const Device& device : decision.selected) {
    const bool has_uuid = device.uuid.value.starts_with("GPU-") || device.uuid.value.starts_with("MIG-");
    uuids.push_back(has_uuid ? device.uuid.value : std::to_string(device.index.value));
  }
  return join(uuids, ",");
}

}  // namespace gpuwarden::placement
