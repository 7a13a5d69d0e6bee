// SPDX-License-Identifier: Apache-2.0
#include "capture/smi_csv.hpp"

#include <algorithm>
#include <array>

#include "capture/cells.hpp"
#include "capture/identity.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::capture {
namespace {

using facts::GpuRecord;

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (const std::string_view cell : split(line, ',')) cells.emplace_back(trim(cell));
  return cells;
}

/// "utilization.gpu [%]" asks for utilization.gpu; older and newer names of one field become one.
std::string field_of(std::string_view column) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOther{
      {{"gpu_name", "name"},
       {"gpu_uuid", "uuid"},
       {"gpu_serial", "serial"},
       {"gpu_bus_id", "pci.bus_id"},
       {"gpu_pci_bus_id", "pci.bus_id"},
       {"clocks.current.graphics", "clocks.gr"},
       {"clocks.current.sm", "clocks.sm"},
       {"clocks.current.memory", "clocks.mem"},
       {"clocks.current.video", "clocks.video"},
       {"pcie.link.gen.gpucurrent", "pcie.link.gen.current"},
       {"used_memory", "used_gpu_memory"},
       {"kmd_version", "driver_version"}}};
  std::string name(trim(column.substr(0, column.find('['))));
  for (const auto& [other, usual] : kOther) {
    if (name == other) return std::string(usual);
  }
  return name;
}

constexpr auto kOwnFields = std::to_array<std::string_view>({"driver_version",
                                                             "pci.bus_id",
                                                             "vbios_version",
                                                             "memory.total",
                                                             "memory.used",
                                                             "memory.free",
                                                             "utilization.gpu",
                                                             "utilization.memory",
                                                             "temperature.gpu",
                                                             "power.draw",
                                                             "pstate",
                                                             "clocks.sm",
                                                             "clocks.gr",
                                                             "clocks.mem",
                                                             "compute_cap",
                                                             "fan.speed",
                                                             "used_gpu_memory",
                                                             "compute_mode",
                                                             "mig.mode.current",
                                                             "power.limit",
                                                             "enforced.power.limit",
                                                             "ecc.errors.uncorrected.volatile.total",
                                                             "ecc.mode.current",
                                                             "persistence_mode",
                                                             "display_active",
                                                             "pcie.link.gen.current",
                                                             "pcie.link.width.current"});
constexpr auto kCommonFields =
    std::to_array<std::string_view>({"index", "name", "uuid", "serial", "timestamp", "count", "pid", "process_name"});

constexpr std::size_t kMostPlaces = 1024;

