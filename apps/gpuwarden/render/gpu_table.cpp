// SPDX-License-Identifier: Apache-2.0
#include "render/gpu_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/trouble.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::cli {
namespace {

using facts::GpuRecord;

constexpr std::size_t kProcessesShown = 3;

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

/// Widths that follow from the terminal's; 0 where there is no room for a column. Names, bar and state share what is
/// more than 80; where it is less, they shrink, then the columns that say least go first.
struct Columns {
  std::size_t index = 2;
  std::size_t name = 18;
  std::size_t capability = 0;
  std::size_t load = 4;
  std::size_t memory_bar = 8;
  std::size_t memory = 11;  ///< "80.0/80.0G"
  std::size_t share = 0;
  std::size_t temperature = 4;
  std::size_t power = 8;
  std::size_t state = 0;

  explicit Columns(std::size_t width) {
    constexpr std::size_t kUsual = 80;
    constexpr std::size_t kWide = 100;
    if (width >= kUsual) {
      name += std::min<std::size_t>((width - kUsual) / 3, 12);
      memory_bar += std::min<std::size_t>((width - kUsual) / 4, 14);
    }
    if (width >= kWide) capability = share = 4;
    constexpr std::size_t kLeastState = 8;
    if (width < kUsual) name -= std::min<std::size_t>(kUsual - width, 10);
    for (std::size_t* column : {&memory_bar, &power, &temperature, &load, &memory}) {
      if (taken() + kLeastState > width) *column = 0;
    }
    state = width - std::min(width, taken());
  }

  /// Nobody cuts what another program reads: names stand whole where no terminal has to be kept to.
  void take_names(const facts::Snapshot& snapshot) {
    for (const GpuRecord& record : snapshot.gpus) name = std::max(name, width_of(short_name(record.gpu.name)));
  }

  /// All but the state, each with the blank behind it.
  std::size_t taken() const {
    std::size_t sum = 0;
    for (const std::size_t column : {index, name, capability, load, memory_bar, memory, share, temperature, power})
      sum += column == 0 ? 0 : column + 1;
    return sum;
  }
};

/// One line of cells with a blank between, without those that have no room.
class Row {
 public:
  explicit Row(const Style& style) : style_(style) {}
  Row& add(std::string_view text, std::size_t width, bool right = false, Tone tone = Tone::plain) {
    if (width == 0) return *this;
    if (!text_.empty()) text_ += ' ';
    text_ += style_.paint(fit(text, width, right), tone);
    return *this;
  }
  /// Nothing fills the line behind its last word.
  std::string line() const { return text_.substr(0, text_.find_last_not_of(' ') + 1) + "\n"; }

