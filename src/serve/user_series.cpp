// SPDX-License-Identifier: Apache-2.0
#include "serve/user_series.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace gpuwarden::serve {
namespace {

struct OneProcess {
  const GpuLine* line = nullptr;
  const facts::GpuProcess* process = nullptr;
  std::uint64_t memory() const { return process->memory ? process->memory->value : 0; }
};

struct OneUser {
  std::string labels;
  std::uint64_t memory = 0;
  bool memory_known = true;
  std::size_t processes = 0;
};

std::vector<OneProcess> processes_of(std::span<const GpuLine> lines) {
  std::vector<OneProcess> all;
  for (const GpuLine& line : lines) {
    if (!line.record->processes) continue;
    for (const facts::GpuProcess& process : *line.record->processes) all.push_back({&line, &process});
  }
  return all;
}

std::vector<OneUser> users_of(std::span<const OneProcess> processes) {
  std::map<std::pair<const GpuLine*, std::string>, OneUser> by_user;
  for (const OneProcess& one : processes) {
    if (!one.process->user) continue;
    OneUser& user = by_user[{one.line, *one.process->user}];
    if (user.processes++ == 0) {
      user.labels = one.line->labels.front();
      add_label(user.labels, "user", *one.process->user);
    }
    user.memory += one.memory();
    user.memory_known = user.memory_known && one.process->memory.has_value();
  }
  std::vector<OneUser> users;
  for (auto& [key, user] : by_user) users.push_back(std::move(user));
  return users;
}

/// The first `most` by memory; how many were left out.
template <class T, class Memory>
std::size_t keep_largest(std::vector<T>& all, std::size_t most, Memory memory) {
  std::ranges::stable_sort(all, std::greater(), memory);
  if (all.size() <= most) return 0;
  const std::size_t dropped = all.size() - most;
  all.resize(most);
  return dropped;
}

void write_processes(Exposition& out, std::span<const OneProcess> processes) {
  std::vector<std::string> labels;
  for (const OneProcess& one : processes) {
    std::string text = one.line->labels.front();
    add_label(text, "pid", std::to_string(one.process->pid.value));
    // A process may be on several instances of a GPU.
    if (one.process->gpu_instance) add_label(text, "gpu_instance", std::to_string(*one.process->gpu_instance));
    if (one.process->user) add_label(text, "user", *one.process->user);
    if (one.process->slurm_job) add_label(text, "slurm_job", *one.process->slurm_job);
    labels.push_back(std::move(text));
  }
  out.family("gpuwarden_process_memory_bytes", facts::MetricKind::gauge, "Device memory that a process holds.");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (const auto& memory = processes[i].process->memory) out.sample(labels[i], static_cast<double>(memory->value));
  }
  out.family("gpuwarden_process_sm_percent", facts::MetricKind::gauge,
             "Share of the last samples in which the process's kernels ran.");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (const auto& busy = processes[i].process->sm) out.sample(labels[i], static_cast<double>(busy->value));
  }
}

void write_users(Exposition& out, std::span<const OneUser> users) {
  out.family("gpuwarden_user_processes", facts::MetricKind::gauge, "Processes of a user on a GPU.");
  for (const OneUser& user : users) out.sample(user.labels, static_cast<double>(user.processes));
  out.family("gpuwarden_user_memory_bytes", facts::MetricKind::gauge,
             "Device memory that a user's processes hold on a GPU, where it is known of all of them.");
  for (const OneUser& user : users) {
    if (user.memory_known) out.sample(user.labels, static_cast<double>(user.memory));
  }
}

}  // namespace

void write_user_series(Exposition& out, std::span<const GpuLine> lines, std::size_t most) {
  auto processes = processes_of(lines);
  auto users = users_of(processes);
  const std::size_t dropped_users = keep_largest(users, most, &OneUser::memory);
  const std::size_t dropped_processes = keep_largest(processes, most, &OneProcess::memory);
  write_processes(out, processes);
  write_users(out, users);
  out.family("gpuwarden_series_dropped", facts::MetricKind::gauge,
             "Processes, and pairs of user and GPU, that are left out so that there are not too many series.");
  out.sample("kind=\"process\"", static_cast<double>(dropped_processes));
  out.sample("kind=\"user\"", static_cast<double>(dropped_users));
}

}  // namespace gpuwarden::serve
