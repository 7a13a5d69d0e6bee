// SPDX-License-Identifier: Apache-2.0
#include "render/gpu_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

using facts::GpuRecord;

constexpr std::size_t kProcessesShown = 3;
/// Below this a holder has not even a CUDA context on the GPU (those take about 300 MiB and more).
constexpr Bytes kContextMemory = 64_MiB;

std::string percent(const std::optional<Percent>& value) { return value ? fmt::format("{}%", value->value) : "-"; }

std::string gib(const std::optional<Bytes>& bytes) {
  if (!bytes) return "-";
  const double value = static_cast<double>(bytes->value) / (1 << 30);
  return value >= 99.95 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

Tone load_tone(const std::optional<Percent>& value) {
  if (!value) return Tone::dim;
  return value->value >= 80 ? Tone::bad : value->value >= 20 ? Tone::warning : Tone::good;
}

Tone memory_tone(double share) { return share >= 0.9 ? Tone::bad : share >= 0.5 ? Tone::warning : Tone::good; }

Tone heat_tone(const std::optional<Celsius>& value) {
  if (!value) return Tone::dim;
  return value->value >= 85 ? Tone::bad : value->value >= 70 ? Tone::warning : Tone::good;
}

/// Widths that follow from the terminal's: names and the last column take what is more than 80.
struct Columns {
  std::size_t name;
  std::size_t memory_bar;
  std::size_t last;
  explicit Columns(std::size_t width) {
    const std::size_t extra = width - 80;
    name = 18 + std::min<std::size_t>(extra / 3, 12);
    memory_bar = 6 + std::min<std::size_t>(extra / 4, 14);
    // index 2, name, util 4, bar + 2, "80.0/80.0G" 11, temperature 4, power 8, and a blank before each.
    last = width - (2 + 1 + name + 1 + 4 + 1 + memory_bar + 2 + 1 + 11 + 1 + 4 + 1 + 8 + 1);
  }
};

std::string short_name(std::string_view name) {
  if (name.starts_with("NVIDIA ")) name.remove_prefix(7);
  return std::string(name);
}

std::string memory_cells(const std::optional<Bytes>& used, const std::optional<Bytes>& total, std::size_t width,
                         const Style& style) {
  const double share = used && total && total->value > 0 ? ratio(*used, *total) : 0;
  const std::string drawn = used ? bar(share, width) : fit("-", width + 2);
  return style.paint(drawn, used ? memory_tone(share) : Tone::dim) + " " +
         fit(gib(used) + "/" + gib(total) + "G", 11, true);
}

std::string power_cell(const facts::GpuSample& sample) {
  if (!sample.power) return "-";
  const auto watts = [](Milliwatts power) { return (power.value + 500) / 1000; };
  return sample.power_limit ? fmt::format("{}/{}W", watts(*sample.power), watts(*sample.power_limit))
                            : fmt::format("{}W", watts(*sample.power));
}

/// More than an idle desktop takes.
bool is_loaded(const facts::GpuSample& sample) {
  constexpr double kShare = 0.1;
  const bool busy = sample.utilization_gpu && static_cast<double>(sample.utilization_gpu->value) > kShare * 100;
  const bool filled = sample.memory_used && sample.memory_total && sample.memory_total->value > 0 &&
                      ratio(*sample.memory_used, *sample.memory_total) > kShare;
  return busy || filled;
}

std::string holder_text(const GpuRecord& record, const facts::Lease* lease) {
  if (!facts::is_usable(record)) return std::string(facts::to_string(record.state));
  if (record.gpu.vendor != "NVIDIA") return record.gpu.vendor;
  // A capture may name a GPU and tell nothing of its use, or its load and not whose it is.
  if (lease == nullptr && record.processes_unreadable) return "?";
  if (lease == nullptr && !record.processes && !record.sample.memory_used) return "?";
  if (lease == nullptr && !record.processes && is_loaded(record.sample)) return "in use";
  if (lease == nullptr) return std::string(record.state == facts::GpuState::busy ? "busy" : "free");
  std::string who = lease->holders.empty() ? "?" : lease->holders[0].user;
  if (lease->holders.size() > 1) who += fmt::format("+{}", lease->holders.size() - 1);
  return fmt::format("{}{}{}", lease->shared ? "shared " : "", who, is_idle_lease(record, lease) ? " idle" : "");
}

std::string gpu_row(const GpuRecord& record, const facts::Lease* lease, const Columns& columns, const Style& style) {
  const auto& sample = record.sample;
  const std::string temperature = sample.temperature ? fmt::format("{}C", sample.temperature->value) : "-";
  const std::string state = holder_text(record, lease);
  Tone tone = state == "free" ? Tone::good : Tone::warning;
  if (!facts::is_usable(record)) tone = Tone::bad;
  if (record.gpu.vendor != "NVIDIA") tone = Tone::dim;
  return fit(std::to_string(record.gpu.index.value), 2, true) + " " + fit(short_name(record.gpu.name), columns.name) +
         " " + style.paint(fit(percent(sample.utilization_gpu), 4, true), load_tone(sample.utilization_gpu)) + " " +
         memory_cells(sample.memory_used, sample.memory_total, columns.memory_bar, style) + " " +
         style.paint(fit(temperature, 4, true), heat_tone(sample.temperature)) + " " +
         fit(power_cell(sample), 8, true) + " " + style.paint(fit(state, columns.last), tone) + "\n";
}

/// Indented text, broken between words at the width.
std::string painted_lines(std::string_view text, std::size_t indent, const Style& style, Tone tone) {
  std::string result;
  std::string line(indent, ' ');
  for (const auto word : split_words(text)) {
    if (width_of(line) + 1 + width_of(word) > style.width && line.size() > indent) {
      result += style.paint(line, tone) + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += width_of(word) + indent > style.width ? fit(word, style.width - indent) : std::string(word);
  }
  return result + style.paint(line, tone) + "\n";
}

std::string lease_line(const GpuRecord& record, const facts::Lease* lease, const Style& style) {
  if (lease == nullptr || lease->holders.empty()) return "";
  const auto& holder = lease->holders[0];
  const std::string text = fmt::format("   lease: {}, pid {}{}{}: {}", holder.user, holder.pid.value,
                                       holder.since ? ", since " + format_utc(*holder.since) : "",
                                       is_idle_lease(record, lease) ? ", idle" : "", holder.command);
  return style.paint(fit(text, std::min(style.width, width_of(text))), Tone::dim) + "\n";
}

/// "job 4711, pod 1a2b3c4d: ": on whose behalf a process runs; a pod says more than the container in it.
std::string owner_text(const facts::GpuProcess& process) {
  constexpr std::size_t kUidShown = 8;
  std::vector<std::string> owners;
  if (process.slurm_job) owners.push_back("job " + *process.slurm_job);
  if (process.pod) owners.push_back("pod " + process.pod->substr(0, kUidShown));
  if (process.container && !process.pod) owners.push_back("container " + *process.container);
  return owners.empty() ? "" : join(owners, ", ") + ": ";
}

std::string process_text(const facts::GpuProcess& process) {
  return fmt::format("   {:>7} {:<3} {:<10} {:>9}  {}{}", process.pid.value, facts::type_of(process),
                     process.user.value_or("?").substr(0, 10), process.memory ? format_size(*process.memory) : "?",
                     owner_text(process), process.command.value_or("?"));
}

/// Memory that no listed process accounts for has somebody behind it. Else those who only have the device file open
/// (nvidia-persistenced, monitors) are left to --processes.
bool has_unexplained_memory(const GpuRecord& record) {
  if (!record.sample.memory_used) return true;
  Bytes listed(0);
  for (const auto& process : *record.processes) {
    if (process.listed) listed += process.memory.value_or(Bytes(0));
  }
  return *record.sample.memory_used > listed + kContextMemory;
}

std::string process_lines(const GpuRecord& record, const Style& style) {
  std::string text;
  if (!record.processes) return text;
  const bool all = has_unexplained_memory(record);
  std::size_t seen = 0;
  for (const auto& process : *record.processes) {
    if ((!process.listed && !all) || ++seen > kProcessesShown) continue;
    const std::string line = process_text(process);
    text += fit(line, std::min(style.width, width_of(line))) + "\n";
  }
  if (seen > kProcessesShown) text += fmt::format("   and {} more (--processes)\n", seen - kProcessesShown);
  return text;
}

std::string mig_rows(const GpuRecord& record, const Columns& columns, const Style& style) {
  std::string text;
  for (const auto& mig : record.mig_devices) {
    text += "   " + fit(fmt::format("MIG {} {}", mig.index, mig.profile.value_or("?")), columns.name) + "      " +
            memory_cells(mig.memory_used, mig.memory_total, columns.memory_bar, style) + "\n";
  }
  return text;
}

}  // namespace

std::string snapshot_header(const facts::Snapshot& snapshot, const Style& style) {
  std::string text = snapshot.simulated ? fmt::format("SIMULATED {}  ", printable(snapshot.fleet)) : "";
  text += fmt::format("driver {}  CUDA {}", printable(snapshot.driver_version.value_or("-")),
                      printable(snapshot.cuda_driver_version.value_or("-")));
  if (!snapshot.host.empty()) text += "  " + printable(snapshot.host);
  if (snapshot.taken_at != std::chrono::system_clock::time_point{}) text += "  " + format_utc(snapshot.taken_at);
  const std::string from = snapshot.origin.empty() ? "" : fmt::format("FROM {}\n", printable(snapshot.origin));
  return from + style.paint(fit(text, std::min(style.width, width_of(text))), Tone::bold) + "\n";
}

bool is_idle_lease(const GpuRecord& record, const facts::Lease* lease) {
  if (lease == nullptr || !facts::is_usable(record)) return false;
  const bool no_load = record.sample.utilization_gpu == Percent(0);
  return no_load && record.sample.memory_used && *record.sample.memory_used < kContextMemory;
}

const facts::Lease* find_lease(const std::vector<facts::Lease>& leases, const GpuRecord& record) {
  // A GPU without a UUID is leased by its index.
  const std::string index = fmt::format("index-{}", record.gpu.index.value);
  const Uuid own = record.gpu.uuid.value.empty() ? Uuid(index) : record.gpu.uuid;
  const auto found = std::ranges::find_if(leases, [&](const facts::Lease& lease) {
    return lease.uuid == own ||
           std::ranges::find(record.mig_devices, lease.uuid, &facts::MigDevice::uuid) != record.mig_devices.end();
  });
  return found == leases.end() ? nullptr : &*found;
}

namespace {

/// What a kernel log told, each kind of fault once: "Xid 79 at 0000:91:00, 3 times: GPU has fallen off the bus."
std::string fault_lines(const facts::Snapshot& snapshot, const Style& style) {
  const auto faults = snapshot.kernel_faults.value_or(std::vector<facts::KernelFault>{});
  std::string text;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const auto same = [&](const facts::KernelFault& other) {
      return other.kind == faults[i].kind && other.code == faults[i].code && other.pci_bus_id == faults[i].pci_bus_id;
    };
    if (std::any_of(faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(i), same)) continue;
    const auto times = std::ranges::count_if(faults, same);
    text += painted_lines(fmt::format("{} {}{}{}: {}", faults[i].kind == "sxid" ? "SXid" : "Xid", faults[i].code,
                                      faults[i].pci_bus_id ? " at " + *faults[i].pci_bus_id : "",
                                      times > 1 ? fmt::format(", {} times", times) : "", faults[i].text),
                          3, style, Tone::bad);
  }
  return text.empty() ? "" : "faults in the kernel log:\n" + text;
}

}  // namespace

