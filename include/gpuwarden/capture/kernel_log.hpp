// SPDX-License-Identifier: Apache-2.0
// Faults of GPUs and NVSwitches in kernel logs: dmesg in any time format, journalctl, syslog, /dev/kmsg, or a line of
// it inside another program's output.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

/// What a kernel log says about the NVIDIA driver.
struct KernelLog {
  std::vector<facts::KernelFault> faults;  ///< Xid and SXid lines, in order
  /// "NVRM: API mismatch": what the client and the kernel module have.
  std::optional<std::string> client_version;
  std::optional<std::string> module_version;
  /// "NVRM: GPU at PCI:0000:9b:00: GPU-..." lines: bus id and UUID; and the serials that follow them.
  struct Board {
    std::string pci_bus_id;
    std::string uuid;
    std::optional<std::string> serial;
  };
  std::vector<Board> boards;
  /// The machine's name where the lines carry it: "Nov 20 10:00:00 node7 kernel: ...", "node7 | ...".
  std::string host;
  std::vector<std::string> nvswitches;  ///< "nvidia-nvswitch0", as they appear in faults
};

/// Whether a line is the NVIDIA driver's, in a kernel log.
bool is_kernel_line(std::string_view line);
KernelLog read_kernel_log(std::string_view text);

}  // namespace gpuwarden::capture
