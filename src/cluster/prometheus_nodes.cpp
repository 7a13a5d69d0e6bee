// SPDX-License-Identifier: Apache-2.0
// Samples of a Prometheus as readings of machines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/dcgm_fields.hpp"
#include "gpuwarden/cluster/prometheus.hpp"
#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::cluster {
namespace {

using facts::GpuRecord;
using WallTime = std::chrono::system_clock::time_point;

constexpr std::string_view kDcgm = "DCGM_FI_";

/// What one target (or, of a server with peers, one of its nodes) tells.
struct Machine {
  std::string job;
  std::string instance;
  std::string node;  ///< the label of a server that shows several
  std::string hostname;
  bool own = false;   ///< a gpuwarden tells of it
  bool dcgm = false;  ///< a dcgm-exporter does
  std::optional<bool> target_up;
  std::optional<bool> reading_up;
  WallTime asked{};
  facts::Snapshot snapshot;
  std::vector<facts::Lease> leases;
  std::vector<facts::Health> health;
  std::map<std::string, GpuRecord> gpus;  ///< by UUID, else by index
};

const std::string& label(const PrometheusSample& sample, const std::string& name) {
  static const std::string kNone;
  const auto found = sample.labels.find(name);
  return found == sample.labels.end() ? kNone : found->second;
}

std::string first_label(const PrometheusSample& sample, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!label(sample, name).empty()) return label(sample, name);
  }
  return {};
}

GpuRecord* gpu_of(const PrometheusSample& sample, Machine& machine) {
  const std::string uuid = first_label(sample, {"uuid", "UUID", "gpu_uuid"});
  const auto index = parse_integer(label(sample, "gpu"));
  if (uuid.empty() && !index) return nullptr;
  const auto [found, is_new] = machine.gpus.try_emplace(uuid.empty() ? label(sample, "gpu") : uuid);
  GpuRecord& record = found->second;
  if (is_new) {
    record.gpu.uuid = Uuid(uuid);
    if (index && *index >= 0 && *index < 4096) record.gpu.index = GpuIndex{static_cast<std::uint32_t>(*index)};
  }
  return &record;
}

template <class Field>
void set_whole(Field& field, double value, double steps) {
  if (std::abs(value) < 1e9) field = typename Field::value_type(static_cast<decltype(field->value)>(value * steps));
}

void read_gpu_info(const PrometheusSample& sample, Machine&, GpuRecord& record) {
  record.gpu.name = label(sample, "name");
  record.gpu.pci_bus_id = label(sample, "pci_bus_id");
  record.state = facts::gpu_state_from(label(sample, "state")).value_or(facts::GpuState::available);
}

void read_health(const PrometheusSample& sample, Machine& machine, GpuRecord& record) {
  const auto state = facts::health_state_from(label(sample, "state"));
  if (sample.value != 1 || !state) return;
  machine.health.push_back({.uuid = record.gpu.uuid, .index = record.gpu.index, .state = *state});
}

void read_throttling(const PrometheusSample& sample, Machine&, GpuRecord& record) {
  const auto reason = facts::throttle_reason_from(label(sample, "reason"));
  if (!reason) return;
  auto& reasons = record.sample.throttle_reasons;
  if (!reasons) reasons.emplace();
  if (sample.value == 1) reasons->push_back(*reason);
}

void read_lease(const PrometheusSample& sample, Machine& machine, GpuRecord& record) {
  if (sample.value == 1) machine.leases.push_back({.uuid = record.gpu.uuid});
}

facts::GpuProcess& process_of(const PrometheusSample& sample, GpuRecord& record) {
  if (!record.processes) record.processes.emplace();
  const Pid pid{static_cast<std::int32_t>(parse_integer(label(sample, "pid")).value_or(0))};
  const auto known = std::ranges::find(*record.processes, pid, &facts::GpuProcess::pid);
  if (known != record.processes->end()) return *known;
  facts::GpuProcess& process = record.processes->emplace_back();
  process.pid = pid;
  process.compute = true;
  if (!label(sample, "user").empty()) process.user = label(sample, "user");
  if (!label(sample, "slurm_job").empty()) process.slurm_job = label(sample, "slurm_job");
  return process;
}

