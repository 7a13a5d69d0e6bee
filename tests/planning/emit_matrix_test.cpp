// SPDX-License-Identifier: Apache-2.0
// Whatever the plan: the numbers in what is emitted are the plan's.
#include "planning/emit_matrix.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

using Fields = std::map<std::string, std::string>;

/// The flat YAML that is emitted: "key: value", two blanks deeper in a section ("section.key").
Fields fields_of(std::string_view yaml) {
  Fields fields;
  std::string section;
  for (const auto line : split(yaml, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    const auto colon = line.find(':');
    std::string key(trim(line.substr(0, colon)));
    std::string value(trim(line.substr(colon + 1)));
    if (value.starts_with('\'')) value = value.substr(1, value.size() - 2);
    if (!line.starts_with(' ')) section = value.empty() ? key + "." : "";
    if (value.empty()) continue;
    EXPECT_TRUE(fields.emplace((line.starts_with(' ') ? section : "") + key, value).second) << key << " is there twice";
  }
  return fields;
}

/// The words behind "#   name: " in the comments.
std::string noted(std::string_view text, std::string_view name) {
  for (const auto line : split(text, '\n')) {
    const auto words = trim(line.substr(std::min<std::size_t>(line.size(), 1)));
    if (words.starts_with(name) && words.substr(name.size()).starts_with(": "))
      return std::string(words.substr(name.size() + 2));
  }
  return {};
}

/// The number behind the first `option`.
std::int64_t number_after(std::string_view text, std::string_view option) {
  const auto found = text.find(option);
  if (found == std::string_view::npos) return -1;
  auto rest = text.substr(found + option.size());
  rest = rest.substr(0, rest.find_first_not_of("0123456789"));
  return parse_integer(rest).value_or(-1);
}

bool is_fsdp(Sharding sharding) { return sharding == Sharding::fsdp1 || sharding == Sharding::fsdp2; }

/// The stage under which DeepSpeed runs the plan; 0: it does not. Offloading takes stage 2 for states, 3 for weights.
int stage_of(const Parallelism& parallel) {
  if (is_fsdp(parallel.sharding)) return 0;
  if (parallel.sharding == Sharding::zero3 || parallel.offload == Offload::all) return 3;
  if (parallel.sharding == Sharding::zero2 || parallel.offload == Offload::optimizer) return 2;
  return parallel.sharding == Sharding::zero1 ? 1 : 0;
}

std::string type_of(const Parallelism& parallel) {
  if (is_fsdp(parallel.sharding)) return "FSDP";
  if (stage_of(parallel) > 0) return "DEEPSPEED";
  return parallel.gpus() > 1 ? "MULTI_GPU" : "NO";
}

/// The 16-bit type that is computed in, or "no".
std::string half_of(const Launch& launch) {
  const Precision precision = launch.settings.precision;
  if (precision == Precision::fp32) return "no";
  return launch.ampere && precision != Precision::fp16 ? "bf16" : "fp16";
}

/// What accelerate is to cast to: nothing where the weights are loaded in that type.
std::string cast_of(const Launch& launch) {
  const Precision precision = launch.settings.precision;
  const bool adapters = launch.settings.task == Task::adapters;
  if (stage_of(launch.settings.parallel) > 0) return half_of(launch);
  if (precision == Precision::bf16) return "no";
  if (precision == Precision::fp16) return adapters ? "fp16" : "no";
  return half_of(launch);
}

/// Weights that are stored in fp16 and all trained: no tool but DeepSpeed scales their loss.
bool is_plain_fp16(const Launch& launch) {
  const Precision precision = launch.settings.precision;
  return launch.settings.task == Task::full_training && stage_of(launch.settings.parallel) == 0 &&
         (precision == Precision::fp16 || (precision == Precision::bf16 && !launch.ampere) ||
          // FSDP stores them in fp32 all the same.
          (precision == Precision::mixed_low && !launch.ampere && !is_fsdp(launch.settings.parallel.sharding)));
}

std::string describe(const Launch& launch) {
  const Settings& s = launch.settings;
  return fmt::format("{} {} {} on {} GPUs ({}), {}, offload {}, recompute {}, micro-batch {} x {}", to_string(s.task),
                     to_string(s.precision), to_string(s.parallel.sharding), s.parallel.gpus(),
                     launch.ampere ? "ampere" : "older", to_string(s.optimizer), to_string(s.parallel.offload),
                     to_string(s.recompute), s.micro_batch, s.accumulation);
}

void check_fsdp(const Fields& fields, const Settings& s) {
  const bool second = s.parallel.sharding == Sharding::fsdp2;
  EXPECT_EQ(fields.at("fsdp_config.fsdp_version"), second ? "2" : "1");
  EXPECT_EQ(fields.at("fsdp_config.fsdp_reshard_after_forward"), second ? "true" : "FULL_SHARD");
  EXPECT_EQ(fields.at("fsdp_config.fsdp_offload_params"), s.parallel.offload == Offload::none ? "false" : "true");
  EXPECT_EQ(fields.at("fsdp_config.fsdp_activation_checkpointing"), s.recompute == Recompute::full ? "true" : "false");
  EXPECT_EQ(fields.contains("fsdp_config.fsdp_backward_prefetch"), !second);
}

void check_zero(const Fields& fields, const Launch& launch) {
  const Settings& s = launch.settings;
  const int stage = stage_of(s.parallel);
  EXPECT_EQ(fields.at("deepspeed_config.zero_stage"), std::to_string(stage));
  EXPECT_EQ(fields.at("deepspeed_config.gradient_accumulation_steps"), std::to_string(s.accumulation));
  EXPECT_EQ(fields.at("deepspeed_config.offload_optimizer_device"),
            s.parallel.offload == Offload::none ? "none" : "cpu");
  EXPECT_EQ(fields.at("deepspeed_config.offload_param_device"), s.parallel.offload == Offload::all ? "cpu" : "none");
  EXPECT_EQ(fields.at("deepspeed_config.zero3_init_flag"), stage == 3 ? "true" : "false");
  EXPECT_EQ(fields.contains("deepspeed_config.deepspeed_multinode_launcher"), s.parallel.gpus() > 8);
}

TEST(EmitMatrix, IsBroad) {
  const auto all = launch_matrix();
  EXPECT_GT(all.size(), 5000U);
  std::set<std::string> different;
  for (const Launch& launch : all) different.insert(describe(launch));
  EXPECT_EQ(different.size(), all.size());
}

TEST(EmitMatrix, AccelerateSaysThePlan) {
  for (const Launch& launch : launch_matrix()) {
    SCOPED_TRACE(describe(launch));
    const Settings& s = launch.settings;
    const auto text = accelerate_config(launch);
    if (is_plain_fp16(launch)) {
      ASSERT_FALSE(text);
      EXPECT_EQ(text.error().code, ErrorCode::unsatisfied);
      continue;
    }
    ASSERT_TRUE(text) << text.error().message;
    const Fields fields = fields_of(*text);
    const std::string type = type_of(s.parallel);
    EXPECT_EQ(fields.at("distributed_type"), type);
    EXPECT_EQ(fields.at("num_processes"), std::to_string(s.parallel.gpus()));
    EXPECT_EQ(fields.at("num_machines"), std::to_string(std::max(1U, s.parallel.gpus() / 8)));
    EXPECT_EQ(fields.at("mixed_precision"), cast_of(launch));
    EXPECT_EQ(fields.at("rdzv_backend"), "static");
    if (type == "FSDP") check_fsdp(fields, s);
    if (type == "DEEPSPEED") check_zero(fields, launch);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EmitMatrix, OnlyOneOfTwoRecomputes) {
  for (const Launch& launch : launch_matrix()) {
    const auto text = accelerate_config(launch);
    if (!text) continue;
    const bool itself = text->contains("fsdp_activation_checkpointing: true");
    EXPECT_EQ(text->contains("gradient_checkpointing stays off"), itself) << describe(launch);
    EXPECT_EQ(text->contains("recomputation (gradient_checkpointing): "), !itself) << describe(launch);
    if (::testing::Test::HasFailure()) return;
  }
}

void check_deepspeed(const nlohmann::json& json, const Launch& launch) {
  const Settings& s = launch.settings;
  const auto& zero = json["zero_optimization"];
  const bool offloads = s.parallel.offload != Offload::none;
  EXPECT_EQ(json["train_batch_size"], json["train_micro_batch_size_per_gpu"].get<int>() *
                                          json["gradient_accumulation_steps"].get<int>() *
                                          static_cast<int>(s.parallel.gpus()));
  EXPECT_EQ(json["train_micro_batch_size_per_gpu"], s.micro_batch);
  EXPECT_EQ(json["gradient_accumulation_steps"], s.accumulation);
  EXPECT_EQ(zero["stage"], stage_of(s.parallel));
  EXPECT_EQ(zero.contains("offload_optimizer"), offloads);
  EXPECT_EQ(zero.contains("offload_param"), s.parallel.offload == Offload::all);
  EXPECT_EQ(json["bf16"]["enabled"], half_of(launch) == "bf16");
  EXPECT_EQ(json["fp16"]["enabled"], half_of(launch) == "fp16");
  const bool tried = s.optimizer == Optimizer::adamw;
  EXPECT_EQ(json.value("zero_allow_untested_optimizer", false), !tried);
  EXPECT_EQ(json.value("zero_force_ds_cpu_optimizer", true), tried || !offloads);
  EXPECT_EQ(json["_plan"].dump().contains("DeepSpeedCPUAdam"), tried && offloads);
}

TEST(EmitMatrix, DeepSpeedSaysThePlan) {
  for (const Launch& launch : launch_matrix()) {
    SCOPED_TRACE(describe(launch));
    const auto text = deepspeed_config(launch);
    ASSERT_EQ(text.has_value(), stage_of(launch.settings.parallel) > 0);
    if (text) check_deepspeed(nlohmann::json::parse(*text), launch);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EmitMatrix, CommandLinesCountTheGpus) {
  for (const Launch& launch : launch_matrix()) {
    SCOPED_TRACE(describe(launch));
    const std::uint32_t gpus = launch.settings.parallel.gpus();
    const auto nodes = std::max<std::int64_t>(1, gpus / 8);
    const std::string text = torchrun_commands(launch).value();
    EXPECT_EQ(number_after(text, "gpuwarden run -n ") * nodes, gpus);
    EXPECT_EQ(number_after(text, "--nproc_per_node=") * nodes, gpus);
    EXPECT_EQ(number_after(text, "--nnodes="), nodes > 1 ? nodes : -1);
    EXPECT_EQ(number_after(text, "--nnodes "), nodes > 1 ? nodes : -1);
    EXPECT_EQ(text.contains("--master-port 29500"), nodes > 1);
    EXPECT_EQ(noted(text, "samples per GPU (per_device_train_batch_size)"),
              std::to_string(launch.settings.micro_batch));
    EXPECT_EQ(noted(text, "gradient accumulation (gradient_accumulation_steps)"),
              std::to_string(launch.settings.accumulation));
    EXPECT_EQ(noted(text, "tokens of a sample"), std::to_string(launch.settings.sequence));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EmitMatrix, SlurmAsksForWhatThePlanTakes) {
  for (const Launch& launch : launch_matrix()) {
    SCOPED_TRACE(describe(launch));
    const std::uint32_t gpus = launch.settings.parallel.gpus();
    const std::string text = slurm_script(launch).value();
    const auto nodes = number_after(text, "#SBATCH --nodes=");
    const auto of_each = number_after(text, "#SBATCH --gres=gpu:");
    EXPECT_EQ(nodes * of_each, gpus);
    EXPECT_EQ(number_after(text, "--nproc_per_node="), of_each);
    EXPECT_EQ(number_after(text, "#SBATCH --cpus-per-task="),
              of_each * (launch.cpus_per_gpu > 0 ? launch.cpus_per_gpu : 4));
    const auto mebibytes = static_cast<std::int64_t>(launch.host_memory_per_node.value >> 20U);
    EXPECT_EQ(number_after(text, "#SBATCH --mem="), mebibytes > 0 ? mebibytes + 1 : -1);
    EXPECT_EQ(number_after(text, "#SBATCH --time="), launch.time ? launch.time->count() : -1);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(EmitMatrix, NodesOfOtherSizesAreFilledToo) {
  for (const std::uint32_t per_node : {1U, 2U, 4U, 6U, 8U, 16U}) {
    for (const std::uint32_t of : {1U, 2U, 3U, 7U}) {
      Launch launch;
      launch.gpus_per_node = per_node;
      launch.settings.parallel = {.data = per_node * of, .sharding = Sharding::zero3};
      const Nodes nodes = nodes_of(launch).value();
      EXPECT_EQ(nodes.nodes, of);
      EXPECT_EQ(nodes.gpus, per_node);
      EXPECT_EQ(number_after(slurm_script(launch).value(), "#SBATCH --nodes="), of);
      launch.settings.parallel.data = per_node * of + 1;
      EXPECT_EQ(nodes_of(launch).has_value(), per_node == 1) << per_node << " x " << of << " + 1";
    }
  }
}

}  // namespace
}  // namespace gpuwarden::planning
