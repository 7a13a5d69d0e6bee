// SPDX-License-Identifier: Apache-2.0
// A frozen fleet with real processes on it, strangers' programs in front of it, and what gpuwarden says of it.
#pragma once

#include <optional>

#include "gpuwarden/base/subprocess.hpp"
#include "sim_nvml/child.hpp"
#include "sim_nvml/client.hpp"

namespace gpuwarden::testing {

struct KnownProcess {
  int pid = 0;
  unsigned long long memory_mib = 0;
};

/// A GPU as gpuwarden tells of it.
struct KnownGpu {
  std::string uuid;
  std::string name;
  int temperature = 0;
  std::optional<int> utilization;
  int power_watts = 0;  ///< whole watts, as strangers show them
  int power_limit_watts = 0;
  unsigned long long memory_total_mib = 0;
  unsigned long long memory_used_mib = 0;   ///< without the reserved part, as its second call has it
  unsigned long long memory_taken_mib = 0;  ///< with the reserved part, as NVML's first memory call has it
  std::vector<KnownProcess> processes;
};

/// The Python under build/ that scripts/test.sh gives the packages of requirements.txt.
std::string python_of_strangers();

class Strangers : public nvml::Simulated {
 protected:
  /// Starts the fleet, puts values of their own on every GPU, and declares processes that really run.
  void SetUp() override;

  /// Skips (or, where GPUWARDEN_REQUIRE_STRANGERS is 1, fails) when a program (a name, or a file's path) is not
  /// installed. True: go on.
  static bool is_installed(const std::string& program);

  /// What `gpuwarden list --json` says; before the command line was built, what the fleet itself says.
  std::vector<KnownGpu> known() const;
  /// The same fleet straight from the simulator.
  std::vector<KnownGpu> known_to_the_fleet() const;

  /// How to start a stranger's program on the fleet: through `gpuwarden sim exec`.
  Command on_the_fleet(const std::vector<std::string>& argv) const;
  /// The same with the library of one driver, whatever driver the fleet has.
  Command with_driver(int profile, const std::vector<std::string>& argv) const;

  /// The readings of each GPU as the fleet has them, by name.
  std::vector<nvml::Json> readings() const;

  const nvml::Nvml& nvml() const { return *nvml_; }
  nvml::Child& worker(std::size_t index) { return *workers_[index]; }

 private:
  Environment environment() const;

  TempDir home_;
  std::string fleet_;
  const nvml::Nvml* nvml_ = nullptr;
  std::vector<std::unique_ptr<nvml::Child>> workers_;
};

}  // namespace gpuwarden::testing
