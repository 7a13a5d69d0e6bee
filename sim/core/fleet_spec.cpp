// SPDX-License-Identifier: Apache-2.0
#include "sim/core/fleet_spec.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <set>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/yaml/document.hpp"
#include "sim/core/identity.hpp"

namespace gpuwarden::sim {
namespace {

/// The catalogue ends below 200; drivers to come may have more.
constexpr std::int64_t kMostXid = 999;

constexpr std::array<std::pair<std::string_view, FaultKind>, 19> kFaultNames{
    {{"xid", FaultKind::xid},
     {"ecc_corrected", FaultKind::ecc_corrected},
     {"ecc_uncorrected", FaultKind::ecc_uncorrected},
     {"lost", FaultKind::lost},
     {"off_the_bus", FaultKind::lost},
     {"reset_required", FaultKind::reset_required},
     {"unknown_error", FaultKind::unknown_error},
     {"no_permission", FaultKind::no_permission},
     {"hang", FaultKind::hang},
     {"hang_init", FaultKind::hang_init},
     {"thermal_runaway", FaultKind::thermal_runaway},
     {"fan_failure", FaultKind::fan_failure},
     {"nvlink_down", FaultKind::nvlink_down},
     {"slow_clock", FaultKind::slow_clock},
     {"mismatch", FaultKind::mismatch},
     {"driver_not_loaded", FaultKind::driver_not_loaded},
     {"cuda_error", FaultKind::cuda_error},
     {"cuda_out_of_memory", FaultKind::cuda_out_of_memory},
     {"cuda_corrupt", FaultKind::cuda_corrupt}}};

/// Reads typed values from a map and keeps the first error.
class Fields {
 public:
  Fields(const YAML::Node& map, std::string_view file, std::string where)
      : map_(map), file_(file), where_(std::move(where)) {}

  YAML::Node node(const char* key) const { return yaml::child(map_, key); }

  void text(const char* key, std::string& value) {
    const YAML::Node at = node(key);
    if (!at.IsDefined() || at.IsNull()) return;
    if (!at.IsScalar() || at.Scalar().size() > 256 || printable(at.Scalar()) != at.Scalar()) {
      return complain(at, fmt::format("{}{} should be a short plain text", where_, key));
    }
    value = at.Scalar();
  }

  void number(const char* key, double& value, double low, double high) {
    const YAML::Node at = node(key);
    if (!at.IsDefined()) return;
    const auto parsed = at.IsScalar() ? parse_number(at.Scalar()) : std::nullopt;
    if (!parsed || *parsed < low || *parsed > high) {
      return complain(at, fmt::format("{}{} should be a number from {} to {}", where_, key, low, high));
    }
    value = *parsed;
  }

  template <class Integer>
  void integer(const char* key, Integer& value, double low, double high) {
    double wide = static_cast<double>(value);
    number(key, wide, low, high);
    value = static_cast<Integer>(wide);
  }

  void flag(const char* key, bool& value) {
    const YAML::Node at = node(key);
    if (!at.IsDefined()) return;
    if (at.IsScalar() && (at.Scalar() == "true" || at.Scalar() == "false")) {
      value = at.Scalar() == "true";
      return;
    }
    complain(at, fmt::format("{}{} should be true or false", where_, key));
  }

  /// Seconds: "10s", "1m30s", or a plain number.
  void seconds(const char* key, double& value) {
    const YAML::Node at = node(key);
    if (!at.IsDefined()) return;
    const auto parsed = at.IsScalar() ? parse_duration(at.Scalar()) : fail(ErrorCode::invalid_argument, "");
    if (!parsed) return complain(at, fmt::format("{}{} should be a duration such as 10s", where_, key));
    value = static_cast<double>(parsed->count()) / 1000;
  }

  /// MiB: "20GiB", "512MiB".
  void mebibytes(const char* key, double& value, double high) {
    const YAML::Node at = node(key);
    if (!at.IsDefined() || at.IsNull()) return;
    const auto parsed = at.IsScalar() ? parse_size(at.Scalar()) : fail(ErrorCode::invalid_argument, "");
    const double mib = parsed ? static_cast<double>(parsed->value) / (1 << 20) : -1;
    if (mib < 0 || mib > high) {
      return complain(at, fmt::format("{}{} should be a size of at most {:.0f} MiB", where_, key, high));
    }
    value = mib;
  }

