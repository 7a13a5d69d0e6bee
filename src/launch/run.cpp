// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/run.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/host_name.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/run_rules.hpp"
#include "gpuwarden/probe/cpus.hpp"
#include "launch/run_watch.hpp"

namespace gpuwarden::launch {
namespace {

/// Sets the number of ranks and how devices are handed to them.
void resolve_ranks(const RunPlan& plan, const placement::Decision& decision, JobSpec& job) {
  const auto devices = static_cast<std::uint32_t>(decision.selected.size());
  job.ranks = plan.ranks.value_or(plan.rank_per_gpu ? std::max(devices, 1U) : 1);
  // CUDA lets a process see one MIG instance only, so each rank must get its own.
  const bool migs = std::ranges::any_of(decision.selected, [](const auto& device) { return device.mig.has_value(); });
  if (migs && job.ranks > 1) job.one_device_per_rank = true;
}

/// The job's processes show in a simulated fleet as holding memory and load.
OnRankStarted declare_to(const machine::Machine& machine, const machine::SimulatedLoad& load, const ReadyRun& ready) {
  if (!machine.simulated() || ready.gpus.empty()) return {};
  return [&machine, &load, &ready](std::uint32_t rank, Pid pid) {
    std::vector<std::string> gpus;
    for (std::size_t i = 0; i < ready.gpus.size(); ++i) {
      // Ranks of one machine usually take a GPU each; a single process takes all.
      if (ready.job.ranks == 1 || i == rank % ready.gpus.size()) gpus.push_back(ready.gpus[i].value);
    }
    // A rank that has ended already holds nothing: its failure to be found is no news.
    [[maybe_unused]] const auto declared = machine.simulator()->declare(pid, gpus, load);
  };
}

/// The CPUs that this process may use, with their places.
std::vector<facts::Cpu> own_cpus(const machine::Machine& machine) {
  // A simulated fleet's ranks run on the CPUs of this machine.
  std::vector<facts::Cpu> cpus = probe::read_cpus(machine.simulated() ? "/sys" : machine.reader().sys_root);
  std::vector<unsigned long> mask(256);
  const long bytes = ::syscall(SYS_sched_getaffinity, 0, mask.size() * sizeof mask[0], mask.data());
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  std::erase_if(cpus, [&](const facts::Cpu& cpu) {
    return bytes > 0 &&
           (cpu.number >= mask.size() * kBits || (mask[cpu.number / kBits] >> (cpu.number % kBits) & 1) == 0);
  });
  return cpus;
}

/// Where the GPUs of a rank are: a rank of several takes one, a single one all, which may lie apart.
placement::RankPlace place_of_rank(std::uint32_t rank, std::uint32_t ranks, const placement::Decision& decision,
                                   const facts::Snapshot& snapshot) {
  std::optional<placement::RankPlace> place;
  const auto& devices = decision.selected;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (ranks > 1 && i != rank % devices.size()) continue;
    const auto record =
        std::ranges::find(snapshot.gpus, devices[i].index, [](const facts::GpuRecord& one) { return one.gpu.index; });
    if (record == snapshot.gpus.end()) return {};
    const placement::RankPlace here = placement::place_of(record->gpu);
    if (place && place->numa_node != here.numa_node) return {};
    place = here;
  }
  return place.value_or(placement::RankPlace{});
}

/// Binds the ranks as the plan wants it, and lets each have as many compute threads as it has cores to itself.
void bind(placement::BindTo to, const machine::Machine& machine, const placement::Decision& decision,
          const facts::Snapshot& snapshot, ReadyRun& run) {
  std::vector<placement::RankPlace> places;
  for (std::uint32_t rank = 0; rank < run.job.ranks; ++rank)
    places.push_back(place_of_rank(rank, run.job.ranks, decision, snapshot));
  const auto bindings = placement::bind_ranks(places, own_cpus(machine), to);
  std::optional<std::size_t> threads;
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    run.job.cpus.push_back(bindings[i].cpus);
    if (!bindings[i].reason.empty())
      run.warnings.push_back(fmt::format("--numa-binding: rank {}: {}", i, bindings[i].reason));
    if (bindings[i].cpus.empty()) continue;
    const auto sharing =
        static_cast<std::size_t>(std::ranges::count(bindings, bindings[i].cpus, &placement::RankBinding::cpus));
    threads = std::min(threads.value_or(SIZE_MAX), std::max<std::size_t>(1, bindings[i].cores / sharing));
  }
  if (threads) run.job.threads = static_cast<std::uint32_t>(*threads);
}

