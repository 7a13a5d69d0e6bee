// SPDX-License-Identifier: Apache-2.0
// The files for accelerate and DeepSpeed hold against what these tools take (tests/emit/schemas), whatever the plan.
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <set>

#include "emit/emitted.hpp"
#include "gpuwarden/base/text.hpp"
#include "planning/emit_matrix.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;
using namespace planning;

bool has_jsonschema() {
  const auto done =
      run_patiently({.argv = {kPython, "-c", "import yaml, jsonschema; jsonschema.Draft202012Validator"}});
  return done && done->exit_code == 0;
}

/// A file with something wrong in it, and a word of what the schema says to it.
struct Wrong {
  std::string text;
  std::string complaint;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto found = text.find(what);
  EXPECT_NE(found, std::string::npos) << what << " is not in:\n" << text;
  return found == std::string::npos ? text : text.replace(found, what.size(), by);
}

class Schema : public Emitted {
 protected:
  /// Files of the folder by name: empty where the schema takes it, else its complaint.
  std::map<std::string, std::string> judged(const std::string& schema, const std::string& folder) const {
    const std::string here = GPUWARDEN_EMIT_FOLDER;
    const auto done = run_patiently(
        {.argv = {kPython, here + "/check_schema.py", here + "/schemas/" + schema, (dir_ / folder).string()}});
    EXPECT_TRUE(done && done->exit_code == 0) << (done ? done->standard_error : done.error().message);
    std::map<std::string, std::string> files;
    const std::string verdicts = done ? done->standard_output : "";
    for (const auto line : split(verdicts, '\n')) {
      const auto blank = line.find(' ');
      if (blank == std::string_view::npos) continue;
      const auto verdict = line.substr(blank + 1);
      files[std::string(line.substr(0, blank))] = verdict == "ok" ? "" : verdict;
    }
    return files;
  }

  /// Every different file of the matrix: comments make no difference.
  std::size_t write_matrix(LaunchFormat format, const std::string& ending) const {
    std::set<std::string> seen;
    for (const Launch& launch : launch_matrix()) {
      const auto text = emit(launch, format);
      if (!text) {
        EXPECT_EQ(text.error().code, ErrorCode::unsatisfied);
        continue;
      }
      std::string bare;
      for (const auto line : split(*text, '\n'))
        if (!line.starts_with('#') && !line.starts_with("    \"")) bare += line;
      // The order of lines in ZeRO's section is its nesting: it counts.
      const auto section = text->find("\"zero_optimization\"");
      if (section != std::string::npos) bare += text->substr(section);
      if (seen.insert(bare).second) file(fmt::format("{}/{:04}{}", ending, seen.size(), ending), *text);
    }
    return seen.size();
  }

  void expect_refused(const std::string& schema, const std::string& ending, const std::vector<Wrong>& wrong) const {
    for (std::size_t i = 0; i < wrong.size(); ++i) file(fmt::format("wrong/{:02}{}", i, ending), wrong[i].text);
    const auto files = judged(schema, "wrong");
    for (std::size_t i = 0; i < wrong.size(); ++i)
      EXPECT_THAT(files.at(fmt::format("{:02}{}", i, ending)), HasSubstr(wrong[i].complaint)) << wrong[i].text;
  }

  static Launch launch(std::uint32_t gpus, Sharding sharding, Offload offload = Offload::none) {
    Launch result;
    result.settings.parallel = {.data = gpus, .sharding = sharding, .offload = offload};
    return result;
  }
};

TEST_F(Schema, AccelerateTakesEveryFile) {
  GPUWARDEN_NEEDS(has_jsonschema(), "python3-jsonschema");
  const std::size_t count = write_matrix(LaunchFormat::accelerate, ".yaml");
  const auto files = judged("accelerate.json", ".yaml");
  EXPECT_EQ(files.size(), count);
  EXPECT_GT(count, 200U);
  for (const auto& [name, complaint] : files) EXPECT_EQ(complaint, "") << name;
}

TEST_F(Schema, DeepSpeedTakesEveryFile) {
  GPUWARDEN_NEEDS(has_jsonschema(), "python3-jsonschema");
  const std::size_t count = write_matrix(LaunchFormat::deepspeed, ".json");
  const auto files = judged("deepspeed.json", ".json");
  EXPECT_EQ(files.size(), count);
  EXPECT_GT(count, 200U);
  for (const auto& [name, complaint] : files) EXPECT_EQ(complaint, "") << name;
}

