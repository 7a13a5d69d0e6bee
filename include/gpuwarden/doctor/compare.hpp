// SPDX-License-Identifier: Apache-2.0
// Machines that should be alike: in what they differ, and which one is the odd one out.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::doctor {

struct NamedMachine {
  std::string name;
  facts::Snapshot snapshot;
};

/// What machines are called after the files that tell of them: a file's name without its ending, its path where two
/// files have the same name.
std::vector<std::string> names_of_machines(const std::vector<std::string>& files);

/// One fact in which not all machines agree.
struct Difference {
  std::string what;                 ///< "driver", "GPU 3 VBIOS"
  std::vector<std::string> values;  ///< one for each machine, "-" where it is not known
  std::string usual;                ///< what most machines have; empty where no value has a majority
  bool own = false;                 ///< of a place in a machine, of a user or a job: alike machines differ in it
};

struct Comparison {
  std::vector<std::string> machines;
  std::vector<Difference> differences;
  std::size_t compared = 0;  ///< facts that at least two machines know
  std::string odd_one_out;   ///< the machine that most often differs from the usual; empty where none stands out
  bool simulated = false;    ///< one of the machines is
};

Comparison compare(const std::vector<NamedMachine>& machines);

}  // namespace gpuwarden::doctor