/// How busy the CPUs are is needed only where a rule looks at it; the file costs nothing.
std::string cpu_reading() { return read_file("/proc/stat").value_or(""); }

}  // namespace

ReadyRun ready(const RunPlan& plan, const machine::Machine& machine, const placement::Decision& decision,
               const facts::Snapshot& snapshot, std::vector<int> descriptors) {
  ReadyRun ready{.job = plan.job,
                 .gpus = {},
                 .places = {},
                 .workload = join(plan.job.argv, " ") + " " + plan.model,
                 .driver = knowledge::Version::parse(snapshot.driver_version.value_or("")),
                 .warnings = {}};
  for (const placement::Device& device : decision.selected) {
    ready.gpus.push_back(device.uuid);
    ready.places.push_back(device.index);
  }
  ready.job.visible_devices = placement::cuda_visible_devices(decision);
  ready.job.held_descriptors = std::move(descriptors);
  resolve_ranks(plan, decision, ready.job);
  if (plan.bind) bind(*plan.bind, machine, decision, snapshot, ready);
  Environment of_ranks = plan.job.environment;
  for (const auto& [name, value] : plan.job.extra_environment) of_ranks[name] = value;
  for (const auto& [name, value] : machine.simulated_environment(of_ranks)) ready.job.extra_environment[name] = value;
  return ready;
}

Result<RunReport> run(const ReadyRun& ready, const machine::Machine& machine, const RunOptions& options, Clock& clock) {
  RunReport report;
  report.simulated = machine.simulated();
  report.fleet = machine.reader().fleet;
  report.host = printable(own_host_name());
  report.run_id = ready.job.run_id;
  report.command = ready.job.argv;
  report.started = clock.wall_now();
  if (options.warning) std::ranges::for_each(ready.warnings, options.warning);
  RunWatch watch(ready, options, clock);
  JobSpec job = ready.job;
  job.time_limit = options.time_limit;
  job.keep_last_words = job.keep_last_words || options.hang_timeout.count() > 0;
  std::optional<Sampler> sampler;
  if (!ready.gpus.empty())
    sampler.emplace(machine.reader(), JobGpus{ready.gpus, ready.places}, options.sample_period, clock,
                    Hearer{watch.hearing(options.hear), options.hear != nullptr, options.hang_timeout.count() > 0});
  const std::string before = cpu_reading();
  const OnRankStarted declare = declare_to(machine, options.load, ready);
  JobHooks hooks{.warning = options.warning, .stop = options.stop, .look_after = options.look_after};
  hooks.rank_started = [&](std::uint32_t rank, Pid pid) {
    if (declare) declare(rank, pid);
    if (sampler) sampler->job_started();
  };
  hooks.first_failed = options.first_failed;
  hooks.ranks_ended = [&] {
    if (sampler) sampler->job_ended();
  };
  watch.hook_into(hooks, job.environment);
  auto end = run_job(job, clock, hooks);
  if (sampler) {
    report.gpus = sampler->finish();
    report.happenings = sampler->happenings();
  }
  if (!end) return std::unexpected(std::move(end).error());
  report.end = std::move(*end);
  watch.tell(report);
  report.findings = judge_run(
      report, options.rules,
      {.workload = ready.workload, .driver = ready.driver, .cpu_percent = busy_percent(before, cpu_reading())});
  report.waste = summary_of(report).waste;
  return report;
}

}  // namespace gpuwarden::launch
