// SPDX-License-Identifier: Apache-2.0
// What the pools of this machine's processes tell of themselves: a small file for each pool in a folder of its user,
// which gpuwarden memory reads. Sizes in bytes; the words are those of memory::PoolStatus. PyTorch's own allocator is
// told of in the same words (python/gpuwarden/torch/publishing.py), as far as it counts the same things.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::pools {

/// A process that is not mistaken for a later one with the same pid.
struct ProcessMark {
  Pid pid;
  std::uint64_t started = 0;  ///< ticks between the machine's start and the process's (proc_pid_stat(5), field 22)
  std::string pid_namespace;  ///< "pid:[4026531836]": where the pid holds (namespaces(7))

  bool operator==(const ProcessMark&) const = default;
};

/// This process. Empty fields where /proc does not tell.
ProcessMark own_mark();

struct PublishedPool {
  ProcessMark process;
  Uuid gpu;  ///< as the CUDA driver has it
  std::string strategy;
  std::uint64_t time_unix_ms = 0;  ///< when it last changed
  Bytes live;
  Bytes peak_live;
  std::optional<Bytes> requested;  ///< empty, as below: whoever tells does not know it
  Bytes cached;
  Bytes free;
  std::optional<Bytes> largest_free;
  Bytes reserved;
  Bytes peak_reserved;
  std::optional<Bytes> limit;
  std::uint64_t segments = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t allocations = 0;
  std::uint64_t out_of_memory = 0;

  bool operator==(const PublishedPool&) const = default;
};

/// A number of a published pool: its name in the file and in JSON.
struct PoolFigure {
  std::string_view key;
  std::optional<std::uint64_t> (*get)(const PublishedPool&);  ///< nothing: not known
  void (*set)(PublishedPool&, std::uint64_t);
};

/// All of them.
std::span<const PoolFigure> pool_figures();

/// Sets the figure of that name; invalid_argument: there is none, and the hint says which there are.
Result<void> set_figure(PublishedPool& pool, std::string_view key, std::uint64_t value);

/// The file's content: a line "gpuwarden-pool 1", then a key and its value in each line.
std::string to_text(const PublishedPool& pool);
/// Reads it back; keys that it does not know are passed over, figures that are not there are
/// 0, or not known where that can be said. corrupt: it is
/// something else, is cut off, or has no process or GPU.
Result<PublishedPool> pool_of_text(std::string_view text);

/// /dev/shm/gpuwarden-pools-UID of the caller.
std::filesystem::path own_pools_folder();
/// Such folders of all users, as far as they belong to them.
std::vector<std::filesystem::path> all_pools_folders();

/// What the pools of processes that live tell, by folder and file name. What is no such file, or names a process of
/// another user than its own, is passed over; what a process of the caller left that lives no more is removed.
std::vector<PublishedPool> published_pools(const std::vector<std::filesystem::path>& folders);
/// Those in the folder that GPUWARDEN_MEMORY_DIR names, else in all_pools_folders().
std::vector<PublishedPool> published_pools_of(const Environment& environment);

}  // namespace gpuwarden::pools
