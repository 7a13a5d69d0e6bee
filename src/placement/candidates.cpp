// SPDX-License-Identifier: Apache-2.0
#include "placement/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "placement/names.hpp"

namespace gpuwarden::placement {
namespace {

using Opinion = std::optional<Objection>;

bool contains(const std::vector<Uuid>& list, const Uuid& uuid) { return std::ranges::find(list, uuid) != list.end(); }

Opinion healthy(const Candidate& c, const Wanted&) {
  if (facts::is_usable(*c.record)) return std::nullopt;
  std::string reason = facts::describe_trouble(*c.record);
  if (!c.record->next_step.empty()) reason += "; " + c.record->next_step;
  return Objection{reason, false};
}

Opinion in_use_at_all(const Candidate& c, const Wanted& wanted) {
  for (const facts::Disabling& one : wanted.inputs.disabled) {
    // Who disables a GPU means its instances, too.
    if (one.uuid == c.device.uuid || one.uuid == identity_of(*c.record))
      return Objection{facts::describe_disabling(one, wanted.inputs.snapshot.taken_at), false};
  }
  return std::nullopt;
}

Opinion of_nvidia(const Candidate& c, const Wanted&) {
  if (c.record->gpu.vendor == "NVIDIA") return std::nullopt;
  return Objection{fmt::format("not an NVIDIA GPU ({}): CUDA cannot use it", c.record->gpu.vendor), false};
}

Opinion named(const Candidate& c, const Wanted& wanted) {
  if (wanted.ids.empty() || contains(wanted.ids, c.device.uuid)) return std::nullopt;
  return Objection{"not among the named GPUs", false};
}

Opinion visible(const Candidate& c, const Wanted& wanted) {
  if (!wanted.visible.restricted || contains(wanted.visible.uuids, c.device.uuid)) return std::nullopt;
  return Objection{"hidden by CUDA_VISIBLE_DEVICES", false};
}

Opinion not_excluded(const Candidate& c, const Wanted& wanted) {
  if (!contains(wanted.exclude, c.device.uuid)) return std::nullopt;
  return Objection{"excluded", false};
}

Opinion usable_as_whole(const Candidate& c, const Wanted& wanted) {
  if (wanted.mig || !c.record->gpu.mig_enabled.value_or(false)) return std::nullopt;
  return Objection{"MIG is on: CUDA cannot use the whole GPU, only its instances (--mig)", false};
}

Opinion profile(const Candidate& c, const Wanted& wanted) {
  const auto& wish = wanted.request.mig_profile;
  if (!wish || c.mig == nullptr || c.mig->profile == *wish) return std::nullopt;
  return Objection{fmt::format("of MIG profile {}; {} is wanted", c.mig->profile.value_or("unknown"), *wish), false};
}

Opinion compute_mode(const Candidate& c, const Wanted&) {
  if (c.record->gpu.compute_mode != facts::ComputeMode::prohibited) return std::nullopt;
  return Objection{"compute mode is prohibited (nvidia-smi -c 0 allows it)", false};
}

Opinion name(const Candidate& c, const Wanted& wanted) {
  const auto& wish = wanted.request.name_contains;
  if (!wish || contains_ignoring_case(c.record->gpu.name, *wish)) return std::nullopt;
  return Objection{fmt::format("named {}; {} is wanted", c.record->gpu.name, *wish), false};
}

Opinion capability(const Candidate& c, const Wanted& wanted) {
  const auto& wish = wanted.request.min_compute_capability;
  const auto& own = c.record->gpu.compute_capability;
  if (!wish || (own && *own >= *wish)) return std::nullopt;
  return Objection{
      own ? fmt::format("compute capability {}.{} is below {}.{}", own->major, own->minor, wish->major, wish->minor)
          : "its compute capability is unknown",
      false};
}

Opinion total_memory(const Candidate& c, const Wanted& wanted) {
  const auto& wish = wanted.request.min_memory;
  if (!wish || c.total >= *wish) return std::nullopt;
  if (c.total.value == 0) return Objection{"its memory is unknown", false};
  return Objection{fmt::format("has {} of memory, {} are wanted", format_size(c.total), format_size(*wish)), false};
}

Opinion could_free_memory(const Candidate& c, const Wanted& wanted) {
  const auto& wish = wanted.request.min_free_memory;
  if (!wish || c.total >= *wish) return std::nullopt;
  if (c.total.value == 0) return Objection{"its memory is unknown", false};
  return Objection{fmt::format("has {} of memory in all, {} free are wanted", format_size(c.total), format_size(*wish)),
                   false};
}

Opinion unleased(const Candidate& c, const Wanted& wanted) {
  for (const facts::Lease& lease : wanted.inputs.leases) {
    // A lease on the whole GPU covers its instances, and the other way round.
    const bool here = lease.uuid == c.device.uuid || (c.mig != nullptr && lease.uuid == c.record->gpu.uuid);
    if (!here || (lease.shared && wanted.request.shared)) continue;
    if (lease.holders.empty()) return Objection{"leased; " + facts::describe_unseen_holder(lease), true};
    const auto& holder = lease.holders[0];
    const facts::LeaseHolder* orphan = facts::find_orphan(lease);
    return Objection{.reason = fmt::format("leased by {} (pid {}{}){}{}", holder.user, holder.pid.value,
                                           holder.since ? ", since " + format_utc(*holder.since) : "",
                                           holder.command.empty() ? "" : ": " + holder.command,
                                           orphan != nullptr ? "; " + facts::describe_orphan(*orphan) : ""),
                     .transient = true,
                     .leftover_of = orphan != nullptr ? orphan->run_id : ""};
  }
  return std::nullopt;
}

Opinion not_spoken_for(const Candidate& c, const Wanted& wanted) {
  if (!contains(wanted.inputs.spoken_for, c.device.uuid)) return std::nullopt;
  return Objection{"others were waiting for it before", true};
}

std::string describe(const facts::GpuProcess& process) {
  return fmt::format("in use by {} (pid {}{})", process.user.value_or("?"), process.pid.value,
                     process.command ? ": " + *process.command : "");
}

Opinion idle(const Candidate& c, const Wanted& wanted) {
  const bool exclusive = c.record->gpu.compute_mode == facts::ComputeMode::exclusive_process;
  if ((wanted.request.shared || wanted.request.allow_busy) && !exclusive) return std::nullopt;
  for (const auto& process : c.record->processes.value_or(std::vector<facts::GpuProcess>{})) {
    const bool here = c.mig == nullptr || !process.gpu_instance || process.gpu_instance == c.mig->gpu_instance;
    if (process.compute && here) return Objection{describe(process), true};
  }
  return std::nullopt;
}

Opinion known_use(const Candidate& c, const Wanted& wanted) {
  if (wanted.request.shared || wanted.request.allow_busy || !c.record->processes_unreadable) return std::nullopt;
  return Objection{"its processes could not be read, so it may be in use (--allow-busy takes it all the same)", true};
}

/// A GPU that is loaded without visible processes is in use by somebody who cannot be seen, for example from inside a
/// container.
Opinion no_unseen_user(const Candidate& c, const Wanted& wanted) {
  if (wanted.request.shared || wanted.request.allow_busy || c.mig != nullptr) return std::nullopt;
  const auto& sample = c.record->sample;
  switch (facts::load_of(sample)) {
    case facts::Load::none:
      return std::nullopt;
    case facts::Load::work:
      return Objection{fmt::format("busy ({} % utilization) by processes that cannot be seen from here",
                                   sample.utilization_gpu.value_or(Percent(0)).value),
                       true};
    case facts::Load::memory:
      return Objection{fmt::format("{} of its memory are held by processes that cannot be seen from here",
                                   format_size(sample.memory_used.value_or(Bytes(0)))),
                       true};
  }
  return std::nullopt;
}

Opinion free_memory(const Candidate& c, const Wanted& wanted) {
  const auto& wish = wanted.request.min_free_memory;
  if (!wish || (c.known_free && c.free >= *wish)) return std::nullopt;
  return Objection{c.known_free ? fmt::format("has {} free, {} are wanted", format_size(c.free), format_size(*wish))
                                : "its free memory is unknown",
                   true};
}

Opinion utilization(const Candidate& c, const Wanted& wanted) {
  const auto& wish = wanted.request.max_utilization;
  const auto& own = c.record->sample.utilization_gpu;
  if (!wish || (own && *own <= *wish)) return std::nullopt;
  return Objection{
      own ? fmt::format("{} % utilization is above {} %", own->value, wish->value) : "its utilization is unknown",
      true};
}

struct Filter {
  Verdict::Kind kind;
  Opinion (*run)(const Candidate&, const Wanted&);
};

/// Lasting objections first: a device that can never do must not look as if waiting helped.
constexpr auto kFilters = std::to_array<Filter>({{Verdict::Kind::not_named, named},
                                                 {Verdict::Kind::hidden, visible},
                                                 {Verdict::Kind::excluded, not_excluded},
                                                 {Verdict::Kind::other_vendor, of_nvidia},
                                                 {Verdict::Kind::disabled, in_use_at_all},
                                                 {Verdict::Kind::unhealthy, healthy},
                                                 {Verdict::Kind::mig_on, usable_as_whole},
                                                 {Verdict::Kind::other_profile, profile},
                                                 {Verdict::Kind::mode_prohibited, compute_mode},
                                                 {Verdict::Kind::other_name, name},
                                                 {Verdict::Kind::low_capability, capability},
                                                 {Verdict::Kind::little_memory, total_memory},
                                                 {Verdict::Kind::little_memory, could_free_memory},
                                                 {Verdict::Kind::leased, unleased},
                                                 {Verdict::Kind::promised, not_spoken_for},
                                                 {Verdict::Kind::in_use, idle},
                                                 {Verdict::Kind::use_unknown, known_use},
                                                 {Verdict::Kind::unseen_use, no_unseen_user},
                                                 {Verdict::Kind::little_free, free_memory},
                                                 {Verdict::Kind::high_utilization, utilization}});

}  // namespace

namespace {

Bytes usable_of(const facts::GpuSample& sample) {
  const Bytes total = sample.memory_total.value_or(Bytes(0));
  const Bytes reserved = sample.memory_reserved.value_or(Bytes(0));
  return reserved < total ? total - reserved : total;
}

}  // namespace

std::vector<Candidate> list_candidates(const Wanted& wanted) {
  std::vector<Candidate> result;
  for (const auto& record : wanted.inputs.snapshot.gpus) {
    const auto& sample = record.sample;
    if (!wanted.mig) {
      result.push_back({{record.gpu.index, identity_of(record), std::nullopt, record.gpu.name},
                        &record,
                        nullptr,
                        sample.memory_total.value_or(Bytes(0)),
                        sample.memory_free.value_or(Bytes(0)),
                        sample.memory_free.has_value(),
                        usable_of(sample)});
      continue;
    }
    for (const auto& mig : record.mig_devices) {
      result.push_back({{record.gpu.index, mig.uuid, mig.index, mig.name},
                        &record,
                        &mig,
                        mig.memory_total.value_or(Bytes(0)),
                        mig.memory_free.value_or(Bytes(0)),
                        mig.memory_free.has_value(),
                        mig.memory_total.value_or(Bytes(0))});
    }
  }
  return result;
}

std::optional<Objection> object_to(const Candidate& candidate, const Wanted& wanted) {
  for (const Filter& filter : kFilters) {
    if (auto objection = filter.run(candidate, wanted)) {
      objection->kind = filter.kind;
      return objection;
    }
  }
  return std::nullopt;
}

}  // namespace gpuwarden::placement
