// SPDX-License-Identifier: Apache-2.0
#include "probe/process_names.hpp"

#include "probe/proc.hpp"

namespace gpuwarden::probe {
namespace {

constexpr std::chrono::seconds kGoodFor{10};

}  // namespace

void ProcessNames::begin(Clock::SteadyTime now) {
  std::erase_if(known_, [&](const auto& entry) {
    return entry.second.asked != reading_ || now - entry.second.looked_up >= kGoodFor;
  });
  now_ = now;
  ++reading_;
}

void ProcessNames::name(facts::GpuProcess& process) {
  const auto [entry, is_new] = known_.try_emplace(process.pid.value);
  Known& known = entry->second;
  if (is_new) {
    known.names.pid = process.pid;
    known.looked_up = now_;
    name_process(proc_roots_, known.names);
  }
  known.asked = reading_;
  process.user = known.names.user;
  process.command = known.names.command;
  process.container = known.names.container;
  process.pod = known.names.pod;
  process.slurm_job = known.names.slurm_job;
}

}  // namespace gpuwarden::probe