template <class List>
bool holds(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

/// One field of --query-gpu and where it goes.
struct Field {
  std::string_view name;
  void (*read)(std::string_view cell, GpuRecord& record);
};

template <auto Member, std::int64_t Scale>
void read_sample_number(std::string_view cell, GpuRecord& record, std::string_view unit) {
  put(record.sample.*Member, number_of(cell, {unit, std::string_view()}), static_cast<double>(Scale));
}
template <auto Member>
void sample_percent(std::string_view cell, GpuRecord& record) {
  read_sample_number<Member, 1>(cell, record, "%");
}
template <auto Member>
void sample_clock(std::string_view cell, GpuRecord& record) {
  read_sample_number<Member, 1>(cell, record, "MHz");
}
template <auto Member>
void sample_watts(std::string_view cell, GpuRecord& record) {
  read_sample_number<Member, 1000>(cell, record, "W");
}
template <auto Member>
void sample_count(std::string_view cell, GpuRecord& record) {
  read_sample_number<Member, 1>(cell, record, "");
}
template <auto Member>
void sample_memory(std::string_view cell, GpuRecord& record) {
  record.sample.*Member = memory_of(cell);
}
template <auto Member>
void gpu_text(std::string_view cell, GpuRecord& record) {
  record.gpu.*Member = text_of(cell);
}
template <auto Member>
void gpu_flag(std::string_view cell, GpuRecord& record) {
  record.gpu.*Member = flag_of(cell);
}
template <auto Member, std::int64_t Scale>
void gpu_number(std::string_view cell, GpuRecord& record) {
  put(record.gpu.*Member, number_of(cell, {"W", "MHz", "C", ""}), static_cast<double>(Scale));
}

void read_capability(std::string_view cell, GpuRecord& record) {
  if (const auto capability = facts::compute_capability_from(cell)) record.gpu.compute_capability = capability;
}

void read_state(std::string_view cell, GpuRecord& record) {
  if (cell.starts_with('P')) put(record.sample.performance_state, number_of(cell.substr(1), ""));
}

using S = facts::GpuSample;
using G = facts::Gpu;

constexpr auto kFields = std::to_array<Field>({
    {"serial", gpu_text<&G::serial>},
    {"vbios_version", gpu_text<&G::vbios_version>},
    {"board_id", gpu_text<&G::board_id>},
    {"inforom.img", gpu_text<&G::inforom_image_version>},
    {"inforom.oem", gpu_text<&G::inforom_oem_version>},
    {"inforom.ecc", gpu_text<&G::inforom_ecc_version>},
    {"inforom.pwr", gpu_text<&G::inforom_power_version>},
    {"gsp.mode.firmware_version", gpu_text<&G::gsp_firmware_version>},
    {"addressing_mode", gpu_text<&G::addressing_mode>},
    {"persistence_mode", gpu_flag<&G::persistence>},
    {"accounting.mode", gpu_flag<&G::accounting>},
    {"display_active", gpu_flag<&G::display_active>},
    {"ecc.mode.current", gpu_flag<&G::ecc_enabled>},
    {"mig.mode.current", gpu_flag<&G::mig_enabled>},
    {"mig.mode.pending", gpu_flag<&G::mig_pending>},
    {"compute_mode", [](std::string_view cell, GpuRecord& record) { record.gpu.compute_mode = compute_mode_of(cell); }},
    {"compute_cap", read_capability},
    {"power.min_limit", gpu_number<&G::power_limit_min, 1000>},
    {"power.max_limit", gpu_number<&G::power_limit_max, 1000>},
    {"power.default_limit", gpu_number<&G::power_limit_default, 1000>},
    {"clocks.max.graphics", gpu_number<&G::clock_graphics_max, 1>},
    {"clocks.max.gr", gpu_number<&G::clock_graphics_max, 1>},
    {"clocks.max.sm", gpu_number<&G::clock_sm_max, 1>},
    {"clocks.max.memory", gpu_number<&G::clock_memory_max, 1>},
    {"clocks.max.mem", gpu_number<&G::clock_memory_max, 1>},
    {"pcie.link.gen.max", gpu_number<&G::pcie_generation_max, 1>},
    {"pcie.link.width.max", gpu_number<&G::pcie_width_max, 1>},
    {"utilization.gpu", sample_percent<&S::utilization_gpu>},
    {"utilization.memory", sample_percent<&S::utilization_memory>},
    {"utilization.encoder", sample_percent<&S::utilization_encoder>},
    {"utilization.decoder", sample_percent<&S::utilization_decoder>},
    {"utilization.jpeg", sample_percent<&S::utilization_jpeg>},
    {"utilization.ofa", sample_percent<&S::utilization_ofa>},
    {"memory.total", sample_memory<&S::memory_total>},
    {"memory.used", sample_memory<&S::memory_used>},
    {"memory.free", sample_memory<&S::memory_free>},
    {"memory.reserved", sample_memory<&S::memory_reserved>},
    {"temperature.gpu", sample_count<&S::temperature>},
    {"temperature.memory", sample_count<&S::temperature_memory>},
    {"temperature.gpu.tlimit", sample_count<&S::temperature_margin>},
    {"power.draw", sample_watts<&S::power>},
    {"power.draw.average", sample_watts<&S::power_average>},
    {"power.draw.instant", sample_watts<&S::power_instant>},
    {"power.limit", sample_watts<&S::power_limit_requested>},
    {"enforced.power.limit", sample_watts<&S::power_limit>},
    {"clocks.gr", sample_clock<&S::clock_graphics>},
    {"clocks.sm", sample_clock<&S::clock_sm>},
    {"clocks.mem", sample_clock<&S::clock_memory>},
    {"clocks.video", sample_clock<&S::clock_video>},
    {"pstate", read_state},
    {"fan.speed", sample_percent<&S::fan_speed>},
    {"pcie.link.gen.current", sample_count<&S::pcie_generation>},
    {"pcie.link.width.current", sample_count<&S::pcie_width>},
    {"encoder.stats.sessionCount", sample_count<&S::encoder_sessions>},
    {"ecc.errors.corrected.volatile.total", sample_count<&S::ecc_corrected_volatile>},
    {"ecc.errors.uncorrected.volatile.total", sample_count<&S::ecc_uncorrected_volatile>},
    {"ecc.errors.corrected.aggregate.total", sample_count<&S::ecc_corrected_aggregate>},
    {"ecc.errors.uncorrected.aggregate.total", sample_count<&S::ecc_uncorrected_aggregate>},
    {"retired_pages.single_bit_ecc.count", sample_count<&S::retired_pages_single_bit>},
    {"retired_pages.double_bit.count", sample_count<&S::retired_pages_double_bit>},
});

/// The GPU that a row is about, made where it is new: by UUID, else bus id, else index; else the row's own place.
GpuRecord& record_of(const SmiCsv& csv, std::size_t row, std::size_t place, facts::Snapshot& snapshot) {
  const std::string uuid = text_of(csv.cell(row, "uuid")).value_or("");
  const std::string bus = bus_id_of(csv.cell(row, "pci.bus_id")).value_or("");
  auto index = number_of(csv.cell(row, "index"), "");
  if (index && !(*index >= 0 && *index < 100000)) index.reset();
  // Rows that name no GPU are told apart by their place.
  if (!index && bus.empty() && uuid.empty()) index = static_cast<double>(std::min(place, kMostPlaces));
  // Collectors mask UUIDs with zeros: then the bus id tells GPUs apart.
  const auto same = [&](const GpuRecord& record) {
    if (index) return record.gpu.index.value == static_cast<std::uint32_t>(*index);
    if (!bus.empty()) return record.gpu.pci_bus_id == bus;
    return record.gpu.uuid.value == uuid;
  };
  const auto known = std::ranges::find_if(snapshot.gpus, same);
  if (known != snapshot.gpus.end()) return *known;
  GpuRecord& record = snapshot.gpus.emplace_back();
  record.gpu.index =
      GpuIndex{index ? static_cast<std::uint32_t>(*index) : static_cast<std::uint32_t>(snapshot.gpus.size() - 1)};
  record.gpu.uuid = Uuid(uuid);
  record.gpu.pci_bus_id = bus;
  record.gpu.name = text_of(csv.cell(row, "name")).value_or("unknown GPU");
  return record;
}

void read_gpu_row(const SmiCsv& csv, std::size_t row, std::size_t place, facts::Snapshot& snapshot) {
  GpuRecord& record = record_of(csv, row, place, snapshot);
  note_trouble(csv.rows[row], record);
  record.sample = {};
  record.mig_listed = false;
  for (const Field& field : kFields) {
    if (csv.column(field.name)) field.read(csv.cell(row, field.name), record);
  }
  if (!record.sample.power_limit) record.sample.power_limit = record.sample.power_limit_requested;
  complete_from_model(record.gpu);
  facts::drop_impossible(record.sample);
}

void read_process_row(const SmiCsv& csv, std::size_t row, facts::Snapshot& snapshot) {
  GpuRecord& record = record_of(csv, row, 0, snapshot);
  complete_from_model(record.gpu);
  const auto pid = parse_integer(csv.cell(row, "pid"));
  if (!pid || *pid < 0 || *pid > INT32_MAX) return;
  facts::GpuProcess process;
  process.pid = Pid{static_cast<std::int32_t>(*pid)};
  process.compute = true;
  process.command = text_of(csv.cell(row, "process_name"));
  process.memory = memory_of(csv.cell(row, "used_gpu_memory"));
  if (!record.processes) record.processes.emplace();
  record.processes->push_back(std::move(process));
  record.state = facts::GpuState::busy;
}

bool is_gpu_name(std::string_view cell) {
  return cell.starts_with("NVIDIA ") || cell.starts_with("Tesla ") || cell.starts_with("GeForce ") ||
         cell.starts_with("Quadro ");
}

/// Without a header only cells that can be but one thing get a name.
std::vector<std::string> guessed_columns(std::string_view line) {
  std::vector<std::string> columns;
  for (const std::string& cell : cells_of(line)) {
    if (is_gpu_name(cell)) {
      columns.emplace_back("name");
    } else if (cell.starts_with("GPU-")) {
      columns.emplace_back("uuid");
    } else if (bus_id_of(cell)) {
      columns.emplace_back("pci.bus_id");
    } else {
      columns.emplace_back(columns.empty() && parse_integer(cell) ? "index" : "");
    }
  }
  return columns;
}

}  // namespace

