// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/job_config.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::placement {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<JobConfig> parse(std::string_view yaml) {
  return parse_job_config(yaml, "job.yaml", {{"min-free-memory", "prefer", "share"}, {"log-dir", "grace"}});
}
auto fails(const std::string& part) { return FailsWith(ErrorCode::invalid_argument, HasSubstr(part)); }

TEST(JobConfig, EveryKeyIsRead) {
  const auto config = parse(
      "experiment_name: llama\ndevice: cuda\n"
      "distributed: {enabled: true, num_gpus: 4, strategy: FSDP, fsdp_sharding_strategy: shard_grad_op, "
      "fsdp_cpu_offload: true,\n"
      "  backend: nccl, master_addr: node1, master_port: 29501, nnodes: 2, node_rank: 1}\n"
      "model: {model_name_or_path: meta/llama, device_map: auto, torch_dtype: bf16}\n"
      "selection: {min_free_memory: 40GiB, prefer: [0, 1], share: true}\nrun: {log-dir: logs}\n");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->experiment_name, "llama");
  EXPECT_EQ(config->distributed.strategy, "fsdp");
  EXPECT_EQ(config->distributed.fsdp_sharding_strategy, "SHARD_GRAD_OP");
  EXPECT_EQ(config->distributed.master_port, 29501);
  EXPECT_EQ(config->distributed.node_rank, 1U);
  EXPECT_EQ(config->model.torch_dtype, "bfloat16");
  EXPECT_THAT(config->selection.at("min-free-memory"), ElementsAre("40GiB"));
  EXPECT_THAT(config->selection.at("prefer"), ElementsAre("0", "1"));
  EXPECT_THAT(config->run.at("log-dir"), ElementsAre("logs"));
  const Request request = request_from(*config);
  EXPECT_EQ(request.count, 4U);
  EXPECT_FALSE(request.force_cpu);
  const Environment env = job_environment(*config);
  EXPECT_EQ(env.at("ACCELERATE_USE_FSDP"), "true");
  EXPECT_EQ(env.at("FSDP_SHARDING_STRATEGY"), "SHARD_GRAD_OP");
  EXPECT_EQ(env.at("FSDP_OFFLOAD_PARAMS"), "true");
  EXPECT_EQ(env.at("ACCELERATE_MIXED_PRECISION"), "bf16");
  EXPECT_EQ(env.at("GPUWARDEN_EXPERIMENT_NAME"), "llama");
  EXPECT_EQ(env.at("GPUWARDEN_BACKEND"), "nccl");
}

TEST(JobConfig, IdsComeBeforeCountsAndOneGpuIsMeantBySingle) {
  const auto ids = parse("distributed: {gpu_ids: [0, GPU-3f], num_gpus: 2}\n");
  ASSERT_THAT(ids, IsOk());
  EXPECT_EQ(request_from(*ids).gpu_ids.size(), 2U);
  EXPECT_FALSE(request_from(*ids).count);
  EXPECT_EQ(request_from(*parse("distributed: {strategy: single}\n")).count, 1U);
  EXPECT_EQ(request_from(*parse("distributed: {enabled: false, num_gpus: 1}\n")).count, 1U);
  EXPECT_TRUE(request_from(*parse("device: cpu\n")).force_cpu);
  EXPECT_TRUE(request_from(*parse("model: {device_map: cpu}\n")).force_cpu);
  EXPECT_EQ(job_environment(*parse("device: cpu\n")).at("ACCELERATE_USE_CPU"), "true");
  const auto cuda = parse("device: cuda\nmodel: {device_map: cpu}\n");
  EXPECT_FALSE(request_from(*cuda).force_cpu);
  EXPECT_FALSE(job_environment(*cuda).contains("ACCELERATE_USE_CPU"));
  EXPECT_THAT(parse(""), IsOkAnd(JobConfig{}));
}

TEST(JobConfig, MistakesHaveTheirPlace) {
  EXPECT_THAT(parse("distributed:\n  num_gpus: many\n"),
              fails("job.yaml:2:13: distributed.num_gpus should be a whole number"));
  EXPECT_THAT(parse("distributed: {num_gpus: 0}\n"), fails("from 1 to 4096"));
  EXPECT_THAT(parse("distributed: {strategy: magic}\n"), fails("one of ddp, fsdp, single"));
  EXPECT_THAT(parse("distributed: {master_port: 70000}\n"), fails("master_port"));
  EXPECT_THAT(parse("distributed: {nnodes: 2, node_rank: 2}\n"), fails("below nnodes"));
  EXPECT_THAT(parse("distributed: {enabled: yes please}\n"), fails("true or false"));
  EXPECT_THAT(parse("distributed: {gpu_ids: \"0,,2\"}\n"), fails("empty or unreadable"));
  EXPECT_THAT(parse("distributed: [1]\n"), fails("should be a map"));
  EXPECT_THAT(parse("model: {torch_dtype: int3}\n"), fails("model.torch_dtype"));
  EXPECT_THAT(parse("experiment_name: [a]\n"), fails("a plain text"));
  EXPECT_THAT(parse("selection: {min_free_memory: {a: 1}}\n"), fails("should be a list"));
  EXPECT_THAT(parse("device: tpu\n"), fails("one of cpu, cuda"));
  const auto unknown = parse("distributed:\n  num_gpu: 2\n");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("job.yaml:2:3: distributed has no key 'num_gpu'"));
  EXPECT_THAT(unknown.error().hint, HasSubstr("num_gpus"));
  EXPECT_THAT(parse("selection: {min_memry: 1}\n"), fails("selection has no key"));
  EXPECT_THAT(parse("a:\n\tb: 1\n"), fails("a tab"));
}

