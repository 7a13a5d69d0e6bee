// SPDX-License-Identifier: Apache-2.0
// The command lines start what they say: PyTorch's torchrun over gloo on CPUs, and `gpuwarden run` on a simulated node.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "emit/emitted.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A rank without torch.
constexpr const char* kPlainProgram = R"(import os, sys
e = os.environ
with open(sys.argv[1], "a") as out:
    out.write("rank %s of %s, local %s of %s, node %s, at %s:%s, %d GPUs\n" % (
        e["RANK"], e["WORLD_SIZE"], e["LOCAL_RANK"], e["LOCAL_WORLD_SIZE"], e.get("GROUP_RANK", "-"),
        e["MASTER_ADDR"], e["MASTER_PORT"], len(e["CUDA_VISIBLE_DEVICES"].split(","))))
)";

class CommandLines : public Emitted {
 protected:
  std::filesystem::path record() const { return dir_ / "record"; }
  /// The emitted line that starts with these words, with the record as the program's argument.
  std::string line(const std::vector<std::string>& plan, std::string_view start) const {
    const std::string text = emitted("torchrun", plan);
    for (const auto candidate : split(text, '\n')) {
      if (candidate.starts_with(start)) return std::string(candidate) + " " + record().string();
    }
    ADD_FAILURE() << "no line starts with " << start << ":\n" << text;
    return {};
  }
  /// As a shell runs it, with variables of its own.
  Completed shell(const std::string& text, const Environment& more = {}) const {
    Environment variables = environment_;
    for (const auto& [name, value] : more) variables[name] = value;
    auto done = run_patiently({.argv = {"sh", "-c", text}, .environment = variables});
    return done.value_or(Completed{});
  }
};

TEST_F(CommandLines, TorchrunStartsTheRanks) {
  GPUWARDEN_NEEDS(has_torch(), "PyTorch");
  const std::string program = file("a rank.py", kTorchProgram);
  const auto done =
      shell(line({"llama-3.1-8b", "--task", "lora", "--gpus", "2xh100", "--program", program}, "torchrun "));
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(sorted_lines(record()), ElementsAre("rank 0 of 2, local 0, sum 3, GPUs -, words -",
                                                  "rank 1 of 2, local 1, sum 3, GPUs -, words -"));
}

TEST_F(CommandLines, TorchrunOfTwoNodesMeets) {
  GPUWARDEN_NEEDS(has_torch(), "PyTorch");
  std::string command = line({"llama-3.1-8b", "--task", "lora", "--gpus", "2xh100", "--gpus-per-node", "1", "--program",
                              file("rank.py", kTorchProgram)},
                             "torchrun ");
  // Whoever else uses the usual port is left alone.
  const auto port = command.find(":29500");
  ASSERT_NE(port, std::string::npos) << command;
  command.replace(port, 6, fmt::format(":{}", free_ports(1).front()));
  Completed first;
  std::thread other([&] { first = shell(command, {{"MASTER_ADDR", "127.0.0.1"}}); });
  const Completed second = shell(command, {{"MASTER_ADDR", "127.0.0.1"}});
  other.join();
  EXPECT_EQ(first.exit_code, 0) << first.standard_error;
  EXPECT_EQ(second.exit_code, 0) << second.standard_error;
  EXPECT_THAT(sorted_lines(record()), ElementsAre("rank 0 of 2, local 0, sum 3, GPUs -, words -",
                                                  "rank 1 of 2, local 0, sum 3, GPUs -, words -"));
}

TEST_F(CommandLines, GpuwardenRunStartsRanksOfTorch) {
  GPUWARDEN_NEEDS(has_torch(), "PyTorch");
  const std::string command =
      line({"llama-3.1-8b", "--task", "lora", "--gpus", "2xh100", "--program", file("rank.py", kTorchProgram)},
           "gpuwarden ");
  const auto done = shell(command, {{"GPUWARDEN_SIMULATE", "h100x8"}});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const auto lines = sorted_lines(record());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], StartsWith("rank 0 of 2, local 0, sum 3, GPUs GPU-"));
  EXPECT_THAT(lines[1], StartsWith("rank 1 of 2, local 1, sum 3, GPUs GPU-"));
}