TEST_F(Schema, WhatTheCommandPrintsIsTaken) {
  GPUWARDEN_NEEDS(has_jsonschema(), "python3-jsonschema");
  const std::vector<std::vector<std::string>> plans = {
      {"llama-3.1-8b", "--gpus", "8xh100", "--strategy", "zero3", "--global-batch", "64"},
      {"llama-3.1-8b", "--gpus", "2xa100", "--strategy", "zero2", "--offload", "optimizer", "--precision", "bf16"},
      {"qwen2.5-7b", "--gpus", "4xv100", "--task", "lora", "--strategy", "zero1"},
      {"llama-3.1-70b", "--gpus", "32xh100", "--strategy", "zero3", "--optimizer", "lion"},
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    file(fmt::format("json/{}.json", i), emitted("deepspeed", plans[i]));
    file(fmt::format("yaml/{}.yaml", i), emitted("accelerate", plans[i]));
  }
  file("yaml/fsdp.yaml", emitted("accelerate", {"llama-3.1-8b", "--gpus", "16xh100", "--strategy", "fsdp2"}));
  file("yaml/program.yaml",
       emitted("accelerate", {"gpt2", "--gpus", "t4", "--precision", "mixed", "--program", "a 'b': \"c\"\n- d.py"}));
  for (const auto& [name, complaint] : judged("deepspeed.json", "json")) EXPECT_EQ(complaint, "") << name;
  const auto yaml = judged("accelerate.json", "yaml");
  EXPECT_EQ(yaml.size(), plans.size() + 2);
  for (const auto& [name, complaint] : yaml) EXPECT_EQ(complaint, "") << name;
}

TEST_F(Schema, AccelerateFilesThatAreWrongAreRefused) {
  GPUWARDEN_NEEDS(has_jsonschema(), "python3-jsonschema");
  const std::string first = accelerate_config(launch(8, Sharding::fsdp1)).value();
  const std::string second = accelerate_config(launch(16, Sharding::fsdp2)).value();
  const std::string zero = accelerate_config(launch(16, Sharding::zero3, Offload::all)).value();
  const std::string plain = accelerate_config(launch(8, Sharding::none)).value();
  expect_refused(
      "accelerate.json", ".yaml",
      {{plain + "num_gpus: 8\n", "num_gpus"},
       {replaced(plain, "num_processes: 8", "num_processes: eight"), "num_processes"},
       {replaced(plain, "num_processes: 8", "num_processes: 1"), "num_processes"},
       {replaced(plain, "num_processes: 8\n", ""), "num_processes"},
       {replaced(plain, "MULTI_GPU", "DDP"), "distributed_type"},
       {replaced(plain, "MULTI_GPU", "FSDP"), "fsdp_config"},
       {replaced(plain, "mixed_precision: 'bf16'", "mixed_precision: no"), "mixed_precision"},
       {replaced(plain, "debug: false", "debug: false\ndebug: true"), "twice"},
       {replaced(second, "rdzv_backend: static", "rdzv_backend: c10d"), "rdzv_backend"},
       {replaced(first, "FULL_SHARD", "true"), "fsdp_reshard_after_forward"},
       {replaced(second, "fsdp_reshard_after_forward: true", "fsdp_reshard_after_forward: FULL_SHARD"),
        "fsdp_reshard_after_forward"},
       {replaced(second, "fsdp_version: 2", "fsdp_version: 2\n  fsdp_use_orig_params: true"), "fsdp_use_orig_params"},
       {replaced(first, "fsdp_sync_module_states: true", "fsdp_sync_module_states: false"), "fsdp_sync_module_states"},
       {replaced(first, "BACKWARD_PRE", "BEFORE"), "BEFORE"},
       {replaced(zero, "deepspeed_multinode_launcher: standard", ""), "deepspeed_multinode_launcher"},
       {replaced(zero, "zero_stage: 3", "zero_stage: 4"), "zero_stage"},
       {replaced(zero, "offload_param_device: cpu", "offload_param_device: host"), "offload_param_device"},
       {"fsdp_config: [", "file"}});
}

TEST_F(Schema, DeepSpeedFilesThatAreWrongAreRefused) {
  GPUWARDEN_NEEDS(has_jsonschema(), "python3-jsonschema");
  const std::string second = deepspeed_config(launch(8, Sharding::zero2)).value();
  const std::string third = deepspeed_config(launch(8, Sharding::zero3, Offload::all)).value();
  expect_refused(
      "deepspeed.json", ".json",
      {{replaced(second, "\"stage\": 2", "\"stage\": 4"), "stage"},
       {replaced(second, "\"stage\": 2", "\"stage\": 2, \"stage3_prefetch_bucket_size\": 1"), "stage3_prefetch"},
       {replaced(second, "overlap_comm", "overlap_com"), "overlap_com"},
       {replaced(second, "\"reduce_bucket_size\": 500000000", "\"reduce_bucket_size\": 5e8.0"), "file"},
       {replaced(second, "\"reduce_bucket_size\": 500000000", "\"reduce_bucket_size\": -1"), "reduce_bucket"},
       {replaced(second, "\"train_batch_size\": 8", "\"train_batch_size\": 0"), "train_batch_size"},
       {replaced(second, "\"train_batch_size\": 8,", ""), "train_batch_size"},
       {replaced(second, "\"train_batch_size\"", "\"train_batch\""), "train_batch"},
       {replaced(second, "\"steps_per_print\"", "\"train_batch_size\""), "twice"},
       {replaced(second, "\"enabled\": false", "\"enabled\": true"), "should not be valid"},
       {replaced(third, "\"device\": \"cpu\"", "\"device\": \"host\""), "device"},
       {replaced(third, "\"device\": \"cpu\"", "\"device\": \"nvme\""), "nvme_path"},
       {replaced(third, "\"stage\": 3", "\"stage\": 2"), "zero_optimization"},
       {"[]", "object"},
       {"", "file"}});
}

}  // namespace
}  // namespace gpuwarden::testing
