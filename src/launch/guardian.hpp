// SPDX-License-Identifier: Apache-2.0
// Two processes between the launcher and its ranks, one below the other. Both adopt what is orphaned below them: the
// inner one is the parent of the ranks; the outer one inherits them when the inner one dies. So the launcher's own
// process is never changed, and whichever one of the three dies, somebody living knows every process of the job from
// the kernel itself.
#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"
#include "launch/parts.hpp"

namespace gpuwarden::launch {

/// The name that a guardian's process has (in ps -o comm).
inline constexpr const char* kGuardianName = "gpuwarden-guard";

/// The launcher's side of the guardians.
class Guardians {
 public:
  /// Of a plan that outlives this.
  explicit Guardians(Plan& plan) : plan_(&plan) {}
  Guardians(const Guardians&) = delete;
  Guardians& operator=(const Guardians&) = delete;
  /// Hanging up without finish() makes them end the whole job.
  ~Guardians();

  /// Starts both, and through them the ranks; the plan's descriptors for ranks are closed here afterwards.
  Result<void> start();
  /// Descriptors to poll for reading.
  std::vector<int> sockets() const;
  /// Reads what has come; starts another guardian for one that has died, and gives a sentence about each.
  std::vector<std::string> take_news();
  /// Whether one is left that has the job's processes below it.
  bool watching() const { return posts_[0].socket || posts_[1].socket; }
  /// Ends what is left of the job below them and waits for them to go; gives the processes that could not be ended.
  std::vector<pid_t> finish();
  /// Wakes guardians that somebody has stopped; kills the inner one where that did not help, its work falls to the
  /// outer one.
  void rouse(bool kill_inner);

 private:
  struct Post {
    pid_t pid = 0;
    bool child = false;  ///< of this process, to be waited for
    UniqueFd socket;
  };
  Result<void> start_stand_in();
  static void bury(Post& post);

  Plan* plan_;
  std::array<Post, 3> posts_;  ///< outer, inner, and the one that stands in for either
};

/// What guardians do, in processes of their own (guardian_process.cpp).
[[noreturn]] void guard_outside(const Plan& plan, UniqueFd outer, UniqueFd inner);
[[noreturn]] void stand_in(const Plan& plan, UniqueFd socket, pid_t watched);

/// The word with which the launcher says that the job is over.
inline constexpr char kFinish = 'f';

}  // namespace gpuwarden::launch
