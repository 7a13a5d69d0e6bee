// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden plan --emit` prints, for the tools that it is meant for.
#pragma once

#include <cstdlib>

#include "cli/program.hpp"
#include "support/daemon.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {

/// Skips the test, or, where GPUWARDEN_REQUIRE_TOOLS is 1 (their packages were installed), fails it.
#define GPUWARDEN_NEEDS(present, what)                                           \
  if (!(present)) {                                                              \
    const char* const required = std::getenv("GPUWARDEN_REQUIRE_TOOLS");         \
    if (required != nullptr && std::string_view(required) == "1")                \
      FAIL() << (what) << " is not installed, but GPUWARDEN_REQUIRE_TOOLS is 1"; \
    GTEST_SKIP() << (what) << " is not installed";                               \
  }                                                                              \
  static_assert(true)

class Emitted : public Program {
 protected:
  Emitted() {
    // As a stranger's shell has it: gpuwarden in PATH, no fleet, no job around it.
    // Debian's Python first: another one in PATH has other packages.
    const std::string built = std::filesystem::path(GPUWARDEN_PROGRAM).parent_path().string();
    environment_["PATH"] = built + ":/usr/bin:" + environment_["PATH"];
    // Debian's torch 1.13 has lost its word for "not redirected" to Python 3.11, and does not start without them.
    environment_["PET_REDIRECTS"] = environment_["PET_TEE"] = "1";
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK"})
      environment_.erase(name);
  }

  /// `gpuwarden plan WORDS --emit FORMAT`; empty, and a failure, where it prints nothing.
  std::string emitted(const std::string& format, std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    words.insert(words.end(), {"--emit", format});
    const auto done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    return done.standard_output;
  }

  /// An executable script in a folder that comes first in PATH.
  std::string stand_in(const std::string& name, const std::string& content) {
    const std::string path = file("bin/" + name, content);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    const std::string folder = (dir_ / "bin").string() + ":";
    if (!environment_["PATH"].starts_with(folder)) environment_["PATH"] = folder + environment_["PATH"];
    return path;
  }

  /// The file's lines in order of the alphabet: who writes first is chance.
  static std::vector<std::string> sorted_lines(const std::filesystem::path& path) {
    std::vector<std::string> lines;
    std::ifstream input(path);
    for (std::string line; std::getline(input, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
  }
};

/// What a rank of torch says of itself after all of them have added up their numbers over gloo.
inline constexpr const char* kTorchProgram = R"(import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
line = "rank %d of %d, local %s, sum %d, GPUs %s, words %s\n" % (
    dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_RANK"], int(total.item()),
    os.environ.get("CUDA_VISIBLE_DEVICES", "-"), " ".join(sys.argv[2:]) or "-")
with open(sys.argv[1], "a") as out:
    out.write(line)
dist.destroy_process_group()
os._exit(0)  # PyTorch's threads now and then abort a process that ends slowly
)";

/// Debian's Python, whose packages the tests use.
inline constexpr const char* kPython = "/usr/bin/python3";

/// Whether Debian's PyTorch and its torchrun are there.
inline bool has_torch() {
  if (find_program("torchrun").empty()) return false;
  const auto done =
      run_patiently({.argv = {kPython, "-c", "import torch.distributed as d; assert d.is_gloo_available()"}});
  return done && done->exit_code == 0;
}

}  // namespace gpuwarden::testing