  void known(const std::vector<std::string>& keys) {
    if (error_) return;
    if (auto checked = yaml::check_keys(map_, file_, where_.empty() ? "the fleet" : trim(where_), keys); !checked) {
      error_ = checked.error();
    }
  }

  void complain(const YAML::Node& at, std::string_view what) {
    if (!error_) error_ = yaml::error_at(at.IsDefined() ? at : map_, file_, what);
  }
  template <class T>
  void adopt(const Result<T>& result, const YAML::Node& at) {
    if (!result) complain(at, result.error().message);
  }
  void adopt(const std::optional<Error>& error) {
    if (!error_ && error) error_ = error;
  }
  const std::optional<Error>& error() const { return error_; }
  std::string_view file() const { return file_; }
  const std::string& where() const { return where_; }
  const YAML::Node& map() const { return map_; }

 private:
  YAML::Node map_;
  std::string_view file_;
  std::string where_;
  std::optional<Error> error_;
};

/// A link that goes down must be one of the GPU's. `links`: how many each has; none given: the fault strikes the fleet.
void check_link(Fields& in, const YAML::Node& at, const Fault& fault, std::optional<int> links) {
  if (fault.kind != FaultKind::nvlink_down) return;
  if (!links) return in.complain(at, "nvlink_down is a fault of one GPU: it belongs under its entry of gpus");
  if (fault.value >= *links)
    in.complain(at, fmt::format("{}there is no NVLink {}: {}", in.where(), fault.value,
                                *links == 0 ? "these GPUs have none" : fmt::format("links are 0 to {}", *links - 1)));
}

void read_faults(Fields& in, std::vector<Fault>& faults, std::optional<int> links) {
  const YAML::Node list = in.node("faults");
  if (!list.IsDefined()) return;
  if (!list.IsSequence() || list.size() > 64) return in.complain(list, in.where() + "faults should be a list");
  for (const auto& entry : list) {
    Fields fields(entry, in.file(), in.where() + "faults: ");
    std::string text = entry.IsScalar() ? entry.Scalar() : "";
    double at = 0;
    if (entry.IsMap()) {
      fields.known({"fault", "at"});
      fields.text("fault", text);
      fields.seconds("at", at);
    }
    auto fault = parse_fault(text);
    fields.adopt(fault, entry);
    if (fault) {
      fault->at = std::chrono::milliseconds(static_cast<std::int64_t>(at * 1000));
      check_link(in, entry, *fault, links);
      faults.push_back(*fault);
    }
    in.adopt(fields.error());
  }
}

void read_workload(Fields& in, Workload& workload, double memory_mib) {
  const YAML::Node at = in.node("workload");
  if (!at.IsDefined()) return;
  Fields fields(at, in.file(), in.where() + "workload: ");
  if (at.IsScalar()) {
    workload.kind = at.Scalar();
  } else {
    fields.known({"kind", "load", "epoch", "stall", "duty", "growth", "memory"});
    fields.text("kind", workload.kind);
    fields.number("load", workload.load, 0, 100);
    fields.seconds("epoch", workload.epoch);
    fields.seconds("stall", workload.stall);
    fields.number("duty", workload.duty, 0, 100);
    fields.mebibytes("growth", workload.growth_mib, memory_mib);
    fields.mebibytes("memory", workload.memory_mib, memory_mib);
  }
  static const std::set<std::string> kKinds{"idle", "training", "inference", "memory_growth"};
  if (!kKinds.contains(workload.kind)) {
    fields.complain(at, "workload should be idle, training, inference or memory_growth");
  }
  if (workload.epoch <= 0) fields.complain(at, "workload: epoch should be longer than 0 s");
  in.adopt(fields.error());
}

void read_processes(Fields& in, GpuSpec& gpu, double memory_mib) {
  const YAML::Node list = in.node("processes");
  if (!list.IsDefined()) return;
  if (!list.IsSequence() || list.size() > 256) return in.complain(list, in.where() + "processes should be a list");
  for (const auto& entry : list) {
    Fields fields(entry, in.file(), in.where() + "processes: ");
    fields.known({"pid", "user", "command", "memory", "utilization", "type", "gpu_instance"});
    ProcessSpec process;
    std::string type = "C";
    fields.integer("pid", process.pid, 1, 4194304);
    fields.text("user", process.user);
    fields.text("command", process.command);
    if (fields.node("memory").IsDefined() && !fields.node("memory").IsNull()) {
      fields.mebibytes("memory", process.memory_mib.emplace(), memory_mib);
    }
    fields.number("utilization", process.utilization, 0, 100);
    fields.text("type", type);
    if (fields.node("gpu_instance").IsDefined()) fields.integer("gpu_instance", process.gpu_instance.emplace(), 0, 64);
    if (process.pid == 0) fields.complain(entry, in.where() + "processes: a pid is missing");
    process.mps = type.contains('M');
    process.compute = type.contains('C') && !process.mps;
    process.graphics = type.contains('G');
    if (!process.compute && !process.graphics && !process.mps)
      fields.complain(entry, "type should be C, G, C+G or M+C");
    gpu.processes.push_back(process);
    in.adopt(fields.error());
  }
}

void read_readings(Fields& in, GpuSpec& gpu) {
  const YAML::Node map = in.node("readings");
  if (!map.IsDefined()) return;
  if (!map.IsMap()) return in.complain(map, in.where() + "readings should be a map");
  for (const auto& entry : map) {
    const auto field = field_from(entry.first.Scalar());
    const auto value = entry.second.IsScalar() ? parse_number(entry.second.Scalar()) : std::nullopt;
    if (!field)
      return in.complain(entry.first, fmt::format("there is no reading '{}'", printable(entry.first.Scalar())));
    if (!entry.second.IsNull() && (!value || !is_possible(*field, *value))) {
      return in.complain(entry.second, fmt::format("an impossible value for {}", to_string(*field)));
    }
    gpu.readings[*field] = value;
  }
}

/// One MIG instance: a profile of the model, or, as captures have it, any profile with its memory and SMs.
MigInstance read_instance(const YAML::Node& entry, Fields& in, const GpuSpec& gpu) {
  MigInstance instance;
  instance.gpu_instance = static_cast<std::uint32_t>(gpu.instances.size()) + 7;
  double memory = 0;
  Fields one(entry, in.file(), in.where() + "instances: ");
  if (entry.IsScalar()) instance.profile = entry.Scalar();
  if (entry.IsMap()) {
    one.known({"profile", "uuid", "gpu_instance", "compute_instance", "memory", "memory_used", "multiprocessors"});
    one.text("profile", instance.profile);
    one.text("uuid", instance.uuid);
    one.mebibytes("memory", memory, gpu.model.memory_mib);
    one.integer("multiprocessors", instance.multiprocessors, 1, 4096);
    one.integer("gpu_instance", instance.gpu_instance, 0, 64);
    one.integer("compute_instance", instance.compute_instance, 0, 64);
  }
  const auto profiles = mig_profiles(gpu.model);
  const auto found = std::ranges::find(profiles, instance.profile, &MigProfile::name);
  const bool described = memory >= 1 && instance.multiprocessors > 0;
  if (found == profiles.end() && !described) {
    one.complain(entry, fmt::format("{} has no MIG profile '{}'", gpu.name, printable(instance.profile)));
  }
  if (found != profiles.end()) {
    if (memory < 1) memory = found->memory_mib;
    if (instance.multiprocessors == 0) instance.multiprocessors = found->multiprocessors;
  }
  instance.memory_mib = static_cast<int>(memory);
  instance.compute_slices = static_cast<int>(parse_integer(split(instance.profile, 'g')[0]).value_or(1));
  instance.gpu_slices = instance.compute_slices;
  if (entry.IsMap()) one.mebibytes("memory_used", instance.memory_used_mib, instance.memory_mib);
  in.adopt(one.error());
  return instance;
}

void read_mig(Fields& in, GpuSpec& gpu) {
  const YAML::Node at = in.node("mig");
  if (!at.IsDefined()) return;
  Fields fields(at, in.file(), in.where() + "mig: ");
  fields.known({"enabled", "instances"});
  fields.flag("enabled", gpu.mig);
  if (gpu.mig && gpu.model.mig_instances == 0) fields.complain(at, fmt::format("{} has no MIG", gpu.name));
  int slices = 0;
  const YAML::Node list = fields.node("instances");
  if (list.IsDefined() && !list.IsSequence()) fields.complain(list, "mig: instances should be a list");
  for (const auto& entry : list) {
    gpu.instances.push_back(read_instance(entry, fields, gpu));
    slices += gpu.instances.back().compute_slices;
    if (fields.error()) break;
    if (slices > 7 || gpu.instances.size() > 7)
      fields.complain(entry, "these MIG instances do not fit on one GPU (7 slices)");
  }
  in.adopt(fields.error());
}

void read_identity(Fields& in, GpuSpec& gpu) {
  in.text("uuid", gpu.uuid);
  in.text("serial", gpu.serial);
  in.text("vbios", gpu.vbios);
  in.text("board_part_number", gpu.board_part_number);
  in.text("bus_id", gpu.bus_id);
  in.text("cpu_list", gpu.cpu_list);
  if (!gpu.uuid.empty() && !gpu.uuid.starts_with("GPU-")) in.complain(in.node("uuid"), "a uuid starts with GPU-");
  if (!gpu.bus_id.empty() && !parse_bus_id(gpu.bus_id)) {
    in.complain(in.node("bus_id"),
                fmt::format("'{}' is no PCI bus id such as 00000000:17:00.0", printable(gpu.bus_id)));
  }
}

/// One entry of `gpus`, which stands for `count` GPUs.
std::optional<Error> read_gpu(const YAML::Node& node, std::string_view file, bool linked, std::vector<GpuSpec>& gpus) {
  Fields in(node, file, fmt::format("gpus[{}]: ", gpus.size()));
  in.known({"model", "count", "uuid", "serial", "vbios", "board_part_number", "bus_id", "cpu_list", "memory",
            "suspended", "mig", "workload", "processes", "faults", "readings"});
  if (in.error()) return in.error();
  GpuSpec gpu;
  int count = 1;
  in.text("model", gpu.name);
  in.integer("count", count, 0, static_cast<double>(kMaxGpus));
  if (gpu.name.empty()) in.complain(node, in.where() + "a model is missing");
  const Model* known = find_model(gpu.name);
  gpu.model = known != nullptr ? *known : model_from_catalogue(gpu.name, gpu.name);
  if (known != nullptr) gpu.name = known->name;
  if (!linked) gpu.model.nvlinks = 0;
  double memory = gpu.model.memory_mib;
  in.mebibytes("memory", memory, 1048576);
  if (memory < 1) in.complain(in.node("memory"), in.where() + "memory should be at least 1 MiB");
  gpu.model.memory_mib = static_cast<int>(memory);
  in.flag("suspended", gpu.suspended);
  read_identity(in, gpu);
  read_mig(in, gpu);
  read_workload(in, gpu.workload, memory);
  read_processes(in, gpu, memory);
  read_faults(in, gpu.faults, gpu.model.nvlinks);
  read_readings(in, gpu);
  if (count > 1 && !(gpu.uuid + gpu.bus_id + gpu.serial).empty()) {
    in.complain(node, in.where() + "uuid, serial and bus_id belong to one GPU, but count is larger");
  }
  if (gpus.size() + static_cast<std::size_t>(count) > kMaxGpus) in.complain(node, "a fleet has at most 64 GPUs");
  for (int i = 0; i < count && !in.error(); ++i) gpus.push_back(gpu);
  return in.error();
}

/// Pinned memory must fit together.
std::optional<std::string> impossible_memory(const GpuSpec& gpu) {
  const auto pinned = [&](Field field, double otherwise) {
    const auto found = gpu.readings.find(field);
    return found != gpu.readings.end() && found->second ? *found->second : otherwise;
  };
  const double total = pinned(Field::memory_total, gpu.model.memory_mib);
  if (pinned(Field::memory_used, 0) > total) return "more memory is used than there is";
  double held = 0;
  for (const auto& process : gpu.processes) held += process.memory_mib.value_or(0);
  if (held > total) return "the processes hold more memory than there is";
  return std::nullopt;
}

std::optional<Error> check_whole(const FleetSpec& spec, const YAML::Node& root, std::string_view file) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < spec.gpus.size(); ++i) {
    const GpuSpec& gpu = spec.gpus[i];
    if (const auto what = impossible_memory(gpu))
      return yaml::error_at(root["gpus"], file, fmt::format("GPU {}: {}", i, *what));
    for (const std::string& id : {gpu.uuid, gpu.bus_id}) {
      if (!seen.insert(id).second) return yaml::error_at(root["gpus"], file, fmt::format("'{}' is there twice", id));
    }
  }
  return std::nullopt;
}

