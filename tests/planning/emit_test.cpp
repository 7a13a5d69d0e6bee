// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/emit.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

using testing::HasSubstr;
using testing::Not;

Launch launch(std::uint32_t gpus, Sharding sharding) {
  Launch result;
  result.settings.parallel.data = gpus;
  result.settings.parallel.sharding = sharding;
  result.settings.micro_batch = 2;
  result.settings.accumulation = 4;
  return result;
}

TEST(Emit, TorchrunOnOneNodeIsStandalone) {
  const auto text = torchrun_commands(launch(8, Sharding::fsdp2));
  ASSERT_TRUE(text);
  EXPECT_EQ(*text,
            "gpuwarden run -n 8 --nproc-per-node gpu -- python train.py\n"
            "torchrun --standalone --nproc_per_node=8 train.py\n");
}

TEST(Emit, TorchrunOnSeveralNodesMeetsAtTheFirst) {
  const auto text = torchrun_commands(launch(32, Sharding::fsdp2));
  ASSERT_TRUE(text);
  EXPECT_THAT(*text,
              HasSubstr("--nnodes=4 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=\"$MASTER_ADDR:29500\""));
  EXPECT_FALSE(torchrun_commands(launch(12, Sharding::fsdp2))) << "12 GPUs are one and a half nodes";
}

TEST(Emit, AccelerateNamesTheKindOfSharding) {
  EXPECT_THAT(accelerate_config(launch(8, Sharding::fsdp2)).value(), HasSubstr("fsdp_version: 2"));
  EXPECT_THAT(accelerate_config(launch(8, Sharding::fsdp1)).value(),
              HasSubstr("fsdp_reshard_after_forward: FULL_SHARD"));
  EXPECT_THAT(accelerate_config(launch(8, Sharding::zero2)).value(), HasSubstr("zero_stage: 2"));
  EXPECT_THAT(accelerate_config(launch(8, Sharding::none)).value(), HasSubstr("distributed_type: MULTI_GPU"));
  const std::string single = accelerate_config(launch(1, Sharding::none)).value();
  EXPECT_THAT(single, HasSubstr("distributed_type: 'NO'"));
  EXPECT_THAT(single, Not(HasSubstr("fsdp_config")));
}

TEST(Emit, AccelerateKnowsEveryKey) {
  // Fields of ClusterConfig (accelerate, commands/config/config_args.py), which refuses any other.
  const std::set<std::string_view> known{
      "compute_environment", "debug",         "deepspeed_config", "distributed_type",       "downcast_bf16",
      "enable_cpu_affinity", "fsdp_config",   "machine_rank",     "main_training_function", "mixed_precision",
      "num_machines",        "num_processes", "rdzv_backend",     "same_network",           "use_cpu"};
  for (const Sharding sharding : {Sharding::none, Sharding::zero2, Sharding::zero3, Sharding::fsdp1, Sharding::fsdp2}) {
    const std::string text = accelerate_config(launch(16, sharding)).value();
    EXPECT_THAT(text, HasSubstr("--machine_rank \"$NODE_RANK\""));
    for (const auto line : split(text, '\n')) {
      if (line.empty() || line.starts_with(' ') || line.starts_with('#')) continue;
      EXPECT_TRUE(known.contains(line.substr(0, line.find(':')))) << line;
    }
  }
}

TEST(Emit, DeepSpeedMultipliesTheBatch) {
  const auto json = nlohmann::json::parse(deepspeed_config(launch(8, Sharding::zero3)).value());
  EXPECT_EQ(json["train_batch_size"], 2 * 4 * 8);
  EXPECT_EQ(json["zero_optimization"]["stage"], 3);
  EXPECT_FALSE(json["zero_optimization"].contains("offload_param"));
  EXPECT_EQ(json["bf16"]["enabled"], true);
}

TEST(Emit, DeepSpeedOffloadsWhatThePlanDoes) {
  Launch offloaded = launch(8, Sharding::zero3);
  offloaded.settings.parallel.offload = Offload::all;
  const auto all = nlohmann::json::parse(deepspeed_config(offloaded).value());
  EXPECT_EQ(all["zero_optimization"]["offload_param"]["device"], "cpu");
  offloaded.settings.parallel.offload = Offload::optimizer;
  offloaded.settings.parallel.sharding = Sharding::zero2;
  const auto states = nlohmann::json::parse(deepspeed_config(offloaded).value());
  EXPECT_EQ(states["zero_optimization"]["offload_optimizer"]["device"], "cpu");
  EXPECT_FALSE(states["zero_optimization"].contains("offload_param"));
}

TEST(Emit, FilesThatCannotSayTensorParallelismRefuseIt) {
  Launch tensor = launch(2, Sharding::none);
  tensor.settings.parallel.tensor = 4;
  EXPECT_EQ(accelerate_config(tensor).error().code, ErrorCode::unsatisfied);
  EXPECT_EQ(deepspeed_config(tensor).error().code, ErrorCode::unsatisfied);
  EXPECT_TRUE(torchrun_commands(tensor));
}

TEST(Emit, SlurmAsksForWholeNodes) {
  Launch job = launch(16, Sharding::fsdp2);
  job.job_name = "meta-llama/Llama 3 \"8B\"\n#SBATCH --evil";
  job.cpus_per_gpu = 8;
  job.host_memory_per_node = 100_GiB;
  job.time = std::chrono::hours(36);
  const std::string script = slurm_script(job).value();
  EXPECT_TRUE(script.starts_with(
      "#!/bin/bash\n#SBATCH --job-name=meta-llama-Llama-3--8B---SBATCH---evil\n#SBATCH --nodes=2\n"));
  EXPECT_THAT(
      script,
      HasSubstr("#SBATCH --gres=gpu:8\n#SBATCH --cpus-per-task=64\n#SBATCH --mem=102401M\n#SBATCH --time=36:00:00\n"));
  EXPECT_THAT(script, HasSubstr("scontrol show hostnames"));
  EXPECT_THAT(slurm_script(launch(4, Sharding::none)).value(), Not(HasSubstr("scontrol")));
}

TEST(Emit, FormatsHaveNames) {
  for (const char* name : {"torchrun", "accelerate", "deepspeed", "slurm"}) {
    const auto format = launch_format_from(name);
    ASSERT_TRUE(format) << name;
    EXPECT_EQ(to_string(*format), name);
    EXPECT_TRUE(emit(launch(4, Sharding::zero3), *format)) << name;
  }
  EXPECT_FALSE(launch_format_from("mpi"));
}

}  // namespace
}  // namespace gpuwarden::planning