 private:
  const Style& style_;
  std::string text_;
};

void add_memory(Row& row, const std::optional<Bytes>& used, const std::optional<Bytes>& total, const Columns& columns) {
  const bool known = used && total && total->value > 0;
  const double share = known ? ratio(*used, *total) : 0;
  const Tone tone = used ? memory_tone(share) : Tone::dim;
  row.add(used && columns.memory_bar > 2 ? bar(share, columns.memory_bar - 2) : "-", columns.memory_bar, false, tone);
  row.add(gib(used) + "/" + gib(total) + "G", columns.memory, true);
  row.add(known ? fmt::format("{:.0f}%", share * 100) : "-", columns.share, true, tone);
}

std::string power_cell(const facts::GpuSample& sample) {
  if (!sample.power) return "-";
  const auto watts = [](Milliwatts power) { return (power.value + 500) / 1000; };
  return sample.power_limit ? fmt::format("{}/{}W", watts(*sample.power), watts(*sample.power_limit))
                            : fmt::format("{}W", watts(*sample.power));
}

std::string use_text(const GpuRecord& record) {
  const facts::Use use = facts::use_of(record);
  return std::string(use == facts::Use::unusable ? facts::to_string(record.state) : facts::to_string(use));
}

std::string holder_text(const GpuRecord& record, const facts::Lease* lease) {
  if (!facts::is_usable(record)) return use_text(record);
  if (record.gpu.vendor != "NVIDIA") return record.gpu.vendor;
  if (lease == nullptr) return use_text(record);
  std::string who = lease->holders.empty() ? "?" : lease->holders[0].user;
  if (lease->holders.size() > 1) who += fmt::format("+{}", lease->holders.size() - 1);
  return fmt::format("{}{}{}", lease->shared ? "shared " : "", who, facts::is_idle_lease(record, lease) ? " idle" : "");
}

std::string capability_text(const facts::Gpu& gpu) {
  const auto& capability = gpu.compute_capability;
  return capability ? fmt::format("{}.{}", capability->major, capability->minor) : "-";
}

/// Of a GPU that is out of use that, unless it is in no state to be used.
std::string state_text(const GpuRecord& record, const facts::Lease* lease, const facts::Disabling* word) {
  if (word == nullptr || (word->judged && !facts::is_usable(record))) return holder_text(record, lease);
  return word->judged ? "unfit" : "disabled";
}

std::string gpu_row(const GpuRecord& record, const facts::Lease* lease, const facts::Disabling* word,
                    const Columns& columns, const Style& style) {
  const auto& sample = record.sample;
  const std::string temperature = sample.temperature ? fmt::format("{}C", sample.temperature->value) : "-";
  const std::string state = state_text(record, lease, word);
  Tone tone = state == "free" ? Tone::good : Tone::warning;
  if (!facts::is_usable(record) || (word != nullptr && word->judged)) tone = Tone::bad;
  if (record.gpu.vendor != "NVIDIA") tone = Tone::dim;
  Row row(style);
  row.add(std::to_string(record.gpu.index.value), columns.index, true);
  row.add(short_name(record.gpu.name), columns.name);
  row.add(capability_text(record.gpu), columns.capability, true);
  row.add(percent(sample.utilization_gpu), columns.load, true, load_tone(sample.utilization_gpu));
  add_memory(row, sample.memory_used, sample.memory_total, columns);
  row.add(temperature, columns.temperature, true, heat_tone(sample.temperature));
  row.add(power_cell(sample), columns.power, true);
  return row.add(state, std::min(columns.state, width_of(state)), false, tone).line();
}

std::string table_head(const Columns& columns) {
  const Style plain;
  Row row(plain);
  row.add("#", columns.index, true).add("name", columns.name).add("cc", columns.capability, true);
  row.add("util", columns.load, true);
  const std::size_t memory = columns.memory_bar + columns.memory + (columns.memory_bar > 0 ? 1 : 0);
  row.add("memory", columns.memory == 0 ? 0 : memory).add("used", columns.share, true);
  row.add("temp", columns.temperature, true).add("power", columns.power, true).add("state", columns.state);
  std::string line = row.line();
  line.pop_back();
  return line;
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
                                       facts::is_idle_lease(record, lease) ? ", idle" : "", holder.command);
  return style.paint(cut(text, style), Tone::dim) + "\n";
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

std::string process_lines(const GpuRecord& record, const Style& style) {
  std::string text;
  if (!record.processes) return text;
  // Memory that no listed process accounts for has somebody behind it. Else those who only have the device file open
  // (nvidia-persistenced, monitors) are left to --processes.
  const bool all = facts::has_unlisted_user(record);
  std::size_t seen = 0;
  for (const auto& process : *record.processes) {
    if ((!process.listed && !all) || ++seen > kProcessesShown) continue;
    const std::string line = process_text(process);
    text += cut(line, style) + "\n";
  }
  if (seen > kProcessesShown) {
    const std::string more = fmt::format("   and {} more (--processes)", seen - kProcessesShown);
    text += cut(more, style) + "\n";
  }
  return text;
}

std::string mig_rows(const GpuRecord& record, const Columns& columns, const Style& style) {
  std::string text;
  for (const auto& mig : record.mig_devices) {
    Row row(style);
    row.add("", columns.index).add(fmt::format("MIG {} {}", mig.index, mig.profile.value_or("?")), columns.name);
    row.add("", columns.capability).add("", columns.load);
    add_memory(row, mig.memory_used, mig.memory_total, columns);
    text += row.line();
  }
  return text;
}

/// Who or what keeps the GPU out of use, and what would help.
std::string word_lines(const facts::Disabling* word, const facts::Snapshot& snapshot, const Style& style) {
  if (word == nullptr) return "";
  const std::string why = facts::describe_disabling(*word, snapshot.taken_at);
  const std::string text = painted_lines(why, 3, style, word->judged ? Tone::bad : Tone::warning);
  return word->next_step.empty() ? text : text + painted_lines("-> " + word->next_step, 3, style, Tone::plain);
}

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
  return text.empty() ? "" : painted_lines("faults in the kernel log:", 0, style, Tone::plain) + text;
}

}  // namespace