/// A family that is about GPUs, beside those of the metric table.
struct GpuFamily {
  std::string_view name;
  void (*read)(const PrometheusSample&, Machine&, GpuRecord&);
};
constexpr auto kGpuFamilies = std::to_array<GpuFamily>({
    {"gpuwarden_gpu_info", read_gpu_info},
    {"gpuwarden_gpu_health", read_health},
    {"gpuwarden_gpu_throttle_reason", read_throttling},
    {"gpuwarden_gpu_leased", read_lease},
    {"gpuwarden_gpu_temperature_slowdown_celsius",
     [](const PrometheusSample& s, Machine&, GpuRecord& r) { set_whole(r.gpu.temperature_slowdown, s.value, 1); }},
    {"gpuwarden_gpu_temperature_shutdown_celsius",
     [](const PrometheusSample& s, Machine&, GpuRecord& r) { set_whole(r.gpu.temperature_shutdown, s.value, 1); }},
    {"gpuwarden_gpu_memory_temperature_max_celsius",
     [](const PrometheusSample& s, Machine&, GpuRecord& r) { set_whole(r.gpu.temperature_memory_max, s.value, 1); }},
    {"gpuwarden_gpu_pcie_width_max_lanes",
     [](const PrometheusSample& s, Machine&, GpuRecord& r) { set_whole(r.gpu.pcie_width_max, s.value, 1); }},
    {"gpuwarden_gpu_power_limit_max_watts",
     [](const PrometheusSample& s, Machine&, GpuRecord& r) { set_whole(r.gpu.power_limit_max, s.value, 1000); }},
    {"gpuwarden_process_memory_bytes",
     [](const PrometheusSample& s, Machine&, GpuRecord& r) {
       if (s.value >= 0 && s.value < 1e15) process_of(s, r).memory = Bytes(static_cast<std::uint64_t>(s.value));
     }},
    {"gpuwarden_process_sm_percent",
     [](const PrometheusSample& s, Machine&, GpuRecord& r) {
       if (s.value >= 0 && s.value <= 100) process_of(s, r).sm = Percent(static_cast<Percent::rep>(s.value));
     }},
});

void read_info(const PrometheusSample& sample, Machine& machine) {
  machine.hostname = label(sample, "hostname");
  machine.snapshot.host = machine.hostname;
  if (!label(sample, "driver_version").empty()) machine.snapshot.driver_version = label(sample, "driver_version");
  if (!label(sample, "cuda_driver_version").empty())
    machine.snapshot.cuda_driver_version = label(sample, "cuda_driver_version");
  machine.snapshot.simulated = label(sample, "simulated") == "true";
}

void read_time(const PrometheusSample& sample, Machine& machine) {
  if (!(sample.value > 0 && sample.value < 1e11)) return;
  machine.snapshot.taken_at = WallTime(std::chrono::milliseconds(std::llround(sample.value * 1000)));
}

/// A family that is about a machine.
struct MachineFamily {
  std::string_view name;
  void (*read)(const PrometheusSample&, Machine&);
};
constexpr auto kMachineFamilies = std::to_array<MachineFamily>({
    {"gpuwarden_up", [](const PrometheusSample& s, Machine& m) { m.reading_up = s.value == 1; }},
    {"gpuwarden_info", read_info},
    {"gpuwarden_reading_timestamp_seconds", read_time},
});

