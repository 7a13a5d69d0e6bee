// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/json.hpp"

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/packed.hpp"

// enum_named() and describe() are found by argument-dependent lookup, which does not look into unnamed namespaces.
namespace gpuwarden::facts {

static std::optional<GpuState> enum_named(const std::string& name, GpuState) { return gpu_state_from(name); }
static std::optional<ComputeMode> enum_named(const std::string& name, ComputeMode) { return compute_mode_from(name); }
std::optional<ThrottleReason> enum_named(const std::string& name, ThrottleReason);
std::optional<ThrottleReason> enum_named(const std::string& name, ThrottleReason) { return throttle_reason_from(name); }
static std::optional<LinkLevel> enum_named(const std::string& name, LinkLevel) { return link_level_from(name); }
static std::optional<ModuleFlavour> enum_named(const std::string& name, ModuleFlavour) {
  return module_flavour_from(name);
}
static std::optional<DriverProblem::Kind> enum_named(const std::string& name, DriverProblem::Kind) {
  return driver_problem_kind_from(name);
}
static std::optional<ReadingGap::Part> enum_named(const std::string& name, ReadingGap::Part) {
  return reading_gap_part_from(name);
}
static std::optional<DeviceNode::Refusal> enum_named(const std::string& name, DeviceNode::Refusal) {
  return node_refusal_from(name);
}
static std::optional<GpuEventKind> enum_named(const std::string& name, GpuEventKind) {
  return gpu_event_kind_from(name);
}

}  // namespace gpuwarden::facts

namespace gpuwarden {

static std::optional<ErrorCode> enum_named(const std::string& name, ErrorCode) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::failed); ++code) {
    if (to_string(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  }
  return std::nullopt;
}

template <class A>
static void describe(A& a, Error& error) {
  a.field("code", error.code);
  a.field("message", error.message);
  a.field("hint", error.hint);
}

}  // namespace gpuwarden

#include "facts/archive.hpp"
#include "facts/environment_json.hpp"
#include "facts/pack.hpp"
#include "gpuwarden/facts/answer.hpp"

