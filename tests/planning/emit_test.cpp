// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/emit.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Launch launch(std::uint32_t gpus, Sharding sharding) {
  Launch result;
  result.settings.parallel.data = gpus;
  result.settings.parallel.sharding = sharding;
  result.settings.micro_batch = 2;
  result.settings.accumulation = 4;
  return result;
}

TEST(Emit, TorchrunOnOneNodeTakesAnyFreePort) {
  const auto text = torchrun_commands(launch(8, Sharding::fsdp2));
  ASSERT_TRUE(text);
  EXPECT_TRUE(
      text->ends_with("\ngpuwarden run -n 8 --nproc-per-node gpu -- python3 train.py\n"
                      "torchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:0 --nproc_per_node=8 train.py\n"))
      << *text;
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
  EXPECT_THAT(accelerate_config(launch(8, Sharding::fsdp2)).value(), HasSubstr("# accelerate before 1.6"));
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

TEST(Emit, EveryFormatSaysWhatTheProgramHasToSet) {
  Launch job = launch(8, Sharding::zero3);
  job.settings.optimizer = Optimizer::adafactor;
  job.settings.loss = LossKernel::fused_linear;
  for (const LaunchFormat format :
       {LaunchFormat::torchrun, LaunchFormat::accelerate, LaunchFormat::deepspeed, LaunchFormat::slurm}) {
    const std::string text = emit(job, format).value();
    for (const char* part : {"(per_device_train_batch_size): 2", "(gradient_accumulation_steps): 4",
                             "optimizer: adafactor", "(gradient_checkpointing): full", "loss: fused_linear"})
      EXPECT_THAT(text, HasSubstr(part)) << to_string(format);
    Launch served = job;
    served.settings.task = Task::serving;
    EXPECT_EQ(emit(served, format).error().code, ErrorCode::unsatisfied);
  }
}

TEST(Emit, FilesNameTheStrategyWithEveryDegree) {
  Launch job = launch(2, Sharding::zero1);
  job.settings.framework = Framework::megatron;
  job.settings.parallel.tensor = 8;
  job.settings.parallel.pipeline = 4;
  job.settings.parallel.context = 2;
  job.settings.parallel.expert = 2;
  job.settings.parallel.virtual_stages = 3;
  for (const LaunchFormat format : {LaunchFormat::torchrun, LaunchFormat::slurm})
    EXPECT_THAT(emit(job, format).value(),
                AllOf(HasSubstr("#   framework: megatron\n"),
                      HasSubstr("#   strategy: tensor parallel 8 (with sequence parallelism) x pipeline parallel 4 "
                                "(interleaved, 3 runs a rank) x context parallel 2 x expert parallel 2 x ZeRO-1 over 2 "
                                "data-parallel ranks\n"),
                      Not(HasSubstr("offloaded"))));
  job.settings.framework = Framework::transformers;
  EXPECT_THAT(torchrun_commands(job).value(),
              HasSubstr("framework: Megatron or torchtitan (transformers does not bring this strategy)\n"));
  EXPECT_THAT(torchrun_commands(launch(8, Sharding::fsdp2)).value(), HasSubstr("framework: transformers\n"));
  job.settings.parallel.sequence_parallel = false;
  EXPECT_THAT(torchrun_commands(job).value(), HasSubstr("tensor parallel 8 x pipeline parallel 4"));
  const auto strategy = [](std::uint32_t gpus, Sharding sharding, Offload offload) {
    Launch plain = launch(gpus, sharding);
    plain.settings.parallel.offload = offload;
    const std::string text = torchrun_commands(plain).value();
    const std::size_t from = text.find("#   strategy: ") + 14;
    const std::size_t end = text.find("\n#   samples");
    return text.substr(from, end - from);
  };
  EXPECT_EQ(strategy(1, Sharding::none, Offload::none), "one GPU");
  EXPECT_EQ(strategy(8, Sharding::none, Offload::none), "DDP over 8 data-parallel ranks");
  EXPECT_EQ(strategy(8, Sharding::fsdp2, Offload::none), "FSDP2 over 8 data-parallel ranks");
  EXPECT_EQ(strategy(8, Sharding::fsdp1, Offload::optimizer),
            "FSDP1 over 8 data-parallel ranks\n#   offloaded to the host: weights, gradients and optimizer states");
  EXPECT_EQ(strategy(1, Sharding::zero2, Offload::optimizer),
            "ZeRO-2 over 1 data-parallel rank\n#   offloaded to the host: gradients and optimizer states");
}

TEST(Emit, FilesNameTheAdaptersMatrices) {
  Launch job = launch(8, Sharding::zero2);
  job.settings.task = Task::adapters;
  job.adapter_modules = {"q_proj", "v_proj"};
  for (const LaunchFormat format :
       {LaunchFormat::torchrun, LaunchFormat::accelerate, LaunchFormat::deepspeed, LaunchFormat::slurm})
    EXPECT_THAT(emit(job, format).value(), HasSubstr("(target_modules): q_proj, v_proj")) << to_string(format);
  job.settings.task = Task::full_training;
  EXPECT_THAT(torchrun_commands(job).value(), Not(HasSubstr("target_modules")));
}

TEST(Emit, DeepSpeedTakesOnlyPlansOfZero) {
  for (const Sharding sharding : {Sharding::none, Sharding::fsdp1, Sharding::fsdp2})
    EXPECT_EQ(deepspeed_config(launch(8, sharding)).error().code, ErrorCode::unsatisfied);
  // On one GPU, offloading is ZeRO's.
  Launch alone = launch(1, Sharding::none);
  alone.settings.parallel.offload = Offload::optimizer;
  const auto json = nlohmann::json::parse(deepspeed_config(alone).value());
  EXPECT_EQ(json["zero_optimization"]["stage"], 2);
  EXPECT_EQ(json["zero_optimization"]["offload_optimizer"]["device"], "cpu");
  EXPECT_THAT(accelerate_config(alone).value(), HasSubstr("offload_optimizer_device: cpu"));
}

TEST(Emit, SixteenBitAreWhatTheGpuHas) {
  Launch old = launch(4, Sharding::zero2);
  EXPECT_THAT(accelerate_config(old).value(), HasSubstr("mixed_precision: 'bf16'"));
  old.ampere = false;
  EXPECT_THAT(accelerate_config(old).value(), HasSubstr("mixed_precision: 'fp16'"));
  EXPECT_THAT(accelerate_config(old).value(), HasSubstr("attention: sdpa"));
  const auto json = nlohmann::json::parse(deepspeed_config(old).value());
  EXPECT_EQ(json["fp16"]["enabled"], true);
  EXPECT_EQ(json["bf16"]["enabled"], false);
  Launch half = launch(4, Sharding::zero2);
  half.settings.precision = Precision::fp16;
  EXPECT_THAT(accelerate_config(half).value(), HasSubstr("mixed_precision: 'fp16'"));
  half.settings.parallel.sharding = Sharding::fsdp1;
  EXPECT_EQ(accelerate_config(half).error().code, ErrorCode::unsatisfied);
}

TEST(Emit, SixteenBitWeightsOfAnOldGpuAreFp16AndNotTrainedByAccelerate) {
  Launch old = launch(2, Sharding::none);
  old.settings.precision = Precision::mixed_low;
  EXPECT_TRUE(accelerate_config(old));
  old.ampere = false;
  EXPECT_EQ(accelerate_config(old).error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(accelerate_config(old).error().hint, HasSubstr("--precision mixed"));
  old.settings.precision = Precision::mixed;
  EXPECT_TRUE(accelerate_config(old));
  old.settings.precision = Precision::mixed_low;
  old.settings.parallel.sharding = Sharding::fsdp2;
  EXPECT_TRUE(accelerate_config(old)) << "accelerate stores in fp32 what FSDP trains";
}

TEST(Emit, FilesThatCannotSayTensorParallelismRefuseIt) {
  Launch tensor = launch(2, Sharding::none);
  tensor.settings.parallel.tensor = 4;
  EXPECT_EQ(accelerate_config(tensor).error().code, ErrorCode::unsatisfied);
  EXPECT_EQ(deepspeed_config(tensor).error().code, ErrorCode::unsatisfied);
  EXPECT_TRUE(torchrun_commands(tensor));
}

TEST(Emit, FilesThatCannotSayExpertParallelismRefuseIt) {
  Launch experts = launch(8, Sharding::zero2);
  experts.settings.parallel.expert = 4;
  EXPECT_EQ(accelerate_config(experts).error().code, ErrorCode::unsatisfied);
  EXPECT_EQ(deepspeed_config(experts).error().code, ErrorCode::unsatisfied);
  EXPECT_TRUE(slurm_script(experts));
}

TEST(Emit, OneProcessOverSeveralGpusIsNotLaunched) {
  Launch staged = launch(1, Sharding::none);
  staged.settings.parallel.layer_stages = 4;
  for (const char* name : {"torchrun", "accelerate", "deepspeed", "slurm"}) {
    const auto text = emit(staged, launch_format_from(name).value());
    ASSERT_FALSE(text) << name;
    EXPECT_EQ(text.error().code, ErrorCode::unsatisfied);
    EXPECT_THAT(text.error().message, HasSubstr("device_map"));
  }
}

TEST(Emit, SeveralNodesKnowWhereToMeet) {
  const std::string accelerate = accelerate_config(launch(16, Sharding::zero3)).value();
  EXPECT_THAT(accelerate, HasSubstr("deepspeed_multinode_launcher: standard"));
  EXPECT_THAT(accelerate, HasSubstr("rdzv_backend: static"));
  EXPECT_THAT(torchrun_commands(launch(16, Sharding::zero3)).value(),
              HasSubstr("--master-addr \"$MASTER_ADDR\" --master-port 29500 -- python3 train.py\n"));
  EXPECT_THAT(accelerate_config(launch(8, Sharding::zero3)).value(), Not(HasSubstr("deepspeed_multinode_launcher")));
}

TEST(Emit, DeepSpeedIsToldOfOptimizersThatAreNotItsOwn) {
  Launch job = launch(8, Sharding::zero2);
  EXPECT_FALSE(nlohmann::json::parse(deepspeed_config(job).value()).contains("zero_allow_untested_optimizer"));
  job.settings.optimizer = Optimizer::adafactor;
  const auto json = nlohmann::json::parse(deepspeed_config(job).value());
  EXPECT_EQ(json["zero_allow_untested_optimizer"], true);
  EXPECT_FALSE(json.contains("zero_force_ds_cpu_optimizer"));
  job.settings.parallel.offload = Offload::optimizer;
  EXPECT_EQ(nlohmann::json::parse(deepspeed_config(job).value())["zero_force_ds_cpu_optimizer"], false);
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
  job.cpus_per_gpu = 0;
  EXPECT_THAT(slurm_script(job).value(), HasSubstr("#SBATCH --cpus-per-task=32\n"));
  EXPECT_THAT(script, HasSubstr("scontrol show hostnames"));
  EXPECT_THAT(slurm_script(launch(4, Sharding::none)).value(), Not(HasSubstr("scontrol")));
  EXPECT_THAT(slurm_script(launch(4, Sharding::none)).value(), Not(HasSubstr("MASTER_PORT")));
}

TEST(Emit, SlurmJobsThatShareANodeMeetAtDifferentPorts) {
  EXPECT_THAT(slurm_script(launch(16, Sharding::fsdp2)).value(),
              AllOf(HasSubstr("\nMASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))\nexport MASTER_ADDR MASTER_PORT\n"),
                    HasSubstr(" --rdzv_backend=c10d --rdzv_endpoint=\"$MASTER_ADDR:$MASTER_PORT\" train.py\n")));
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
