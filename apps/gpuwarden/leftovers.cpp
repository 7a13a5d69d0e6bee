// SPDX-License-Identifier: Apache-2.0
#include "leftovers.hpp"

#include <fmt/format.h>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/leftovers.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {
namespace {

/// "2 processes", with the first few of their numbers.
struct Named {
  explicit Named(const std::vector<Pid>& all)
      : count(all.size() == 1 ? "1 process" : fmt::format("{} processes", all.size())) {
    constexpr std::size_t kMostNamed = 8;
    for (std::size_t i = 0; i < all.size() && i < kMostNamed; ++i)
      pids += fmt::format("{}{}", pids.empty() ? "" : ", ", all[i].value);
    if (all.size() > kMostNamed) pids += ", ...";
  }
  std::string count;
  std::string pids;
};

}  // namespace

void show_leftovers(const Context& context, bool only_look) {
  const auto folder = lease_directory(context);
  const auto leftovers = only_look ? launch::find_leftovers(folder) : launch::end_own_leftovers(folder, system_clock());
  for (const launch::Leftover& leftover : leftovers) {
    const Named processes(leftover.processes);
    const std::string run = printable(leftover.run_id);
    warn(fmt::format("{} of the run {} still {} (pid {}), though its launcher was killed{}", processes.count, run,
                     leftover.processes.size() == 1 ? "runs" : "run", processes.pids,
                     leftover.ended ? ": ended now" : "; to end: gpuwarden run --end-leftovers " + run));
  }
}

Result<int> end_leftovers(const Context& context, const std::string& run_id) {
  GPUWARDEN_TRY(const auto ended, launch::end_leftover(lease_directory(context), run_id, system_clock()));
  const Named processes(ended);
  fmt::print("ended {} of the run {} (pid {})\n", processes.count, printable(run_id), processes.pids);
  return kFine;
}

}  // namespace gpuwarden::cli
