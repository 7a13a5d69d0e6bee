// SPDX-License-Identifier: Apache-2.0
#include <execinfo.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "gpuwarden/memory/tracking.hpp"

namespace gpuwarden::memory {

std::vector<void*> call_stack(std::size_t depth) {
  // The first frame is this function.
  std::vector<void*> stack(depth + 1);
  const int found = ::backtrace(stack.data(), static_cast<int>(stack.size()));
  stack.resize(static_cast<std::size_t>(std::max(found, 0)));
  if (!stack.empty()) stack.erase(stack.begin());
  return stack;
}

std::vector<std::string> describe(const std::vector<void*>& stack) {
  const std::unique_ptr<char*, decltype(&std::free)> names(
      ::backtrace_symbols(stack.data(), static_cast<int>(stack.size())), &std::free);
  if (names == nullptr) return {};
  return {names.get(), names.get() + stack.size()};
}

}  // namespace gpuwarden::memory
