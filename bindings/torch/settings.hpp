// SPDX-License-Identifier: Apache-2.0
// What the environment says to the PyTorch allocator, which has no other way to be told.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memory/budget.hpp"
#include "observer.hpp"

namespace gpuwarden::torch {

struct Settings {
  std::string strategy;                          ///< GPUWARDEN_MEMORY_STRATEGY
  memory::MemoryLimit limit;                     ///< GPUWARDEN_GPU_MEM_LIMIT: "0.8", "80%", "60GiB"
  std::chrono::milliseconds wait_for_others{0};  ///< GPUWARDEN_MEMORY_WAIT: "10s"
  std::chrono::milliseconds trim_after{0};       ///< GPUWARDEN_MEMORY_TRIM: "10s"; 0: never
  std::filesystem::path trace;                   ///< GPUWARDEN_MEMORY_TRACE: a file; empty: no trace
  bool throws = false;                           ///< GPUWARDEN_MEMORY_ON_FAILURE: "throw" or "null"
  bindings::ObserverSettings observer;
};

/// invalid_argument: a variable has a value that makes no sense; its name is in the message.
Result<Settings> read_settings();

}  // namespace gpuwarden::torch