void read_privileged(Fields& in, Privileged& privileged) {
  std::string text = "real";
  in.text("privileged", text);
  if (text == "true") privileged = Privileged::yes;
  if (text == "false") privileged = Privileged::no;
  if (text != "real" && text != "true" && text != "false")
    in.complain(in.node("privileged"), "privileged should be real, true or false");
}

bool is_version(std::string_view text, std::size_t most) {
  const auto parts = split(text, '.');
  return parts.size() >= 2 && parts.size() <= most && std::ranges::all_of(parts, [](std::string_view part) {
           return part.size() <= 5 && parse_integer(part).value_or(-1) >= 0;
         });
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  return std::ranges::find(kFaultNames, kind, &std::pair<std::string_view, FaultKind>::second)->first;
}

Result<Fault> parse_fault(std::string_view text) {
  const auto parts = split(text, '=');
  const auto* const found = std::ranges::find(kFaultNames, parts[0], &std::pair<std::string_view, FaultKind>::first);
  std::vector<std::string> names;
  for (const auto& [name, kind] : kFaultNames) names.emplace_back(name);
  if (found == kFaultNames.end() || parts.size() > 2) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no fault", printable(text)),
                "known: " + join(names, ", "));
  }
  const bool wants_number = found->second == FaultKind::xid || found->second == FaultKind::cuda_error ||
                            found->second == FaultKind::cuda_corrupt;
  const auto value = parts.size() == 2 ? parse_integer(parts[1]) : std::optional<std::int64_t>(wants_number ? -1 : 1);
  if (!value || *value < 0 || *value > 1'000'000) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}': a number belongs after '='", printable(text)),
                "for example xid=79");
  }
  if (found->second == FaultKind::xid && (*value < 1 || *value > kMostXid))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}': an Xid is a number from 1 to {}", printable(text), kMostXid), "for example xid=79");
  return Fault{found->second, *value, {}};
}

