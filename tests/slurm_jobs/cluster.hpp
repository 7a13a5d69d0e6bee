// SPDX-License-Identifier: Apache-2.0
// A real Slurm each of whose nodes has simulated GPUs and leases of its own.
#pragma once

#include <fmt/format.h>
#include <signal.h>

#include <fstream>

#include "emit/emitted.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/slurm_cluster.hpp"

namespace gpuwarden::testing {

class SlurmJobs : public Emitted {
 protected:
  static bool is_there() { return SlurmCluster::is_installed(); }

  /// node0 ... have h100x8, or what is put into their fleet's file before.
  void start(SlurmNodes nodes = {.count = 4}) {
    nodes.task_prolog = fmt::format(
        "#!/bin/sh\nhere='{}'/$SLURMD_NODENAME\nmkdir -p \"$here\"\n"
        "for name in LEASE SIM STATE; do echo \"export GPUWARDEN_${{name}}_DIR=$here/$name\"; done\n"
        "[ -e \"$here/fleet.yaml\" ] && fleet=$here/fleet.yaml || fleet=h100x8\n"
        "echo \"export GPUWARDEN_SIMULATE=$fleet\"\n",
        dir_.path().string());
    auto started = SlurmCluster::start(nodes);
    ASSERT_TRUE(started) << started.error().message << started.error().hint;
    cluster_ = std::move(*started);
    environment_["SLURM_CONF"] = cluster_->environment().at("SLURM_CONF");
  }

  std::string logs() const { return (dir_ / "logs").string(); }
  /// `gpuwarden run --slurm WORDS`.
  Completed slurm_run(std::vector<std::string> words) const {
    words.insert(words.begin(), {"run", "--slurm", "--cpus-per-task", "1", "--mem", "100M", "--log-dir", logs()});
    return run(std::move(words));
  }
  /// An idle node's state, and why it is out of use.
  std::string node_state(const std::string& name) const {
    return cluster_->run({"sinfo", "-h", "-n", name, "-o", "%T %E"}).standard_output;
  }
  std::string content(const std::filesystem::path& path) const { return read_file(path).value_or(""); }

  std::unique_ptr<SlurmCluster> cluster_;
};

}  // namespace gpuwarden::testing
