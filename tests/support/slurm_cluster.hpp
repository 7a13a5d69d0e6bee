// SPDX-License-Identifier: Apache-2.0
// A real Slurm (Debian's) with nodes that exist by name only and GPUs that are symbolic links: munged, slurmctld and a
// slurmd for each node, as whoever runs the test, on free ports, in a folder of their own. They speak through
// 127.0.0.1, whatever the host's name resolves to, if it does; they listen at every address, and take what is signed
// with the folder's own key.
#pragma once

#include <memory>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "support/daemon.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {

/// What each node says that it has. Nothing of it is really there; jobs are not held to it.
struct SlurmNodes {
  unsigned count = 2;  ///< node0, node1 ...
  unsigned gpus = 8;   ///< of each
  unsigned cpus = 128;
  unsigned memory_mib = 2'000'000;
  std::string gpu = "h100";  ///< the type of the gres
  /// A shell script whose output "export NAME=value" each task's environment gets (TaskProlog); empty: none.
  std::string task_prolog = {};
  std::string partition = "MaxTime=INFINITE";  ///< options of the only one, "gpu"
};

struct SlurmJob {
  std::string state;  ///< COMPLETED, FAILED, CANCELLED ...; empty where it was not over in time
  int exit_code = -1;
};

class SlurmCluster {
 public:
  static bool is_installed();
  /// Starts it and waits until every node takes jobs. Fails with unavailable, and what the servers had to say.
  static Result<std::unique_ptr<SlurmCluster>> start(const SlurmNodes& nodes = {});
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;
  /// Ends its jobs and then its servers; nothing of them is left.
  ~SlurmCluster() { stop(); }
  /// The same; how many processes had to be killed, of jobs or adopted, because they did not end with these. Jobs, and
  /// then what they started, have `patience` to end by themselves.
  std::size_t stop(std::chrono::seconds patience = kSoon);

  /// What a client needs to find it (SLURM_CONF); the rest is the caller's.
  const Environment& environment() const { return environment_; }
  /// Variables that jobs shall have besides.
  void set(const std::string& name, const std::string& value) { environment_[name] = value; }
  /// Runs sbatch, scontrol, squeue ... in `folder()`, where jobs leave their logs.
  Completed run(std::vector<std::string> argv) const;
  const std::filesystem::path& folder() const { return work_; }
  std::vector<pid_t> servers() const;

  /// Submits a batch script; its id. Fails with sbatch's words.
  Result<std::string> submit(const std::filesystem::path& script, std::vector<std::string> options = {}) const;
  /// Waits until the job is over; patiently, for a slow machine.
  SlurmJob wait(const std::string& id, std::chrono::seconds time = std::chrono::seconds(240)) const;
  /// Whether a job in this state has ended for good; an empty state (scontrol did not answer) is none.
  static bool is_over(std::string_view state);

 private:
  explicit SlurmCluster(const SlurmNodes& nodes);
  Result<void> start_servers();
  void configure(const std::vector<std::uint16_t>& ports) const;
  Result<void> failed(const std::string& what) const;
  void add(const std::string& program, std::vector<std::string> options, const std::string& log);

  SlurmNodes nodes_;
  TempDir dir_;
  std::filesystem::path work_;
  Environment environment_;
  std::vector<std::unique_ptr<Daemon>> servers_;
};

}  // namespace gpuwarden::testing
