// SPDX-License-Identifier: Apache-2.0
#include "render/gpu_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

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

template <class Value>
Tone tone_of(const Value& value, const Value& warning, const Value& bad) {
  return value >= bad ? Tone::bad : value >= warning ? Tone::warning : Tone::good;
}

/// All columns but the state, which has what room is left.
enum Column : std::uint8_t { index, name, capability, load, memory_bar, memory, share, temperature, power };
constexpr std::size_t kColumns = power + 1;

struct ColumnRow {
  const char* title;
  std::size_t width;  ///< in 80 columns; 0: there is no room for it
  bool right = true;
};
constexpr std::array<ColumnRow, kColumns> kColumnRows{{{"#", 2},
                                                       {"name", 18, false},
                                                       {"cc", 0},
                                                       {"util", 4},
                                                       {"memory", 8, false},
                                                       {"", 11},  // "80.0/80.0G"
                                                       {"used", 0},
                                                       {"temp", 4},
                                                       {"power", 8}}};

struct Cell {
  std::string text;
  Tone tone = Tone::plain;
};
using Cells = std::array<Cell, kColumns>;

/// Widths that follow from the terminal's. Names, bar and state share what is more than 80; where it is less, they
/// shrink, then the columns that say least go first.
class Layout {
 public:
  explicit Layout(std::size_t width) {
    constexpr std::size_t kUsual = 80;
    constexpr std::size_t kWide = 100;
    constexpr std::size_t kLeastState = 8;
    std::ranges::transform(kColumnRows, widths_.begin(), &ColumnRow::width);
    if (width >= kUsual) {
      widths_[name] += std::min<std::size_t>((width - kUsual) / 3, 12);
      widths_[memory_bar] += std::min<std::size_t>((width - kUsual) / 4, 14);
    }
    if (width >= kWide) widths_[capability] = widths_[share] = 4;
    if (width < kUsual) widths_[name] -= std::min<std::size_t>(kUsual - width, 10);
    for (const Column column : {memory_bar, power, temperature, load, memory}) {
      if (taken() + kLeastState > width) widths_[column] = 0;
    }
    state_ = width - std::min(width, taken());
  }

  /// Nobody cuts what another program reads: names stand whole where no terminal has to be kept to.
  void take_names(const facts::Snapshot& snapshot) {
    for (const GpuRecord& record : snapshot.gpus)
      widths_[name] = std::max(widths_[name], width_of(short_name(record.gpu.name)));
  }

  std::size_t bar_width() const { return widths_[memory_bar]; }

  std::string head() const {
    Cells cells;
    for (std::size_t i = 0; i < kColumns; ++i) cells[i].text = kColumnRows[i].title;
    if (bar_width() == 0) cells[memory].text = fit("memory", widths_[memory]);
    std::string line = this->line(cells, {"state"}, {});
    line.pop_back();
    return line;
  }

  /// The cells with a blank between, without those that have no room; nothing fills the line behind its last word.
  std::string line(const Cells& cells, const Cell& state, const Style& style) const {
    std::string text;
    for (std::size_t i = 0; i < kColumns; ++i) {
      if (widths_[i] == 0) continue;
      text += style.paint(fit(cells[i].text, widths_[i], kColumnRows[i].right), cells[i].tone) + ' ';
    }
    text += style.paint(fit(state.text, std::min(state_, width_of(state.text))), state.tone);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }

 private:
  /// All but the state, each with the blank behind it.
  std::size_t taken() const {
    std::size_t sum = 0;
    for (const std::size_t width : widths_) sum += width == 0 ? 0 : width + 1;
    return sum;
  }

  std::array<std::size_t, kColumns> widths_{};
  std::size_t state_ = 0;
};

void fill_memory(Cells& cells, const std::optional<Bytes>& used, const std::optional<Bytes>& total, std::size_t width) {
  const bool known = used && total && total->value > 0;
  const double part = known ? ratio(*used, *total) : 0;
  const Tone tone = used ? tone_of(part, 0.5, 0.9) : Tone::dim;
  cells[memory_bar] = {used && width > 2 ? bar(part, width - 2) : "-", tone};
  cells[memory] = {gib(used) + "/" + gib(total) + "G"};
  cells[share] = {known ? fmt::format("{:.0f}%", part * 100) : "-", tone};
}

