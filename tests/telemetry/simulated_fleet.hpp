// SPDX-License-Identifier: Apache-2.0
// A simulated fleet that a test reads through NVML's library, and may break at run time.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "gpuwarden/probe/nvml_reader.hpp"
#include "support/sim_control.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {

class SimulatedFleet {
 public:
  explicit SimulatedFleet(const std::string& yaml)
      : library_(std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / "550/libnvidia-ml.so.1"), sim_(open(yaml)) {}

  probe::ReaderOptions reader() const {
    probe::ReaderOptions options;
    options.nvml_library = library_;
    options.variables = {{"GPUWARDEN_SIM_FLEET", sim_->folder()}};
    options.sys_root = dir_ / "sys";
    options.driver_proc_root = sim_->proc_root();
    options.proc_roots = {sim_->proc_root(), "/proc"};
    options.simulated = true;
    options.timeout = std::chrono::seconds(20);
    return options;
  }
  const SimControl& sim() const { return *sim_; }
  std::filesystem::path file(const std::string& name) const { return dir_ / name; }

 private:
  std::unique_ptr<SimControl> open(const std::string& yaml) {
    ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1);
    put(dir_ / "fleet.yaml", yaml);
    return std::make_unique<SimControl>(library_, (dir_ / "fleet.yaml").string());
  }

  TempDir dir_;
  std::filesystem::path library_;
  std::unique_ptr<SimControl> sim_;
};

}  // namespace gpuwarden::testing
