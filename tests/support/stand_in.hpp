// SPDX-License-Identifier: Apache-2.0
// A machine made of files: /sys and /proc trees, and programs that say what they are told to.
#pragma once

#include <string>
#include <vector>

#include "support/temp_dir.hpp"

namespace gpuwarden::testing {

/// What `nvidia-smi -q -x` prints of one H100 at 0000:17:00.0, minor number 0, on which process 4194001 computes.
inline constexpr std::string_view kSmiLog = R"(<?xml version="1.0" ?>
<nvidia_smi_log>
  <driver_version>550.54.15</driver_version><cuda_version>12.4</cuda_version><attached_gpus>1</attached_gpus>
  <gpu id="00000000:17:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name><uuid>GPU-17</uuid><minor_number>0</minor_number>
    <fb_memory_usage><total>81559 MiB</total><reserved>551 MiB</reserved><used>1024 MiB</used><free>79984 MiB</free></fb_memory_usage>
    <utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
    <processes><process_info><pid>4194001</pid><type>C</type><process_name>python</process_name><used_memory>1000 MiB</used_memory></process_info></processes>
  </gpu>
</nvidia_smi_log>)";

class StandIn {
 public:
  const TempDir& dir() const { return dir_; }
  std::filesystem::path sys() const { return dir_ / "sys"; }
  std::filesystem::path proc() const { return dir_ / "proc"; }

  /// A PCI device; `driver` empty: bound to none. Gives its folder.
  std::filesystem::path pci(const std::string& address, const std::string& vendor, const std::string& device,
                            const std::string& pci_class, const std::string& driver) const {
    const auto folder = sys() / "bus/pci/devices" / address;
    put(folder / "vendor", "0x" + vendor + "\n");
    put(folder / "device", "0x" + device + "\n");
    put(folder / "class", "0x" + pci_class + "\n");
    put(folder / "numa_node", "0\n");
    put(folder / "local_cpulist", "0-7\n");
    if (!driver.empty()) std::filesystem::create_symlink("../../../../bus/pci/drivers/" + driver, folder / "driver");
    return folder;
  }
  std::filesystem::path h100(const std::string& driver = "nvidia") const {
    return pci("0000:17:00.0", "10de", "2330", "030200", driver);
  }
  std::filesystem::path amd(const std::string& driver = "amdgpu") const {
    const auto folder = pci("0000:83:00.0", "1002", "740f", "038000", driver);
    put(folder / "mem_info_vram_total", "68702699520\n");
    put(folder / "mem_info_vram_used", "10960896\n");
    put(folder / "gpu_busy_percent", "42\n");
    put(folder / "mem_busy_percent", "7\n");
    put(folder / "unique_id", "1f1a2b3c4d5e6f70\n");
    put(folder / "product_name", "Instinct MI210\n");
    put(folder / "current_link_speed", "16.0 GT/s PCIe\n");
    put(folder / "current_link_width", "16\n");
    put(folder / "hwmon/hwmon4/temp1_input", "51000\n");
    put(folder / "hwmon/hwmon4/power1_average", "41000000\n");
    put(folder / "hwmon/hwmon4/power1_cap", "300000000\n");
    put(folder / "hwmon/hwmon4/freq1_input", "800000000\n");
    return folder;
  }
  /// A process in /proc with open files.
  void process(int pid, const std::string& command, const std::vector<std::string>& open,
               const std::string& cgroup = "0::/\n") const {
    const auto folder = proc() / std::to_string(pid);
    put(folder / "status", "Name:\t" + command.substr(0, command.find(' ')) + "\nPPid:\t1\nUid:\t0\t0\t0\t0\n");
    std::string arguments = command + " ";
    for (char& c : arguments) c = c == ' ' ? '\0' : c;
    put(folder / "cmdline", arguments);
    put(folder / "cgroup", cgroup);
    std::filesystem::create_directories(folder / "fd");
    int number = 3;
    for (const auto& target : open) std::filesystem::create_symlink(target, folder / "fd" / std::to_string(number++));
  }
  /// A program that prints `output` and leaves with `code` after `seconds`.
  std::filesystem::path program(std::string_view output, int code = 0, int seconds = 0) const {
    const auto file = dir_ / "bin/nvidia-smi";
    put(dir_ / "bin/output", output);
    put(file, "#!/bin/sh\nsleep " + std::to_string(seconds) + "\ncat '" + (dir_ / "bin/output").string() + "'\nexit " +
                  std::to_string(code) + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }

 private:
  TempDir dir_;
};

}  // namespace gpuwarden::testing
