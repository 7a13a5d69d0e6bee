// SPDX-License-Identifier: Apache-2.0
// What every fork-and-exec needs prepared beforehand: pipes, and argument arrays for exec.
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
