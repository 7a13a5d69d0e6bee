// SPDX-License-Identifier: Apache-2.0
// What a cluster has, and what a request becomes on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/slurm/programs.hpp"
#include "gpuwarden/slurm/records.hpp"
#include "gpuwarden/slurm/script.hpp"

namespace gpuwarden::slurm {

struct Site {
  std::string cluster;
  std::string version;
  GpuOption gpu_option = GpuOption::gres;
  /// Between asking a job's processes to end and killing them all.
  std::optional<std::chrono::seconds> kill_wait;
  bool constrains_devices = false;  ///< a job sees the GPUs that it was given, and no others
  std::vector<Partition> partitions;
  std::vector<Node> nodes;
  bool is_seen = true;  ///< false: nobody was asked, and nothing of it is known
};

/// Asks scontrol and sinfo. Fails with unavailable where there is no Slurm, or it does not answer.
Result<Site> read_site(Programs& programs);

/// The same for a script that is written and not submitted: where this machine is of no cluster, a site of which
/// nothing is known.
Result<Site> read_site_if_any(Programs& programs);

/// The jobs that squeue tells of; `user` and `partition` empty: everybody's, of all partitions. Fails as read_site().
Result<std::vector<Job>> read_queue(Programs& programs, const std::string& user, const std::string& partition);

/// How many nodes of the job's partition have what it asks of each free now; nothing where it asks for no GPUs.
std::optional<int> nodes_with_room(const Job& job, const Site& site);

/// How many GPUs of a type a cluster has.
struct TypeSummary {
  std::string type;
  int total = 0;
  int free = 0;            ///< on nodes that take jobs
  int most_on_a_node = 0;  ///< that a job could have at once on one node
};
/// Of all nodes of a partition; of all partitions where it is empty.
std::vector<TypeSummary> summarise(const Site& site, const std::string& partition = "");

/// What a user asks for; what is empty the site decides.
struct Request {
  std::string name;
  std::uint32_t nodes = 1;
  std::uint32_t gpus = 1;  ///< of each node
  std::string gpu_type;
  std::optional<std::uint32_t> cpus;  ///< of each node
  std::string memory;
  std::optional<std::chrono::seconds> time;
  std::string partition, account, qos, constraint, reservation, node_list, signal;
  std::vector<std::string> exclude;
};

/// The job that this becomes, and what was decided on the way, as sentences.
struct Placed {
  BatchJob job;
  std::vector<std::string> decisions;
};
/// Chooses the partition (Slurm's own where it fits, else the first that does), the type's spelling, CPUs (the GPUs'
/// share of a node's, else four each), the time limit (the partition's default, else its greatest), and how GPUs are
/// asked for. Pure. Fails with invalid_argument where no partition could ever do it; where its nodes are down now,
/// the job will wait, which is said. For a site that was not seen all stays as it is asked, which is said, too.
Result<Placed> place(const Request& request, const Site& site);

/// {"cluster", "version", "types": [...], "nodes": [...]}.
nlohmann::json to_json(const Site& site, const std::string& partition = "");
nlohmann::json to_json(const Job& job);

}  // namespace gpuwarden::slurm