/// Where a metric of the table comes from.
struct Source {
  const facts::Metric* metric = nullptr;
  double factor = 1;
};
const std::unordered_map<std::string_view, Source>& sources() {
  static const auto kSources = [] {
    std::unordered_map<std::string_view, Source> all;
    for (const facts::Metric& metric : facts::metrics()) all[metric.prometheus] = {&metric, 1};
    for (const DcgmRow& row : dcgm_rows()) {
      for (const DcgmName& name : {row.legacy, row.now}) {
        if (!name.name.empty() && !row.metric.empty())
          all[name.name.substr(kDcgm.size())] = {facts::find_metric(row.metric), 1 / name.factor};
      }
    }
    return all;
  }();
  return kSources;
}

/// Blanks of DCGM (9223372036854775794) and what is no number are unknown.
void set_metric(const Source& source, GpuRecord& record, double value) {
  if (source.metric != nullptr && std::abs(value) < 1e17)
    facts::set_value(*source.metric, record.sample, value * source.factor);
}

void read_own(const PrometheusSample& sample, Machine& machine) {
  machine.own = true;
  const auto* const whole = std::ranges::find(kMachineFamilies, sample.metric, &MachineFamily::name);
  if (whole != kMachineFamilies.end()) return whole->read(sample, machine);
  GpuRecord* record = gpu_of(sample, machine);
  if (record == nullptr) return;
  const auto* const family = std::ranges::find(kGpuFamilies, sample.metric, &GpuFamily::name);
  if (family != kGpuFamilies.end()) return family->read(sample, machine, *record);
  const auto source = sources().find(sample.metric);
  if (source != sources().end()) set_metric(source->second, *record, sample.value);
}

void read_dcgm(const PrometheusSample& sample, Machine& machine) {
  machine.dcgm = true;
  if (machine.hostname.empty()) machine.hostname = first_label(sample, {"Hostname", "hostname"});
  const std::string driver = first_label(sample, {"DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"});
  if (!driver.empty()) machine.snapshot.driver_version = driver;
  GpuRecord* record = gpu_of(sample, machine);
  if (record == nullptr) return;
  if (!label(sample, "GPU_I_ID").empty()) {
    // An instance's figures are not the GPU's.
    record->gpu.mig_enabled = true;
    record->mig_listed = false;
    return;
  }
  if (!label(sample, "modelName").empty()) record->gpu.name = label(sample, "modelName");
  if (!label(sample, "pci_bus_id").empty()) record->gpu.pci_bus_id = label(sample, "pci_bus_id");
  const auto source = sources().find(std::string_view(sample.metric).substr(kDcgm.size()));
  if (source != sources().end()) set_metric(source->second, *record, sample.value);
}

/// dcgm-exporter before 4.9 does not tell how much memory there is.
void complete_memory(facts::GpuSample& sample) {
  if (sample.memory_total || !sample.memory_used || !sample.memory_free) return;
  sample.memory_total = *sample.memory_used + *sample.memory_free + sample.memory_reserved.value_or(Bytes(0));
}

std::shared_ptr<const telemetry::Reading> reading_of(Machine& machine, Clock::SteadyTime now) {
  if (machine.gpus.empty() && !machine.reading_up.value_or(false)) return nullptr;
  auto reading = std::make_shared<telemetry::Reading>();
  facts::Snapshot& snapshot = machine.snapshot;
  snapshot.source = "prometheus";
  snapshot.origin = machine.own ? "gpuwarden serve" : "dcgm-exporter";
  if (snapshot.host.empty()) snapshot.host = machine.hostname;
  if (snapshot.taken_at == WallTime{}) snapshot.taken_at = machine.asked;
  for (auto& [uuid, record] : machine.gpus) {
    complete_memory(record.sample);
    facts::drop_impossible(record.sample);
    snapshot.gpus.push_back(std::move(record));
  }
  std::ranges::sort(snapshot.gpus, {}, [](const GpuRecord& record) { return record.gpu.index; });
  reading->snapshot = std::move(snapshot);
  reading->leases = std::move(machine.leases);
  reading->when = now;
  return reading;
}

