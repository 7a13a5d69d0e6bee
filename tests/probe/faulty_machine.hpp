// SPDX-License-Identifier: Apache-2.0
// Four GPUs behind the fake NVML, in three worlds: /sys shows them, shows none (WSL, gVisor), or shows more than NVML
// counts (a container).
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "gpuwarden/probe/nvml_reader.hpp"
#include "support/stand_in.hpp"

namespace gpuwarden::testing {

enum class World { all, none, more };
inline std::string name_of(World world) { return world == World::all ? "all" : world == World::none ? "none" : "more"; }

class FaultyMachine {
 public:
  static constexpr std::uint32_t kGpus = 4;

  FaultyMachine(World world, const std::string& faults) : world_(world) {
    const int shown = world == World::all ? 4 : world == World::none ? 0 : 8;
    for (int i = 0; i < shown; ++i)
      files_.pci("0000:1" + std::to_string(i) + ":00.0", "10de", "2330", "030200", "nvidia");
    put(log(), "");
    set("FAKE_NVML", (files_.dir() / "steer").string());
    set("FAKE_NVML_GPUS", std::to_string(kGpus));
    set("FAKE_NVML_PLACES", world == World::more ? "2,1" : "1,0");
    set("FAKE_NVML_FAULTS", faults);
    set("FAKE_NVML_LOG", log().string());
  }
  FaultyMachine(const FaultyMachine&) = delete;
  FaultyMachine& operator=(const FaultyMachine&) = delete;
  ~FaultyMachine() {
    for (const char* name : {"FAKE_NVML", "FAKE_NVML_GPUS", "FAKE_NVML_PLACES", "FAKE_NVML_FAULTS", "FAKE_NVML_LOG"})
      ::unsetenv(name);
  }

  probe::ReaderOptions options() const {
    probe::ReaderOptions options;
    options.nvml_library = GPUWARDEN_FAKE_NVML;
    options.nvidia_smi = files_.dir() / "no/nvidia-smi";
    options.sys_root = files_.sys();
    options.driver_proc_root = files_.proc();
    options.proc_roots = {files_.proc()};
    options.timeout = std::chrono::milliseconds(1500);
    return options;
  }
  /// Where GPU `index` really is.
  std::string bus_id(std::uint32_t index) const {
    const std::uint32_t place = world_ == World::more ? 2 * index + 1 : index;
    return "00000000:1" + std::to_string(place) + ":00.0";
  }
  /// How often a call with a fault was made.
  std::ptrdiff_t calls(const std::string& key) const {
    std::ifstream file(log());
    std::ptrdiff_t count = 0;
    for (std::string line; std::getline(file, line);) count += line == key ? 1 : 0;
    return count;
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

 private:
  std::filesystem::path log() const { return files_.dir() / "calls"; }

  World world_;
  StandIn files_;
};

}  // namespace gpuwarden::testing