std::string short_name(std::string_view name) {
  if (name.starts_with("NVIDIA ")) name.remove_prefix(7);
  return std::string(name);
}

std::string snapshot_header(const facts::Snapshot& snapshot, const Style& style) {
  std::string text = snapshot.simulated ? fmt::format("SIMULATED {}  ", printable(snapshot.fleet)) : "";
  text += fmt::format("driver {}  CUDA {}", printable(snapshot.driver_version.value_or("-")),
                      printable(snapshot.cuda_driver_version.value_or("-")));
  if (!snapshot.host.empty()) text += "  " + printable(snapshot.host);
  if (snapshot.taken_at != std::chrono::system_clock::time_point{}) text += "  " + format_utc(snapshot.taken_at);
  const std::string from = snapshot.origin.empty() ? "" : fmt::format("FROM {}\n", printable(snapshot.origin));
  return from + style.paint(cut(text, style), Tone::bold) + "\n";
}

std::string gpu_table(const facts::Snapshot& snapshot, const std::vector<facts::Lease>& leases, const Style& usual,
                      std::span<const facts::Disabling> disabled, std::span<const lease::Acceptance> accepted) {
  Style style = usual;
  style.width = style.columns;
  Columns columns(style.width);
  if (!usual.measured) columns.take_names(snapshot);
  std::string text = snapshot_header(snapshot, style);
  if (snapshot.gpus.empty())
    return text + (snapshot.origin.empty() ? "no GPU\n" : "no GPUs in this report\n") + fault_lines(snapshot, style);
  text += style.paint(table_head(columns), Tone::dim) + "\n";
  for (const GpuRecord& record : snapshot.gpus) {
    const facts::Lease* lease = facts::find_lease(leases, record);
    const facts::Disabling* word = facts::find_disabling(disabled, facts::identity_of(record));
    text += gpu_row(record, lease, word, columns, style) + word_lines(word, snapshot, style);
    if (const auto* acceptance = lease::find_acceptance(accepted, record); acceptance != nullptr)
      text += painted_lines(lease::describe_acceptance(*acceptance, snapshot.taken_at), 3, style, Tone::warning);
    if (!record.cause.empty())
      text += painted_lines(record.cause, 3, style, facts::is_usable(record) ? Tone::dim : Tone::bad);
    if (!record.next_step.empty()) text += painted_lines("-> " + record.next_step, 3, style, Tone::plain);
    text += mig_rows(record, columns, style) + lease_line(record, lease, style) + process_lines(record, style);
  }
  return text + fault_lines(snapshot, style);
}

