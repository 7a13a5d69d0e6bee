// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/child.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

void keep_descriptors(std::vector<int> kept) {
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  std::erase_if(kept, [](int fd) { return fd < 3; });
  std::ranges::sort(kept);
  unsigned next = 3;
  for (const int fd : kept) {
    if (static_cast<unsigned>(fd) > next) ::close_range(next, static_cast<unsigned>(fd) - 1, 0);
    next = std::max(next, static_cast<unsigned>(fd) + 1);
  }
  ::close_range(next, ~0U, 0);
}

ExecArray::ExecArray(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (auto& text : strings_) pointers_.push_back(text.data());
  pointers_.push_back(nullptr);
}

ExecArray::ExecArray(const Environment& environment) : ExecArray(assignments(environment)) {}

}  // namespace gpuwarden