std::optional<std::size_t> SmiCsv::column(std::string_view field) const {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] == field || columns[i] == field) return i;
  }
  return std::nullopt;
}

std::string_view SmiCsv::cell(std::size_t row, std::string_view field) const {
  const auto at = column(field);
  return at && *at < rows[row].size() ? std::string_view(rows[row][*at]) : std::string_view();
}

bool is_csv_header(std::string_view line) {
  std::size_t own = 0;
  std::size_t common = 0;
  if (!line.empty() && line.find_first_of("|<>(){}\"'`=") != std::string_view::npos) return false;
  const auto cells = cells_of(line);
  for (const std::string& cell : cells) {
    if (trim(std::string_view(cell).substr(0, cell.find('['))).contains(' ')) return false;
    const std::string field = field_of(cell);
    own += holds(kOwnFields, field) ? 1 : 0;
    common += holds(kCommonFields, field) ? 1 : 0;
  }
  return own >= 1 || (common >= 2 && common == cells.size());
}

bool is_headless_row(std::string_view line) {
  const auto cells = cells_of(line);
  if (cells.size() < 2) return false;
  const bool named = std::ranges::any_of(cells, [](std::string_view cell) {
    return is_gpu_name(cell) || cell.starts_with("GPU-") || bus_id_of(cell).has_value();
  });
  // A sentence that names GPUs begins with something else than a field's value.
  const bool begins = is_gpu_name(cells[0]) || cells[0].starts_with("GPU-") || bus_id_of(cells[0]) ||
                      parse_integer(cells[0]) || time_of(cells[0]).has_value();
  if (named) return begins;
  // An index and readings; a process's row has a program's name.
  const auto index = parse_integer(cells[0]);
  const bool readings = std::ranges::all_of(cells, [](std::string_view cell) {
    return !cell.empty() && (cell[0] == '[' || cell == "N/A" || (cell[0] >= '0' && cell[0] <= '9'));
  });
  const bool sized = std::ranges::any_of(cells, [](std::string_view cell) { return cell.ends_with(" MiB"); });
  return index && *index >= 0 && *index < 64 && readings && sized;
}