TEST(JobConfig, ContradictionsAreErrors) {
  EXPECT_THAT(parse("distributed: {num_gpus: 4, gpu_ids: [0, 2]}\n"),
              fails("distributed.num_gpus is 4, but gpu_ids names 2 GPUs"));
  EXPECT_THAT(parse("distributed: {num_gpus: 1, gpu_ids: [0, 2]}\n"), fails("num_gpus is 1"));
  EXPECT_THAT(parse("distributed: {num_gpus: 4, gpu_ids: [0-3]}\n"), IsOk());
  EXPECT_THAT(parse("distributed: {num_gpus: 4, gpu_ids: [0, 1, 2, 3]}\n"), IsOk());
  EXPECT_THAT(parse("distributed: {strategy: single, num_gpus: 2}\n"), fails("one GPU, but 2 are asked for"));
  EXPECT_THAT(parse("distributed: {enabled: false, gpu_ids: [0, 1]}\n"), fails("one GPU, but 2 are asked for"));
  EXPECT_THAT(parse("distributed: {strategy: ddp, fsdp_cpu_offload: true}\n"), fails("but the strategy is ddp"));
  EXPECT_THAT(parse("distributed: {strategy: ddp, fsdp_cpu_offload: false}\n"), IsOk());
}

TEST(JobConfig, SectionsOfTheProgramAreLeftToIt) {
  const auto config = parse("training: {lr: 1.0e-5}\ndata: [a, b]\ndistributed: {num_gpus: 2}\n");
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->notes, ElementsAre(HasSubstr("'training' is left to the program"), HasSubstr("'data'")));
  EXPECT_EQ(request_from(*config).count, 2U);
  EXPECT_THAT(parse("seed: 7\n"), fails("has no key 'seed'"));
  EXPECT_THAT(parse("distribted: {num_gpus: 2}\n"), fails("has no key 'distribted'"));
  EXPECT_THAT(parse("distributed: {zero_stage: 2}\n"), fails("distributed has no key"));
  EXPECT_THAT(parse("tool: everything\n"), fails("tool should be one of ignore-unknown"));
}

TEST(JobConfig, AFileMayAskToBeReadInPart) {
  const auto config =
      parse("tool: ignore-unknown\nseed: 7\ndistributed: {zero_stage: 2, num_gpus: 2}\nmodel: {rope: 1}\n");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(request_from(*config).count, 2U);
  EXPECT_THAT(config->notes,
              ElementsAre(HasSubstr("'seed'"), HasSubstr("'distributed.zero_stage'"), HasSubstr("'model.rope'")));
  EXPECT_THAT(parse("tool: ignore-unknown\ndistributed: {num_gpus: 4, gpu_ids: [0]}\n"), fails("num_gpus is 4"));
}

TEST(JobConfig, OtherSectionsSayWhatAModelIsPlannedWith) {
  using Options = std::map<std::string, std::vector<std::string>>;
  const auto config = parse("distributed: {strategy: fsdp, fsdp_cpu_offload: true}\nmodel: {torch_dtype: bfloat16}\n");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(model_options(*config, {}), Options{}) << "no model is planned";
  const Options trained{{"strategy", {"fsdp"}}, {"offload", {"all"}}};
  EXPECT_EQ(model_options(*config, {{"model", {"llama"}}}), trained);
  EXPECT_EQ(model_options(*config, {{"model-size", {"7B"}}, {"task", {"LoRA"}}}), trained);
  const Options weights{{"precision", {"bf16"}}};
  EXPECT_EQ(model_options(*config, {{"model", {"llama"}}, {"task", {"Serve"}}}), weights);
  EXPECT_EQ(model_options(*config, {{"model-size", {"7B"}}}), weights) << "a size alone is not trained";
  EXPECT_EQ(model_options(*parse("model: {torch_dtype: float32}\n"), {{"model", {"llama"}}}),
            (Options{{"precision", {"fp32"}}}));
}

}  // namespace
}  // namespace gpuwarden::placement
