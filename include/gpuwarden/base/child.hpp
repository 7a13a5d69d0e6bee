// SPDX-License-Identifier: Apache-2.0
// What every fork needs: pipes and argument arrays for exec, prepared beforehand; descriptors, given up afterwards.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden {

/// Both ends close on exec.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};
Result<Pipe> make_pipe();

/// In a child that lives on by itself: its standard streams become /dev/null, and of the other descriptors it keeps
/// these (from 3 up) alone, so that it holds up none of its parent's locks, pipes and sockets.
void keep_descriptors(std::vector<int> kept);

/// Owns the strings of an argv or envp and the null-terminated array of pointers to them that exec wants.
class ExecArray {
 public:
  explicit ExecArray(std::vector<std::string> strings);
  /// NAME=value of each variable.
  explicit ExecArray(const Environment& environment);
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> strings_;
  std::vector<char*> pointers_;
};

}  // namespace gpuwarden