/// Each variable that a launcher may set, with its value; what differs from run to run as "set".
constexpr const char* kVariablesProgram = R"(import os, sys
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE"
names += " MASTER_ADDR MASTER_PORT OMP_NUM_THREADS NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_ASYNC_ERROR_HANDLING"
names += " TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE"
varying = ("MASTER_ADDR", "MASTER_PORT")
with open(sys.argv[1], "a") as out:
    for name in names.split() + ["TORCHELASTIC_ERROR_FILE"]:
        value = os.environ.get(name, "-")
        if value != "-" and (name in varying or name.endswith("FILE")):
            value = "set"
        out.write("%s %s=%s\n" % (os.environ["RANK"], name, value))
)";

TEST_F(CommandLines, GpuwardenRunSetsWhatTorchrunSets) {
  GPUWARDEN_NEEDS(has_torch(), "PyTorch");
  const std::string program = file("variables.py", kVariablesProgram);
  const auto variables = [&](const std::string& launcher, const std::string& name) {
    const auto out = dir_ / name;
    const auto done = shell(fmt::format("{} --standalone --nproc_per_node=2 --max_restarts=3 --role=trainer "
                                        "--rdzv_id=job7 --log_dir={} {} {}",
                                        launcher, (dir_ / (name + "-logs")).string(), program, out.string()),
                            {{"GPUWARDEN_SIMULATE", "h100x8"}});
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    return sorted_lines(out);
  };
  auto theirs = variables("torchrun", "theirs");
  auto ours = variables("gpuwarden run -n 2 -q", "ours");
  // torchrun names standalone jobs itself; the second name is of PyTorch 2.2 and newer; whose store is used differs.
  const auto leave_out = [](std::vector<std::string>& lines) {
    std::erase_if(lines, [](const std::string& line) {
      return line.contains("RUN_ID") || line.contains(" TORCH_NCCL_") || line.contains("USE_AGENT_STORE");
    });
  };
  leave_out(theirs);
  leave_out(ours);
  EXPECT_EQ(theirs, ours);
  EXPECT_GT(ours.size(), 25U);
}

TEST_F(CommandLines, GpuwardenRunTakesAllGpusOfANode) {
  const std::string command =
      line({"llama-3.1-8b", "--gpus", "8xh100", "--program", file("rank.py", kPlainProgram)}, "gpuwarden ");
  EXPECT_THAT(command, HasSubstr("-n 8 --nproc-per-node gpu"));
  const auto done = shell(command, {{"GPUWARDEN_SIMULATE", "h100x8"}});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const auto lines = sorted_lines(record());
  ASSERT_EQ(lines.size(), 8U);
  for (int i = 0; i < 8; ++i) {
    EXPECT_THAT(lines[i], StartsWith(fmt::format("rank {} of 8, local {} of 8, ", i, i)));
    EXPECT_TRUE(lines[i].ends_with(", 8 GPUs")) << lines[i];
  }
}

TEST_F(CommandLines, GpuwardenRunOfTwoNodesCountsRanksThrough) {
  const std::string command =
      line({"llama-3.1-8b", "--gpus", "4xh100", "--gpus-per-node", "2", "--program", file("rank.py", kPlainProgram)},
           "gpuwarden ");
  for (const char* node : {"0", "1"}) {
    const auto done = shell(command, {{"GPUWARDEN_SIMULATE", "h100x8"},
                                      {"GPUWARDEN_LEASE_DIR", (dir_ / "leases" / node).string()},
                                      {"NODE_RANK", node},
                                      {"MASTER_ADDR", "10.1.2.3"}});
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  }
  const auto lines = sorted_lines(record());
  ASSERT_EQ(lines.size(), 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(lines[i], StartsWith(fmt::format("rank {} of 4, local {} of 2, node {}, at 10.1.2.3:29500, 2 GPUs", i,
                                                 i % 2, i / 2)));
  }
}

TEST_F(CommandLines, MoreGpusThanTheNodeHasAreRefused) {
  const std::string command =
      line({"llama-3.1-8b", "--gpus", "8xh100", "--program", file("rank.py", kPlainProgram)}, "gpuwarden ");
  const auto done = shell(command, {{"GPUWARDEN_SIMULATE", "a100x4"}});
  EXPECT_NE(done.exit_code, 0);
  EXPECT_TRUE(sorted_lines(record()).empty());
}

}  // namespace
}  // namespace gpuwarden::testing
