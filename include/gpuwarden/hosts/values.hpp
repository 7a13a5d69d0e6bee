// SPDX-License-Identifier: Apache-2.0
// What a launcher and the agents of its hosts tell each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::hosts {

/// What a host is asked to hold GPUs for.
struct Order {
  std::string run_id;                ///< unlike on each host
  std::uint32_t nodes = 1;           ///< how many hosts take part
  std::vector<std::string> options;  ///< of `gpuwarden run`, as its parser takes them
  std::vector<std::string> command;
  Environment environment;    ///< set over the host's own
  std::string folder;         ///< where the command runs; empty: where ssh's login begins
  bool needs_folder = false;  ///< it was asked for by name: that it is missing is an error
  std::vector<Uuid> without;  ///< not these: they were at fault in an earlier try
  bool operator==(const Order&) const = default;
};

/// GPUs that a host holds now.
struct Held {
  std::vector<std::uint32_t> gpus;  ///< indices; none: the CPU
  std::string name;                 ///< their models
  std::uint32_t ranks = 0;
  bool simulated = false;
  bool operator==(const Held&) const = default;
};

/// A port on which rank 0 is to listen, and the addresses at which the host may be reached, the likeliest first.
struct Meeting {
  std::uint16_t port = 0;
  std::vector<std::string> addresses;
  std::string word;  ///< what whoever connects there is told, so that no other program is taken for it
  bool operator==(const Meeting&) const = default;
};

/// What became of trying to reach an address; `problem` empty: it was reached.
struct Reach {
  std::string address;
  std::string problem;
  bool operator==(const Reach&) const = default;
};

/// The place of a host's ranks in the job.
struct Start {
  std::uint32_t node = 0;
  std::uint32_t nodes = 1;
  std::uint32_t first_rank = 0;
  std::uint32_t world_size = 1;
  std::string address = "127.0.0.1";  ///< MASTER_ADDR
  std::uint16_t port = 0;             ///< MASTER_PORT
  std::string job;                    ///< the same on all hosts: TORCHELASTIC_RUN_ID
  std::uint32_t restart_count = 0;
  std::uint32_t max_restarts = 0;
  std::vector<std::string> arguments;                  ///< added to the command
  Environment changes;                                 ///< what was found to help: set over the rest
  std::optional<std::chrono::milliseconds> time_left;  ///< until the ranks' time is over; empty: as long as they like
  bool time_ends_job = true;                           ///< as launch::TimeLimit has these
  int time_signal = 0;
  std::chrono::milliseconds time_signal_before{0};
  bool operator==(const Start&) const = default;
};

/// How the ranks of one host ended.
struct Done {
  int exit_code = 0;
  std::optional<std::uint32_t> first_failure;  ///< RANK
  std::chrono::milliseconds wall_time{0};
  bool interrupted = false;       ///< they were told to end
  std::string restart = "again";  ///< knowledge::Restart, of a failure
  std::string why;                ///< the failure, in a sentence
  std::vector<Uuid> gpus_at_fault;
  Environment remedy;  ///< variables that would have kept the failure from happening
  std::string text;    ///< the report, for people
  std::string report;  ///< the same as JSON; empty where there is none
  bool operator==(const Done&) const = default;
};

}  // namespace gpuwarden::hosts