SmiCsv read_smi_csv(std::span<const Line> lines, std::size_t& end) {
  SmiCsv csv;
  csv.has_header = is_csv_header(lines.front().text);
  if (csv.has_header) csv.columns = cells_of(lines.front().text);
  if (!csv.has_header) csv.columns = guessed_columns(lines.front().text);
  for (const std::string& column : csv.columns) csv.fields.push_back(field_of(column));
  csv.is_processes = csv.column("pid").has_value();
  end = csv.has_header ? 1 : 0;
  for (std::size_t i = end; i < lines.size(); ++i) {
    auto cells = cells_of(lines[i].text);
    const std::size_t wanted = csv.has_header     ? csv.columns.size()
                               : csv.rows.empty() ? cells.size()
                                                  : csv.rows[0].size();
    if (lines[i].text.empty() || cells.size() > wanted || (cells.size() < wanted && lines[i].ended)) break;
    if (csv.has_header && is_csv_header(lines[i].text)) break;
    // The last cell of a line that did not end may be half a value.
    if (!lines[i].ended) cells.back().clear();
    cells.resize(wanted);
    csv.rows.push_back(std::move(cells));
    end = i + 1;
  }
  return csv;
}

facts::Snapshot snapshot_of_csv(const SmiCsv& csv) {
  facts::Snapshot snapshot;
  snapshot.source = "nvidia-smi";
  std::size_t place = 0;
  for (std::size_t row = 0; row < csv.rows.size(); ++row) {
    // A new time begins a new round of all GPUs.
    const bool new_round = row > 0 && csv.cell(row, "timestamp") != csv.cell(row - 1, "timestamp");
    place = row == 0 || new_round ? 0 : place + 1;
    csv.is_processes ? read_process_row(csv, row, snapshot) : read_gpu_row(csv, row, place, snapshot);
    if (const auto driver = text_of(csv.cell(row, "driver_version"))) snapshot.driver_version = driver;
    if (const auto cuda = text_of(csv.cell(row, "cuda_version"))) snapshot.cuda_driver_version = cuda;
    if (const auto when = time_of(csv.cell(row, "timestamp"))) snapshot.taken_at = *when;
  }
  return snapshot;
}

}  // namespace gpuwarden::capture
