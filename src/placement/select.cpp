// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/select.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "placement/candidates.hpp"
#include "placement/names.hpp"
#include "placement/ranking.hpp"

namespace gpuwarden::placement {
namespace {

/// A model does not get the last byte of a GPU: CUDA contexts, workspaces and fragmentation take their part.
constexpr double kUsableShare = 0.9;

Result<void> check_request(const Request& request, const Wanted& wanted) {
  const auto bad = [](std::string what, std::string hint = {}) {
    return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
  };
  for (const Uuid& uuid : wanted.ids) {
    if (std::ranges::count(wanted.ids, uuid) > 1)
      return bad(fmt::format("the GPU '{}' is named twice", uuid.value), "name every GPU once");
    if (std::ranges::find(wanted.exclude, uuid) != wanted.exclude.end())
      return bad(fmt::format("the GPU '{}' is both named and excluded", uuid.value));
  }
  if (request.count == 0U) return bad("0 GPUs were asked for", "use --device cpu to run without a GPU");
  if (!wanted.ids.empty() && request.count && *request.count != wanted.ids.size()) {
    return bad(fmt::format("{} GPUs are named, but {} asked for", wanted.ids.size(), *request.count),
               "leave one of the two out");
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
  for (const Uuid& uuid : wanted.ids) {
    if (std::ranges::find(wanted.visible.uuids, uuid) == wanted.visible.uuids.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the GPU '{}' is hidden by CUDA_VISIBLE_DEVICES", uuid.value),
                  "unset CUDA_VISIBLE_DEVICES, or name a GPU that it shows");
    }
  }
  return {};
}

std::string label(const Device& device) {
  return device.mig ? fmt::format("GPU {} MIG {}", device.index.value, *device.mig)
                    : fmt::format("GPU {}", device.index.value);
}

/// How many are to be taken, out of the ranked fitting ones; a model size takes as many as hold it.
std::size_t how_many(const Request& request, const Wanted& wanted, const std::vector<Candidate>& ranked) {
  if (!wanted.ids.empty()) return wanted.ids.size();
  if (request.all) return ranked.size();
  if (!request.model_size) return request.count.value_or(1);
  Bytes held;
  std::size_t count = 0;
  for (const Candidate& c : ranked) {
    if (held >= *request.model_size) break;
    held += Bytes(static_cast<std::uint64_t>(static_cast<double>(c.free.value) * kUsableShare));
    ++count;
  }
  if (held < *request.model_size) return ranked.size() + 1;
  return std::max<std::size_t>(count, request.count.value_or(1));
}

std::string missing_sentence(const Decision& decision, std::size_t fitting, std::size_t count, const Request& request) {
  std::string text = request.model_size && fitting < count
                         ? fmt::format("the {} GPUs that fit cannot hold {}", fitting, format_size(*request.model_size))
                         : fmt::format("only {} of {} GPUs can be had", fitting, count);
  if (decision.verdicts.empty()) return "this machine has no GPU";
  int said = 0;
  for (const Verdict& verdict : decision.verdicts) {
    if (verdict.reason.empty() || verdict.reason == "not among the named GPUs") continue;
    if (++said > 8) return text + "; and more (--explain)";
    text += fmt::format("; {}: {}", label(verdict.device), verdict.reason);
  }
  return text;
}

Strategy strategy_for(const Request& request, const std::vector<Candidate>& chosen) {
  const bool fits_one = std::ranges::all_of(chosen, [&](const Candidate& c) {
    return static_cast<double>(c.free.value) * kUsableShare >= static_cast<double>(request.model_size->value);
  });
  if (!fits_one) return Strategy::fsdp;
  return chosen.size() > 1 ? Strategy::ddp : Strategy::single;
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

Result<Decision> select(const Request& request, const Inputs& inputs) {
  if (request.force_cpu) return cpu_decision();
  const bool any_usable = std::ranges::any_of(inputs.snapshot.gpus, [](const facts::GpuRecord& record) {
    return facts::is_usable(record) && record.gpu.vendor == "NVIDIA";
  });
  if (inputs.snapshot.problem && !any_usable) return std::unexpected(*inputs.snapshot.problem);
  GPUWARDEN_TRY(const Wanted wanted, understand(request, inputs));
  GPUWARDEN_CHECK(check_request(request, wanted));
  GPUWARDEN_CHECK(check_visibility(wanted));
  Decision decision;
  decision.warnings = wanted.visible.warnings;
  if (wanted.visible.cpu_only) {
    decision.missing = "CUDA_VISIBLE_DEVICES is empty: this shell is restricted to the CPU";
    return decision;
  }
  std::vector<Candidate> fitting;
  std::size_t possible = 0;
  for (const Candidate& candidate : list_candidates(wanted)) {
    const auto objection = object_to(candidate, wanted);
    decision.verdicts.push_back(
        {candidate.device, false, objection && objection->transient, objection ? objection->reason : ""});
    if (!objection) fitting.push_back(candidate);
    if (objection && !objection->transient) continue;
    ++possible;
    decision.candidates.push_back(candidate.device.uuid);
  }
  rank(fitting, wanted);
  const std::size_t count = how_many(request, wanted, fitting);
  decision.may_come_true = possible >= count || (request.model_size && possible > fitting.size());
  if (fitting.size() < count || count == 0) {
    decision.missing = missing_sentence(decision, fitting.size(), std::max<std::size_t>(count, 1), request);
    return decision;
  }
  const auto chosen = pick(fitting, count, wanted);
  decision.satisfied = true;
  for (const Candidate& candidate : chosen) decision.selected.push_back(candidate.device);
  if (request.model_size) decision.strategy = strategy_for(request, chosen);
  for (Verdict& verdict : decision.verdicts) {
    verdict.chosen = std::ranges::find(decision.selected, verdict.device) != decision.selected.end();
    if (!verdict.chosen && verdict.reason.empty()) verdict.reason = "fits, but others were preferred";
  }
  return decision;
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
