// SPDX-License-Identifier: Apache-2.0
// What a job failed of, and whether starting it again would help. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"
#include "gpuwarden/launch/report.hpp"

namespace gpuwarden::healing {

/// What became of one try, judged by the ends of its ranks' output and by what happened to its GPUs.
struct Judgement {
  diagnosis::Diagnosis diagnosis;
  knowledge::Restart restart = knowledge::Restart::again;
  std::string why;  ///< what decided `restart`: "GPU 3 fell off the bus"
  /// GPUs (or MIG instances) of the job that something happened to which keeps them from being used.
  std::vector<Uuid> gpus_at_fault;
  /// Variables, with their whole new values, that would have kept the first cause from happening; those that the job's
  /// environment has already are left out.
  /// kInterface in a value stands for the interface of each machine at which the ranks meet: fill_in().
  Environment remedy;
  /// Fewer ranks, and GPUs, may get by where so many did not.
  bool fewer_gpus = false;
};

inline constexpr std::string_view kInterface = "{interface}";

/// The remedy as this machine's ranks need it: with the interface at which they reach `master_address`; of several
/// `nodes` never the loopback. Settings for which none is found, and those that `environment` has already, are left
/// out.
Environment fill_in(Environment remedy, const std::string& master_address, std::uint32_t nodes,
                    const Environment& environment);

/// Judges a try that failed. `environment`: what the ranks were started with. Of the ranks' output there is as much as
/// JobSpec::keep_last_words kept.
Judgement judge(const launch::RunReport& report, const Environment& environment);

/// Whether an exception's line tells of the program itself, which ends every try the same way ("TypeError: ...");
/// source: Python's built-in exceptions that no circumstance of the machine raises.
bool is_of_program(std::string_view exception);

}  // namespace gpuwarden::healing
