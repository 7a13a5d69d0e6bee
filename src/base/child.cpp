// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/child.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace gpuwarden {
namespace {

std::vector<std::string> assignments(const Environment& environment) {
  std::vector<std::string> result;
  for (const auto& [name, value] : environment) result.push_back(std::string(name).append("=").append(value));
  return result;
}

}  // namespace

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::unexpected(error_from_errno(errno, "cannot make a pipe"));
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

ExecArray::ExecArray(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (auto& text : strings_) pointers_.push_back(text.data());
  pointers_.push_back(nullptr);
}

ExecArray::ExecArray(const Environment& environment) : ExecArray(assignments(environment)) {}

}  // namespace gpuwarden