Result<FleetSpec> parse_fleet(std::string_view text, std::string_view name, std::string_view identity) {
  GPUWARDEN_TRY(const YAML::Node root, yaml::load(text, name));
  Fields in(root, name, "");
  in.known({"name", "driver", "cuda", "kernel_module", "seed", "clock", "nvlink", "call_latency_microseconds",
            "cuda_latency", "cuda_context_memory", "privileged", "faults", "gpus"});
  if (in.error()) return std::unexpected(*in.error());
  FleetSpec spec;
  in.text("name", spec.name);
  in.text("driver", spec.driver);
  in.text("cuda", spec.cuda);
  in.text("kernel_module", spec.kernel_module);
  in.integer("seed", spec.seed, 0, 9e15);
  in.number("call_latency_microseconds", spec.call_latency_us, 0, 1e6);
  in.number("cuda_latency", spec.cuda_latency, 0, 1000);
  if (in.node("cuda_context_memory").IsDefined()) in.mebibytes("cuda_context_memory", spec.context_mib, 65536);
  if (!is_version(spec.driver, 3)) in.complain(in.node("driver"), "driver should be a version such as 550.54.15");
  if (!is_version(spec.cuda, 2)) in.complain(in.node("cuda"), "cuda should be a version such as 12.4");
  if (const YAML::Node clock = in.node("clock"); clock.IsDefined()) {
    Fields fields(clock, name, "clock: ");
    fields.known({"speed", "frozen"});
    fields.number("speed", spec.speed, 0.001, 100000);
    fields.flag("frozen", spec.frozen);
    in.adopt(fields.error());
  }
  read_privileged(in, spec.privileged);
  std::string nvlink = "none";
  in.text("nvlink", nvlink);
  spec.nvswitch = nvlink == "nvswitch";
  if (nvlink != "none" && nvlink != "nvswitch" && nvlink != "direct") {
    in.complain(in.node("nvlink"), "nvlink should be none, direct or nvswitch");
  }
  if (nvlink == "none") spec.nvswitch = false;
  read_faults(in, spec.faults, std::nullopt);
  const YAML::Node gpus = in.node("gpus");
  if (!gpus.IsSequence()) in.complain(gpus, "gpus should be a list");
  if (in.error()) return std::unexpected(*in.error());
  for (const auto& entry : gpus) {
    if (const auto error = read_gpu(entry, name, nvlink != "none", spec.gpus)) return std::unexpected(*error);
  }
  for (GpuSpec& gpu : spec.gpus) gpu.model.name = gpu.name;
  fill_identities(spec, identity);
  for (GpuSpec& gpu : spec.gpus) gpu.model.name = gpu.name;
  if (const auto error = check_whole(spec, root, name)) return std::unexpected(*error);
  return spec;
}

int library_profile(std::string_view driver_version) {
  const auto branch = parse_integer(split(driver_version, '.')[0]).value_or(550);
  int best = 418;
  for (const int profile : {418, 450, 470, 535, 550, 580}) {
    if (profile <= branch) best = profile;
  }
  return best;
}

}  // namespace gpuwarden::sim
