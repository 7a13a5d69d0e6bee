// SPDX-License-Identifier: Apache-2.0
// Machines of a test's own: the simulator's fleets in a folder that goes with the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "gpuwarden/machine/machine.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {

class Machines : public ::testing::Test {
 protected:
  Machines() { ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1); }

  machine::Options options() const {
    machine::Options options;
    options.timeout = std::chrono::seconds(60);  // a busy machine's
    options.simulator = {GPUWARDEN_SIM_LIB_DIR, dir_ / "sim"};
    options.lease_directory = dir_ / "leases";
    return options;
  }
  /// A machine whose driver is missing, and whose devices are those of a folder.
  machine::Options without_driver() const {
    machine::Options options = this->options();
    options.probe = probe::ProbeChoice::nvml;
    options.stand_ins.nvml_library = dir_ / "libnvidia-ml.so.1";
    options.stand_ins.sys_root = dir_ / "sys";
    options.stand_ins.proc_root = dir_ / "proc";
    return options;
  }
  std::string file(const std::string& name, std::string_view content) const {
    put(dir_ / name, content);
    return (dir_ / name).string();
  }

  TempDir dir_;
};

}  // namespace gpuwarden::testing