std::string power_text(const facts::GpuSample& sample) {
  if (!sample.power) return "-";
  const auto watts = [](Milliwatts power) { return (power.value + 500) / 1000; };
  return sample.power_limit ? fmt::format("{}/{}W", watts(*sample.power), watts(*sample.power_limit))
                            : fmt::format("{}W", watts(*sample.power));
}

Cells cells_of(const GpuRecord& record, std::size_t bar_width) {
  const facts::GpuSample& sample = record.sample;
  const auto& heat = sample.temperature;
  const auto& version = record.gpu.compute_capability;
  Cells cells;
  cells[index] = {std::to_string(record.gpu.index.value)};
  cells[name] = {short_name(record.gpu.name)};
  cells[capability] = {version ? fmt::format("{}.{}", version->major, version->minor) : "-"};
  cells[load] = {percent(sample.utilization_gpu),
                 sample.utilization_gpu ? tone_of(*sample.utilization_gpu, 20_pct, 80_pct) : Tone::dim};
  fill_memory(cells, sample.memory_used, sample.memory_total, bar_width);
  cells[temperature] = {heat ? fmt::format("{}C", heat->value) : "-",
                        heat ? tone_of(*heat, Celsius(70), Celsius(85)) : Tone::dim};
  cells[power] = {power_text(sample)};
  return cells;
}

std::string use_text(const GpuRecord& record) {
  const facts::Use use = facts::use_of(record);
  return std::string(use == facts::Use::unusable ? facts::to_string(record.state) : facts::to_string(use));
}

std::string holder_text(const GpuRecord& record, const facts::Lease* lease) {
  if (!facts::is_usable(record)) return use_text(record);
  if (record.gpu.vendor != "NVIDIA") return record.gpu.vendor;
  if (lease == nullptr) return use_text(record);
  std::string who = lease->holders.empty() ? "leased" : lease->holders[0].user;
  if (lease->holders.size() > 1) who += fmt::format("+{}", lease->holders.size() - 1);
  return fmt::format("{}{}{}", lease->shared ? "shared " : "", who, facts::is_idle_lease(record, lease) ? " idle" : "");
}

/// Of a GPU that is out of use that, unless it is in no state to be used.
Cell state_of(const GpuRecord& record, const facts::Lease* lease, const facts::Disabling* word) {
  const std::string_view out_of_use = facts::out_of_use_word(record, word);
  Cell cell{out_of_use.empty() ? holder_text(record, lease) : std::string(out_of_use), Tone::warning};
  const bool is_held = lease != nullptr || !out_of_use.empty();
  if (!is_held && facts::use_of(record) == facts::Use::free) cell.tone = Tone::good;
  if (!facts::is_usable(record) || (word != nullptr && word->judged)) cell.tone = Tone::bad;
  if (record.gpu.vendor != "NVIDIA") cell.tone = Tone::dim;
  return cell;
}

std::string gpu_row(const GpuRecord& record, const facts::Lease* lease, const facts::Disabling* word,
                    const Layout& layout, const Style& style) {
  return layout.line(cells_of(record, layout.bar_width()), state_of(record, lease, word), style);
}

std::string mig_rows(const GpuRecord& record, const Layout& layout, const Style& style) {
  std::string text;
  for (const auto& mig : record.mig_devices) {
    Cells cells;
    cells[name] = {fmt::format("MIG {} {}", mig.index, mig.profile.value_or("?"))};
    fill_memory(cells, mig.memory_used, mig.memory_total, layout.bar_width());
    text += layout.line(cells, {}, style);
  }
  return text;
}

/// Text behind blanks, broken between words at the width.
std::string painted_lines(std::string_view text, const Style& style, Tone tone, std::size_t indent = 3) {
  std::string result;
  const std::string whole = std::string(indent, ' ') + wrapped(text, indent, indent, style.width);
  for (const auto line : split(whole, '\n')) result += style.paint(cut(line, style), tone) + "\n";
  return result;
}