namespace {

/// Which hosts are simulated, and as what; nothing where none is.
std::string simulated_hosts(std::span<const cluster::Node> nodes, const Style& style) {
  std::vector<std::string> hosts;
  for (const cluster::Node& node : nodes) {
    if (node.reading == nullptr || !node.reading->snapshot.simulated) continue;
    hosts.push_back(fmt::format("{} ({})", printable(node.name), printable(node.reading->snapshot.fleet)));
  }
  return hosts.empty() ? "" : style.paint(cut("SIMULATED " + join(hosts, ", "), style), Tone::bold) + "\n";
}

/// A GPU of a host, with what is wrong with it below.
std::string host_row(const cluster::Node& node, const GpuRecord& record, const Columns& columns, const Style& style) {
  const auto word = cluster::out_of_use(node, record.gpu.uuid);
  const facts::Disabling* found = word ? &*word : nullptr;
  std::string text = gpu_row(record, facts::find_lease(node.reading->leases, record), found, columns, style);
  const std::string& cause = record.cause.empty() && word ? word->reason : record.cause;
  const std::string& step = record.next_step.empty() && word ? word->next_step : record.next_step;
  if (!cause.empty()) text += painted_lines(cause, 3, style, facts::is_usable(record) && !word ? Tone::dim : Tone::bad);
  if (!step.empty()) text += painted_lines("-> " + step, 3, style, Tone::plain);
  return text;
}

}  // namespace

std::string hosts_table(std::span<const cluster::Node> nodes, const Style& usual) {
  constexpr std::size_t kWidestHost = 24;
  std::size_t host = std::string_view("host").size();
  for (const cluster::Node& node : nodes) host = std::max(host, std::min(width_of(node.name), kWidestHost));
  Style style = usual;
  style.width = usual.columns;
  Columns columns(style.width > host + 20 ? style.width - host - 1 : 20);
  for (const cluster::Node& node : nodes) {
    if (!usual.measured && node.reading != nullptr) columns.take_names(node.reading->snapshot);
  }
  std::string text = simulated_hosts(nodes, style);
  text += style.paint(cut(fit("host", host) + " " + table_head(columns), style), Tone::dim) + "\n";
  for (const cluster::Node& node : nodes) {
    const std::string head = fit(printable(node.name), host) + " ";
    if (node.problem) {
      text += head + style.paint("-", Tone::bad) + "\n" +
              painted_lines(printable(node.problem->message), 3, style, Tone::bad);
      if (!node.problem->hint.empty())
        text += painted_lines("-> " + printable(node.problem->hint), 3, style, Tone::plain);
      continue;
    }
    if (node.reading == nullptr || node.reading->snapshot.gpus.empty()) text += head + "no GPU\n";
    if (node.reading == nullptr) continue;
    for (const GpuRecord& record : node.reading->snapshot.gpus) text += head + host_row(node, record, columns, style);
  }
  return text;
}

namespace {

/// What stands where a table of processes would have no line: whether there are none, or nobody can tell.
std::string_view no_processes(const facts::Snapshot& snapshot) {
  if (snapshot.gpus.empty()) return snapshot.origin.empty() ? "no GPU" : "no GPUs in this report";
  const bool known = std::ranges::all_of(snapshot.gpus, [](const GpuRecord& gpu) { return gpu.processes.has_value(); });
  return known ? "no processes" : "no processes seen; not every GPU tells of its own";
}

}  // namespace

std::string process_table(const facts::Snapshot& snapshot, const Style& usual) {
  // Nobody cuts what another program reads.
  Style style = usual;
  style.width = usual.measured ? usual.columns : std::string::npos;
  const std::string header = snapshot_header(snapshot, style);
  constexpr std::string_view kHead = " #     pid typ user          memory  command";
  std::string text;
  for (const GpuRecord& record : snapshot.gpus) {
    for (const auto& process : record.processes.value_or(std::vector<facts::GpuProcess>{})) {
      const std::string line = fit(std::to_string(record.gpu.index.value), 2, true) + process_text(process).substr(2);
      text += cut(line, style) + "\n";
    }
  }
  if (text.empty()) return header + cut(no_processes(snapshot), style) + "\n";
  return header + style.paint(cut(kHead, style), Tone::dim) + "\n" + text;
}

}  // namespace gpuwarden::cli