namespace gpuwarden::facts {

template <class A>
static void describe(A& a, ComputeCapability& capability) {
  a.field("major", capability.major);
  a.field("minor", capability.minor);
}

template <class A>
static void describe(A& a, Fabric& fabric) {
  a.field("state", fabric.state);
  a.field("status", fabric.status);
  a.field("cluster_uuid", fabric.cluster_uuid);
  a.field("clique", fabric.clique);
}

template <class A>
static void describe(A& a, Gpu& gpu) {
  a.field("index", gpu.index);
  a.field("uuid", gpu.uuid);
  a.field("name", gpu.name);
  a.field("pci_bus_id", gpu.pci_bus_id);
  a.field("pci_device_id", gpu.pci_device_id);
  a.field("serial", gpu.serial);
  a.field("board_part_number", gpu.board_part_number);
  a.field("vbios_version", gpu.vbios_version);
  a.field("brand", gpu.brand);
  a.field("architecture", gpu.architecture);
  a.field("compute_capability", gpu.compute_capability);
  a.field("multiprocessors", gpu.multiprocessors);
  a.field("cuda_cores", gpu.cuda_cores);
  a.field("power_limits.min_watts", gpu.power_limit_min);
  a.field("power_limits.max_watts", gpu.power_limit_max);
  a.field("power_limits.default_watts", gpu.power_limit_default);
  a.field("clocks.max.graphics_megahertz", gpu.clock_graphics_max);
  a.field("clocks.max.sm_megahertz", gpu.clock_sm_max);
  a.field("clocks.max.memory_megahertz", gpu.clock_memory_max);
  a.field("clocks.max.video_megahertz", gpu.clock_video_max);
  a.field("temperatures.shutdown_celsius", gpu.temperature_shutdown);
  a.field("temperatures.slowdown_celsius", gpu.temperature_slowdown);
  a.field("temperatures.max_celsius", gpu.temperature_max);
  a.field("temperatures.memory_max_celsius", gpu.temperature_memory_max);
  a.field("temperatures.acoustic_celsius", gpu.temperature_acoustic);
  a.field("memory.bus_width_bits", gpu.memory_bus_width);
  a.field("pcie.max.generation", gpu.pcie_generation_max);
  a.field("pcie.max.width", gpu.pcie_width_max);
  a.field("mig.enabled", gpu.mig_enabled);
  a.field("mig.pending", gpu.mig_pending);
  a.field("compute_mode", gpu.compute_mode);
  a.field("persistence", gpu.persistence);
  a.field("ecc.enabled", gpu.ecc_enabled);
  a.field("numa_node", gpu.numa_node);
  a.field("cpu_affinity", gpu.cpu_affinity);
  a.field("minor_number", gpu.minor_number);
  a.field("vendor", gpu.vendor);
  a.field("board_id", gpu.board_id);
  a.field("inforom.image", gpu.inforom_image_version);
  a.field("inforom.oem", gpu.inforom_oem_version);
  a.field("inforom.ecc", gpu.inforom_ecc_version);
  a.field("inforom.power", gpu.inforom_power_version);
  a.field("gsp_firmware", gpu.gsp_firmware_version);
  a.field("virtualization_mode", gpu.virtualization_mode);
  a.field("addressing_mode", gpu.addressing_mode);
  a.field("confidential_computing", gpu.confidential_computing);
  a.field("accounting", gpu.accounting);
  a.field("display.attached", gpu.display_attached);
  a.field("display.active", gpu.display_active);
  a.field("fabric", gpu.fabric);
}

template <class A>
static void describe(A& a, Fan& fan) {
  a.field("speed_percent", fan.speed);
  a.field("rpm", fan.rpm);
}

template <class A>
static void describe(A& a, EccCounts& counts) {
  a.field("location", counts.location);
  a.field("volatile.corrected", counts.corrected_volatile);
  a.field("volatile.uncorrected", counts.uncorrected_volatile);
  a.field("aggregate.corrected", counts.corrected_aggregate);
  a.field("aggregate.uncorrected", counts.uncorrected_aggregate);
}

template <class A>
static void describe(A& a, NvLink& link) {
  a.field("link", link.link);
  a.field("active", link.active);
  a.field("version", link.version);
  a.field("speed_bytes_per_second", link.speed);
  a.field("remote_pci_bus_id", link.remote);
  a.field("sent_bytes", link.sent);
  a.field("received_bytes", link.received);
  a.field("errors.replay", link.replay_errors);
  a.field("errors.recovery", link.recovery_errors);
  a.field("errors.crc_flit", link.crc_flit_errors);
  a.field("errors.crc_data", link.crc_data_errors);
}

template <class A>
static void describe(A& a, RemapAvailability& banks) {
  a.field("max", banks.max);
  a.field("high", banks.high);
  a.field("partial", banks.partial);
  a.field("low", banks.low);
  a.field("none", banks.none);
}

/// The metric table is the description of a sample.
template <class A>
static void describe(A& a, GpuSample& sample) {
  for (const Metric& metric : metrics()) {
    std::visit([&](auto field) { a.field(metric.json_path, sample.*field); }, metric.field);
  }
  a.field("throttle_reasons", sample.throttle_reasons);
  a.field("fans", sample.fans);
  a.field("ecc.locations", sample.ecc_locations);
  a.field("nvlinks", sample.nvlinks);
  a.field("remapped_rows.availability", sample.remap_availability);
}

template <class A>
static void describe(A& a, GpuProcess& process) {
  a.field("pid", process.pid);
  std::string type(type_of(process));  // NOLINT(misc-const-correctness): the Reader writes to it
  a.field("type", type);
  if constexpr (A::kReads) {
    process.compute = type.find('C') != std::string::npos;
    process.graphics = type.find('G') != std::string::npos;
    process.mps = type.find('M') != std::string::npos;
    process.listed = type != "-";
  }
  a.field("user", process.user);
  a.field("command", process.command);
  a.field("memory_bytes", process.memory);
  a.field("gpu_instance", process.gpu_instance);
  a.field("compute_instance", process.compute_instance);
  a.field("utilization.sm_percent", process.sm);
  a.field("utilization.memory_percent", process.memory_busy);
  a.field("utilization.encoder_percent", process.encoder);
  a.field("utilization.decoder_percent", process.decoder);
  a.field("utilization.jpeg_percent", process.jpeg);
  a.field("utilization.ofa_percent", process.ofa);
  a.field("container", process.container);
  a.field("pod", process.pod);
  a.field("slurm_job", process.slurm_job);
}

template <class A>
static void describe(A& a, MigDevice& mig) {
  a.field("index", mig.index);
  a.field("uuid", mig.uuid);
  a.field("name", mig.name);
  a.field("profile", mig.profile);
  a.field("gpu_instance", mig.gpu_instance);
  a.field("compute_instance", mig.compute_instance);
  a.field("multiprocessors", mig.multiprocessors);
  a.field("memory.total_bytes", mig.memory_total);
  a.field("memory.used_bytes", mig.memory_used);
  a.field("memory.free_bytes", mig.memory_free);
}

template <class A>
static void describe(A& a, DriverProblem& problem) {
  a.field("kind", problem.kind);
  a.field("code", problem.code);
  a.field("message", problem.message);
  a.field("hint", problem.hint);
}

template <class A>
static void describe(A& a, ReadingGap& gap) {
  a.field("part", gap.part);
  a.field("problem", gap.problem);
}

template <class A>
static void describe(A& a, GpuRecord& record) {
  describe(a, record.gpu);
  describe(a, record.sample);
  a.field("mig.devices", record.mig_devices);
  a.field("mig.listed", record.mig_listed);
  a.field("state", record.state);
  a.field("cause", record.cause);
  a.field("next_step", record.next_step);
  a.field("processes", record.processes);
  a.field("processes_unreadable", record.processes_unreadable);
}

template <class A>
static void describe(A& a, Link& link) {
  a.field("a", link.a);
  a.field("b", link.b);
  a.field("level", link.level);
  a.field("nvlinks", link.nvlinks);
  a.field("p2p.read", link.p2p_read);
  a.field("p2p.write", link.p2p_write);
  a.field("p2p.nvlink", link.p2p_nvlink);
  a.field("p2p.atomics", link.p2p_atomics);
}

template <class A>
static void describe(A& a, Nic::Distance& distance) {
  a.field("gpu", distance.gpu);
  a.field("level", distance.level);
}

template <class A>
static void describe(A& a, Nic& nic) {
  a.field("name", nic.name);
  a.field("pci_bus_id", nic.pci_bus_id);
  a.field("numa_node", nic.numa_node);
  a.field("distances", nic.distances);
}

template <class A>
static void describe(A& a, KernelFault& fault) {
  a.field("kind", fault.kind);
  a.field("code", fault.code);
  a.field("pci_bus_id", fault.pci_bus_id);
  a.field("pid", fault.pid);
  a.field("text", fault.text);
  a.field("line", fault.line);
}

template <class A>
static void describe(A& a, Snapshot& snapshot) {
  a.field("simulated", snapshot.simulated);
  a.field("fleet", snapshot.fleet);
  a.field("source", snapshot.source);
  a.field("origin", snapshot.origin);
  a.field("time_unix_ms", snapshot.taken_at);
  a.field("host", snapshot.host);
  a.field("driver", snapshot.driver_version);
  a.field("cuda_driver", snapshot.cuda_driver_version);
  a.field("nvml", snapshot.nvml_version);
  a.field("kernel_module", snapshot.kernel_module_version);
  a.field("problem", snapshot.problem);
  a.field("gaps", snapshot.gaps);
  a.field("gpus", snapshot.gpus);
  a.field("links", snapshot.links);
  a.field("nics", snapshot.nics);
  a.field("kernel_faults", snapshot.kernel_faults);
  a.field("cuda_order", snapshot.cuda_order);
  a.field("environment", snapshot.environment);
}

template <class A>
static void describe(A& a, GpuEvent& event) {
  a.field("kind", event.kind);
  a.field("uuid", event.uuid);
  a.field("data", event.data);
  a.field("time_unix_ms", event.time);
}

template <class A>
static void describe(A& a, LeaseHolder& holder) {
  a.field("pid", holder.pid);
  a.field("user", holder.user);
  a.field("run_id", holder.run_id);
  a.field("command", holder.command);
  a.field("since_unix_ms", holder.since);
  a.field("orphaned", holder.orphaned);
}

template <class A>
static void describe(A& a, Lease& lease) {
  a.field("uuid", lease.uuid);
  a.field("shared", lease.shared);
  a.field("holders", lease.holders);
}

namespace {

template <class T>
Result<T> read(const Json& json) {
  std::optional<Error> error;
  T value;
  Reader reader(json, error);
  describe(reader, value);
  if (error) return std::unexpected(*error);
  return value;
}

}  // namespace

Json to_json(const GpuRecord& record) { return Writer::encode(record); }
Json to_json(const GpuProcess& process) { return Writer::encode(process); }
Json to_json(const Environment& environment) { return Writer::encode(environment); }
Json to_json(const Lease& lease) { return Writer::encode(lease); }
Json to_json(const Error& error) { return Writer::encode(error); }
Json to_json(const DriverProblem& problem) { return Writer::encode(problem); }
Json to_json(const GpuEvent& event) { return Writer::encode(event); }

Json to_json(const Snapshot& snapshot) { return document(Writer::encode(snapshot)); }

Result<GpuRecord> gpu_record_from_json(const Json& json) { return read<GpuRecord>(json); }
Result<GpuProcess> gpu_process_from_json(const Json& json) { return read<GpuProcess>(json); }
Result<Environment> environment_from_json(const Json& json) { return read<Environment>(json); }
Result<Lease> lease_from_json(const Json& json) { return read<Lease>(json); }
Result<DriverProblem> driver_problem_from_json(const Json& json) { return read<DriverProblem>(json); }
Result<GpuEvent> gpu_event_from_json(const Json& json) { return read<GpuEvent>(json); }

Result<Snapshot> snapshot_from_json(const Json& json) {
  const auto schema = json.is_object() ? json.find("schema") : json.end();
  if (json.is_object() && schema != json.end() && *schema != kJsonSchema) {
    return fail(ErrorCode::corrupt, "JSON: 'schema' is not " + std::to_string(kJsonSchema),
                "the file was written by another version of gpuwarden");
  }
  return read<Snapshot>(json);
}

std::string pack(const GpuRecord& record) {
  std::string bytes;
  bytes.reserve(2048);
  PackWriter writer(bytes);
  describe(writer, const_cast<GpuRecord&>(record));
  return bytes;
}

Result<GpuRecord> unpack_gpu_record(std::string_view bytes) {
  GpuRecord record;
  PackReader reader(bytes);
  describe(reader, record);
  if (!reader.good()) return fail(ErrorCode::corrupt, "these bytes are no GPU's record");
  return record;
}

}  // namespace gpuwarden::facts
