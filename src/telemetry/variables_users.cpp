// SPDX-License-Identifier: Apache-2.0
// Variables of who uses a GPU: the process that is asked about, or all processes of a GPU, and who reserved it.
#include "telemetry/variables_table.hpp"

namespace gpuwarden::telemetry {
namespace {

using facts::GpuProcess;

/// Something of each process; an empty optional is not known.
template <class Result, class Get>
Value of_processes(const Subject& subject, Get get) {
  Result result;
  const auto add = [&](const GpuProcess& process) {
    auto value = get(process);
    if (value) {
      result.known.push_back(std::move(*value));
    } else {
      result.all_known = false;
    }
  };
  if (subject.process != nullptr) {
    add(*subject.process);
  } else if (subject.gpu != nullptr && subject.gpu->processes) {
    for (const GpuProcess& process : *subject.gpu->processes) add(process);
  } else {
    result.all_known = false;
  }
  return result;
}

std::function<Value(const Subject&)> text_of_process(std::optional<std::string> GpuProcess::* field) {
  return [field](const Subject& subject) {
    return of_processes<Texts>(subject, [field](const GpuProcess& process) { return process.*field; });
  };
}

/// Where nothing is noted there is nothing: a process outside of containers is in no container.
std::function<Value(const Subject&)> optional_text_of_process(std::optional<std::string> GpuProcess::* field) {
  return [field](const Subject& subject) {
    Value value = of_processes<Texts>(
        subject, [field](const GpuProcess& process) { return std::optional((process.*field).value_or("")); });
    std::erase(std::get<Texts>(value).known, "");
    return value;
  };
}

template <class Unit>
std::function<Value(const Subject&)> number_of_process(std::optional<Unit> GpuProcess::* field) {
  return [field](const Subject& subject) {
    return of_processes<Numbers>(subject, [field](const GpuProcess& process) -> std::optional<double> {
      if (!(process.*field)) return std::nullopt;
      return static_cast<double>((process.*field)->value) / kStepsPerShownUnit<Unit>;
    });
  };
}

Value read_pids(const Subject& subject) {
  return of_processes<Numbers>(
      subject, [](const GpuProcess& process) { return std::optional(static_cast<double>(process.pid.value)); });
}

Value read_types(const Subject& subject) {
  return of_processes<Texts>(subject,
                             [](const GpuProcess& process) { return std::optional(std::string(type_of(process))); });
}

/// Without a lease nobody: a reading has all leases.
Texts lease_holders(const Subject& subject) {
  Texts users;
  if (subject.lease == nullptr) return users;
  users.all_known = !subject.lease->holders.empty();
  for (const auto& holder : subject.lease->holders) users.known.push_back(holder.user);
  return users;
}

Value read_lease_users(const Subject& subject) { return lease_holders(subject); }

Value read_users(const Subject& subject) {
  Value value = of_processes<Texts>(subject, [](const GpuProcess& process) { return process.user; });
  if (subject.process != nullptr) return value;
  Texts reserved = lease_holders(subject);
  auto& all = std::get<Texts>(value);
  all.all_known = all.all_known && reserved.all_known;
  for (auto& user : reserved.known) all.known.push_back(std::move(user));
  return value;
}

Value read_leased(const Subject& subject) { return subject.lease != nullptr ? 1.0 : 0.0; }

}  // namespace

std::vector<Variable> user_variables() {
  return {
      {.name = "user",
       .kind = VariableKind::texts,
       .help = "Users of the GPU's processes, and who has reserved it; of a process its user.",
       .of_process = true,
       .read = read_users},
      {.name = "pid", .kind = VariableKind::numbers, .help = "Process ids.", .of_process = true, .read = read_pids},
      {.name = "command",
       .kind = VariableKind::texts,
       .help = "Command lines of processes.",
       .of_process = true,
       .read = text_of_process(&GpuProcess::command)},
      {.name = "process_type",
       .kind = VariableKind::texts,
       .help = "C, G, C+G, with M+ before it for clients of MPS.",
       .of_process = true,
       .read = read_types},
      {.name = "process_memory",
       .unit = "B",
       .kind = VariableKind::numbers,
       .help = "Device memory of a process.",
       .whole = "memory_total",
       .of_process = true,
       .read = number_of_process(&GpuProcess::memory)},
      {.name = "process_sm",
       .unit = "%",
       .kind = VariableKind::numbers,
       .help = "Share of the last samples in which a process's kernels ran.",
       .of_process = true,
       .read = number_of_process(&GpuProcess::sm)},
      {.name = "container",
       .kind = VariableKind::texts,
       .help = "Container ids of processes.",
       .of_process = true,
       .read = optional_text_of_process(&GpuProcess::container)},
      {.name = "pod",
       .kind = VariableKind::texts,
       .help = "Kubernetes pods of processes.",
       .of_process = true,
       .read = optional_text_of_process(&GpuProcess::pod)},
      {.name = "slurm_job",
       .kind = VariableKind::texts,
       .help = "Slurm jobs of processes.",
       .of_process = true,
       .read = optional_text_of_process(&GpuProcess::slurm_job)},
      {.name = "leased", .help = "1 if the GPU is reserved through gpuwarden.", .read = read_leased},
      {.name = "lease_user",
       .kind = VariableKind::texts,
       .help = "Who has reserved the GPU through gpuwarden.",
       .read = read_lease_users},
  };
}

}  // namespace gpuwarden::telemetry
