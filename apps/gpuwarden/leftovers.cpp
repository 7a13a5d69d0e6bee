// SPDX-License-Identifier: Apache-2.0
#include "leftovers.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/leftovers.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {
namespace {

constexpr std::size_t kMostNamed = 8;

std::string pid_list(const std::vector<Pid>& pids) {
  std::string text;
  for (std::size_t i = 0; i < pids.size() && i < kMostNamed; ++i)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", pids[i].value);
  return pids.size() > kMostNamed ? text + ", ..." : text;
}

std::string count_of(std::size_t count) { return count == 1 ? "1 process" : fmt::format("{} processes", count); }

}  // namespace

void show_leftovers(const Context& context, bool only_look) {
  const auto folder = lease_directory(context);
  for (const launch::Leftover& leftover : launch::find_leftovers(folder)) {
    const std::string what = fmt::format("{} of the run {} still {} (pid {})", count_of(leftover.processes.size()),
                                         printable(leftover.run_id), leftover.processes.size() == 1 ? "runs" : "run",
                                         pid_list(leftover.processes));
    if (!only_look && leftover.grouped && leftover.user == ::geteuid() &&
        launch::end_leftover(folder, leftover.run_id, system_clock())) {
      warn(fmt::format("{}, though its launcher was killed: ended now", what));
      continue;
    }
    warn(fmt::format("{}, though its launcher was killed; to end: gpuwarden run --end-leftovers {}", what,
                     printable(leftover.run_id)));
  }
}

Result<int> end_leftovers(const Context& context, const std::string& run_id) {
  GPUWARDEN_TRY(const auto ended, launch::end_leftover(lease_directory(context), run_id, system_clock()));
  fmt::print("ended {} of the run {} (pid {})\n", count_of(ended.size()), printable(run_id), pid_list(ended));
  return kFine;
}

}  // namespace gpuwarden::cli
