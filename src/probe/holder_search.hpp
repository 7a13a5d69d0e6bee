// SPDX-License-Identifier: Apache-2.0
// The search for those that have GPUs open, in a process of its own: a process in trouble may hang whoever looks at it
// in /proc.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "gpuwarden/probe/child_process.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "probe/holders.hpp"
#include "probe/problems.hpp"

namespace gpuwarden::probe {

/// Begins at once; whoever wants its end waits for it.
class HolderSearch {
 public:
  HolderSearch(const ReaderOptions& options, std::stop_token stop);
  /// Waits for the end of the search.
  void wait();
  /// What was found and still runs; a gap where the search did not end.
  void add_to(facts::Snapshot& snapshot);

 private:
  const ReaderOptions& options_;
  std::stop_token stop_;
  std::unique_ptr<ChildProcess> child_;
  std::optional<Silence> given_up_;
  std::optional<std::vector<Holder>> found_;
};

}  // namespace gpuwarden::probe
