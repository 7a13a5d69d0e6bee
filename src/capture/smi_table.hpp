// SPDX-License-Identifier: Apache-2.0
// The table that plain `nvidia-smi` prints, cell by cell: 79 columns wide before driver 530, 91 since; with MIG
// devices, with WSL's and Windows' columns; whole, indented, cut, or with lines missing.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

/// One GPU's two or three lines; cells as printed, trimmed. Empty optionals: the line was missing.
struct TableGpu {
  std::uint32_t index = 0;  ///< the number printed in its row
  std::string name;         ///< may end in "..."
  std::string persistence;  ///< "On", "Off"; on Windows the driver model: "WDDM", "TCC"
  std::string bus;
  std::string display;
  std::string ecc;
  bool failed = false;  ///< the whole second line reads ERR!
  std::optional<std::string> fan;
  std::optional<std::string> temperature;
  std::optional<std::string> performance;
  std::optional<std::string> power;  ///< "55W / 300W", single spaces
  std::optional<std::string> left;   ///< the whole first cell of the second line
  std::optional<std::string> memory;
  std::optional<std::string> busy;  ///< "5%      Default"
  std::optional<std::string> mig;
};

struct TableMig {
  std::uint32_t gpu = 0;
  std::uint32_t gpu_instance = 0;
  std::uint32_t compute_instance = 0;
  std::uint32_t device = 0;
  std::string memory;  ///< "11091MiB / 40448MiB"
  std::optional<std::uint32_t> multiprocessors;
};

struct TableProcess {
  std::uint32_t gpu = 0;
  std::string gpu_instance;  ///< "N/A" outside MIG; empty in tables without the column
  std::string compute_instance;
  std::int32_t pid = 0;
  std::string type;
  std::string name;
  std::string memory;
};

struct SmiTable {
  std::string smi_version;
  std::string driver_version;
  std::string cuda_version;
  std::optional<std::string> timestamp;
  std::vector<TableGpu> gpus;
  std::vector<TableMig> mig_devices;
  std::vector<TableProcess> processes;
  std::optional<std::string> processes_text;  ///< "No running processes found"
  bool has_process_section = false;
  bool of_windows = false;  ///< a column says "TCC/WDDM" or "Driver-Model" where Linux' says "Persistence-M"
  std::vector<std::uint32_t> without_processes;  ///< GPUs whose row there says "Not Supported"
};

/// Whether this line is the table's first with text: "| NVIDIA-SMI 535.104.12 ...".
bool is_table_header(std::string_view line);

/// Reads a table from its header line on; `end` is set to the number of lines that belong to it.
SmiTable read_smi_table(std::span<const Line> lines, std::size_t& end);

/// "55W / 300W" and "815MiB / 8192MiB": both sides.
std::pair<std::string, std::string> sides_of(std::string_view cell);

facts::Snapshot snapshot_of_table(const SmiTable& table);

}  // namespace gpuwarden::capture