/// What is wrong, and what would help; either may be empty.
std::string remark(std::string_view why, const std::string& step, const Style& style, Tone tone) {
  const std::string text = why.empty() ? "" : painted_lines(why, style, tone);
  return step.empty() ? text : text + painted_lines("-> " + step, style, Tone::plain);
}

std::string lease_line(const GpuRecord& record, const facts::Lease* lease, const Style& style) {
  if (lease == nullptr) return "";
  if (lease->holders.empty()) return painted_lines("held; " + facts::describe_unseen_holder(*lease), style, Tone::dim);
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
    text += cut(process_text(process), style) + "\n";
  }
  if (seen > kProcessesShown)
    text += cut(fmt::format("   and {} more (--processes)", seen - kProcessesShown), style) + "\n";
  return text;
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
                          style, Tone::bad);
  }
  return text.empty() ? "" : painted_lines("faults in the kernel log:", style, Tone::plain, 0) + text;
}

Style as_wide_as_the_terminal(Style style) {
  style.width = style.columns;
  return style;
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
  const Style style = as_wide_as_the_terminal(usual);
  Layout layout(style.width);
  if (!usual.measured) layout.take_names(snapshot);
  std::string text = snapshot_header(snapshot, style);
  if (snapshot.gpus.empty())
    return text + (snapshot.origin.empty() ? "no GPU\n" : "no GPUs in this report\n") + fault_lines(snapshot, style);
  text += style.paint(layout.head(), Tone::dim) + "\n";
  for (const GpuRecord& record : snapshot.gpus) {
    const facts::Lease* lease = facts::find_lease(leases, record);
    const facts::Disabling* word = facts::find_disabling(disabled, facts::identity_of(record));
    text += gpu_row(record, lease, word, layout, style);
    if (word != nullptr)
      text += remark(facts::describe_disabling(*word, snapshot.taken_at), word->next_step, style,
                     word->judged ? Tone::bad : Tone::warning);
    if (const auto* acceptance = lease::find_acceptance(accepted, record); acceptance != nullptr)
      text += painted_lines(lease::describe_acceptance(*acceptance, snapshot.taken_at), style, Tone::warning);
    text += remark(record.cause, record.next_step, style, facts::is_usable(record) ? Tone::dim : Tone::bad);
    text += mig_rows(record, layout, style) + lease_line(record, lease, style) + process_lines(record, style);
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
std::string host_row(const cluster::Node& node, const GpuRecord& record, const Layout& layout, const Style& style) {
  const auto word = cluster::out_of_use(node, record.gpu.uuid);
  const facts::Lease* lease = facts::find_lease(node.reading->leases, record);
  return gpu_row(record, lease, word ? &*word : nullptr, layout, style) +
         remark(record.cause.empty() && word ? word->reason : record.cause,
                record.next_step.empty() && word ? word->next_step : record.next_step, style,
                facts::is_usable(record) && !word ? Tone::dim : Tone::bad);
}

}  // namespace

std::string hosts_table(std::span<const cluster::Node> nodes, const Style& usual) {
  constexpr std::size_t kWidestHost = 24;
  std::size_t host = std::string_view("host").size();
  for (const cluster::Node& node : nodes) host = std::max(host, std::min(width_of(node.name), kWidestHost));
  const Style style = as_wide_as_the_terminal(usual);
  Layout layout(style.width > host + 20 ? style.width - host - 1 : 20);
  for (const cluster::Node& node : nodes) {
    if (!usual.measured && node.reading != nullptr) layout.take_names(node.reading->snapshot);
  }
  std::string text = simulated_hosts(nodes, style);
  text += style.paint(cut(fit("host", host) + " " + layout.head(), style), Tone::dim) + "\n";
  for (const cluster::Node& node : nodes) {
    const std::string head = fit(printable(node.name), host) + " ";
    if (node.problem) {
      text += head + style.paint("-", Tone::bad) + "\n" +
              remark(printable(node.problem->message), printable(node.problem->hint), style, Tone::bad);
      continue;
    }
    if (node.reading == nullptr || node.reading->snapshot.gpus.empty()) text += head + "no GPU\n";
    if (node.reading == nullptr) continue;
    for (const GpuRecord& record : node.reading->snapshot.gpus) text += head + host_row(node, record, layout, style);
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