std::string gpu_table(const facts::Snapshot& snapshot, const std::vector<facts::Lease>& leases, const Style& style) {
  const Columns columns(style.width);
  std::string text = snapshot_header(snapshot, style);
  if (snapshot.gpus.empty())
    return text + (snapshot.origin.empty() ? "no GPU\n" : "no GPU is told of\n") + fault_lines(snapshot, style);
  text += style.paint(" # " + fit("name", columns.name) + " util " + fit("memory", columns.memory_bar + 14) +
                          " temp    power state",
                      Tone::dim) +
          "\n";
  for (const GpuRecord& record : snapshot.gpus) {
    const facts::Lease* lease = find_lease(leases, record);
    text += gpu_row(record, lease, columns, style);
    if (!record.cause.empty())
      text += painted_lines(record.cause, 3, style, facts::is_usable(record) ? Tone::dim : Tone::bad);
    if (!record.next_step.empty()) text += painted_lines("-> " + record.next_step, 3, style, Tone::plain);
    text += mig_rows(record, columns, style) + lease_line(record, lease, style) + process_lines(record, style);
  }
  return text + fault_lines(snapshot, style);
}

std::string process_table(const facts::Snapshot& snapshot, const Style& style) {
  std::string text = snapshot_header(snapshot, style);
  text += style.paint(" #     pid typ user          memory  command", Tone::dim) + "\n";
  for (const GpuRecord& record : snapshot.gpus) {
    for (const auto& process : record.processes.value_or(std::vector<facts::GpuProcess>{})) {
      const std::string line = fit(std::to_string(record.gpu.index.value), 2, true) + process_text(process).substr(2);
      text += fit(line, std::min(style.width, width_of(line))) + "\n";
    }
  }
  return text;
}

}  // namespace gpuwarden::cli