std::optional<Error> problem_of(const Machine& machine) {
  if (machine.target_up == false)
    return Error{ErrorCode::unavailable, fmt::format("Prometheus cannot scrape {}", machine.instance),
                 "is gpuwarden serve (or dcgm-exporter) running there?"};
  if (machine.reading_up == false)
    return Error{ErrorCode::unavailable, "its GPUs could not be read a short time ago",
                 "gpuwarden doctor on that machine says more"};
  return std::nullopt;
}

Node node_from(Machine& machine, Clock::SteadyTime now) {
  Node node;
  const std::string host = machine.node.empty() ? machine.hostname : machine.node;
  node.name = host.empty() ? machine.instance : host;
  node.url = fmt::format("http://{}", machine.instance);
  node.problem = problem_of(machine);
  node.health = std::move(machine.health);
  node.reading = reading_of(machine, now);
  if (node.reading) node.seen = node.reading->snapshot.taken_at;
  return node;
}

using Machines = std::map<std::tuple<std::string, std::string, std::string>, Machine>;

Machine& machine_of(const PrometheusSample& sample, Machines& machines) {
  const auto key = std::tuple(label(sample, "instance"), label(sample, "job"), label(sample, "node"));
  const auto [found, is_new] = machines.try_emplace(key);
  if (is_new) std::tie(found->second.instance, found->second.job, found->second.node) = key;
  found->second.asked = std::max(found->second.asked, sample.time);
  return found->second;
}

/// Targets that are down, and those of jobs in which somebody tells of GPUs.
void read_targets(std::span<const PrometheusSample> samples, Machines& machines) {
  std::set<std::string> jobs;
  for (const PrometheusSample& sample : samples) {
    if (sample.metric.empty()) jobs.insert(label(sample, "job"));  // the answer to the last query
  }
  for (const PrometheusSample& sample : samples) {
    if (sample.metric != "up" || !jobs.contains(label(sample, "job"))) continue;
    bool known = false;
    for (auto& [key, machine] : machines) {
      if (machine.instance != label(sample, "instance") || machine.job != label(sample, "job")) continue;
      machine.target_up = sample.value == 1;
      known = true;
    }
    if (!known && sample.value == 0) machine_of(sample, machines).target_up = false;
  }
}

/// A machine that both tell of is a gpuwarden's.
void drop_doubles(Machines& machines) {
  std::set<std::string> own;
  for (const auto& [key, machine] : machines) {
    if (!machine.own) continue;
    for (const auto& [uuid, record] : machine.gpus) own.insert(uuid);
  }
  std::erase_if(machines, [&](const auto& entry) {
    const Machine& machine = entry.second;
    return machine.dcgm && !machine.own && !machine.gpus.empty() &&
           std::ranges::all_of(machine.gpus, [&](const auto& gpu) { return own.contains(gpu.first); });
  });
}

}  // namespace

std::vector<std::string> prometheus_queries() {
  return {R"q({__name__=~"gpuwarden_(up|info|reading_timestamp_seconds|gpu_.+|process_.+)"})q",
          R"q({__name__=~"DCGM_FI_(DEV|PROF)_.+"})q", "up",
          R"q(count by (job) (last_over_time({__name__=~"gpuwarden_up|DCGM_FI_DEV_GPU_TEMP(_CELSIUS)?"}[1d])))q"};
}

std::vector<Node> nodes_of(std::span<const PrometheusSample> samples, Clock::SteadyTime now) {
  Machines machines;
  for (const PrometheusSample& sample : samples) {
    if (sample.metric.starts_with("gpuwarden_")) read_own(sample, machine_of(sample, machines));
    if (sample.metric.starts_with(kDcgm)) read_dcgm(sample, machine_of(sample, machines));
  }
  read_targets(samples, machines);
  drop_doubles(machines);
  std::vector<Node> nodes;
  for (auto& [key, machine] : machines) nodes.push_back(node_from(machine, now));
  std::ranges::sort(nodes, {}, [](const Node& node) { return std::tie(node.name, node.url); });
  return nodes;
}

}  // namespace gpuwarden::cluster
