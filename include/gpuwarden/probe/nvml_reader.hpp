// SPDX-License-Identifier: Apache-2.0
// Reads the GPUs of this machine. NVML runs in a child process that can be killed, so that a call that hangs, nvmlInit
// included, never hangs the caller.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// Who is asked for NVIDIA's GPUs.
enum class ProbeChoice {
  automatic,   ///< NVML; nvidia-smi where NVML's library is missing or does not work
  nvml,        ///< NVML only
  nvidia_smi,  ///< nvidia-smi only
};
/// "auto", "nvml" and "nvidia-smi".
std::optional<ProbeChoice> probe_choice_from(std::string_view name);

/// Who fell silent in earlier readings; see ReaderOptions::troubles.
class Troubles;
std::shared_ptr<Troubles> no_troubles();

/// Where to look and how long to wait. The defaults are this machine's own.
struct ReaderOptions {
  /// Library to open: a name for the loader's search, or a path.
  std::filesystem::path nvml_library = "libnvidia-ml.so.1";
  std::filesystem::path sys_root = "/sys";
  /// Root with driver/nvidia/version.
  std::filesystem::path driver_proc_root = "/proc";
  /// Where pids are looked up, first match wins; a simulated fleet's stand-in comes before the real one.
  std::vector<std::filesystem::path> proc_roots = {"/proc"};
  /// Reads sleeping GPUs too, which wakes them.
  bool wake = false;
  /// How long the driver, and then each GPU, may take to answer.
  std::chrono::milliseconds timeout = std::chrono::seconds(5);
  /// Set in the process that opens the library, before it does: how a simulator's library finds its fleet.
  gpuwarden::Environment variables;
  Clock* clock = &system_clock();
  /// Copies of these options share it: what fell silent for one reader of a program is not waited for by the others. It
  /// is asked again after 30 s, and then ever more seldom.
  std::shared_ptr<Troubles> troubles = no_troubles();
  bool simulated = false;
  std::string fleet;
  /// For MachineReader: who is asked, and the program for that: a name for PATH, or a path.
  ProbeChoice probe = ProbeChoice::automatic;
  std::filesystem::path nvidia_smi = "nvidia-smi";
  /// Lists of PCI names (pci.ids), first match wins: how GPUs of other makers get their names.
  std::vector<std::filesystem::path> pci_ids = {"/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids"};
};

/// How much of each GPU is read. Every level includes the ones before it.
enum class Detail {
  basic,  ///< what choosing and listing need
  full,   ///< every metric of the table that NVML gives at once
  slow,   ///< PCIe throughput (20 ms each on real boards), NVLink counters and profiling (100 ms) too
};

/// What to read besides inventory and metrics.
struct ReadRequest {
  Detail detail = Detail::basic;
  bool processes = true;
  bool links = false;
  /// Ask the CUDA driver for its order where it is needed to tell ordinals apart (mixed models).
  bool cuda_order = false;
  /// For MachineReader: find the processes that have a GPU open though NVML does not list them. Goes through /proc.
  bool holders = false;
  /// One of a series of readings by one reader, so far apart. What cannot change is read once, what changes slowly (see
  /// docs/internals/probe.md) every ten seconds and carried on in between. A GPU that does not answer within this time
  /// is `not_answering` until it does, and nobody waits for it any more. Empty: everything is read, and waited for.
  std::optional<std::chrono::milliseconds> every;
  /// Of each GPU its memory alone, and who it is: a call to NVML for each. All other figures are unknown then, and so
  /// is who uses it.
  bool memory_alone = false;
  /// In a series: read now what changes slowly, too (something has happened).
  bool refresh = false;
  /// Ends the reading at once, whatever the driver does; what it tells then is incomplete.
  std::stop_token stop;
};

/// A connection to NVML that lives in a child process; the child ends with this object, or with this process.
/// Not thread-safe: one caller at a time.
class NvmlReader {
 public:
  explicit NvmlReader(ReaderOptions options);
  NvmlReader(NvmlReader&&) noexcept;
  NvmlReader& operator=(NvmlReader&&) noexcept;
  ~NvmlReader();

  /// Reads everything anew. Never fails as a whole: what is wrong with the driver is in Snapshot::problem (code,
  /// sentence, what to do), what is wrong with one GPU in its record, what could not be read besides in Snapshot::gaps.
  /// Takes at most about three timeouts, and no more than one where a single GPU hangs.
  facts::Snapshot read(const ReadRequest& request = {});
  /// Whether the last reading found no NVML library that works (missing, none of NVML's, crashing, raving).
  bool library_failed() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// One reading with a reader of its own.
facts::Snapshot read_snapshot(const ReaderOptions& options, const ReadRequest& request = {});

}  // namespace gpuwarden::probe
