// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/pasted_line.hpp"

#include <set>

#include "gpuwarden/planning/foreign_options.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PastedLine, AServersLineNamesItsTaskAndItsEngine) {
  const auto vllm = read_pasted_line("CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen3-8B -tp 2 --max_model_len=8192");
  ASSERT_THAT(vllm, IsOk());
  EXPECT_EQ(vllm->words.list("model"), std::vector<std::string>{"Qwen/Qwen3-8B"});
  EXPECT_EQ(vllm->words.text("task"), "serve");
  EXPECT_EQ(vllm->words.text("tensor-parallel"), "2");
  EXPECT_EQ(vllm->words.text("sequence"), "8192");
  const auto llama = read_pasted_line("./llama-server -hf Qwen/Qwen3-8B -c 4096 -np 4 -fa off");
  ASSERT_THAT(llama, IsOk());
  EXPECT_EQ(llama->words.text("engine"), "llama.cpp");
  EXPECT_EQ(llama->words.text("max-requests"), "4");
  EXPECT_EQ(llama->words.text("attention"), "eager");
}

TEST(PastedLine, AnImageBehindDockerRunStandsForItsProgram) {
  EXPECT_THAT(without_launcher({"docker", "run", "--gpus", "all", "vllm/vllm-openai:latest", "--model", "gpt2"}),
              ElementsAre("--task", "serve", "--engine", "vllm", "--model", "gpt2"));
}

TEST(PastedLine, ATrainersLineNamesNoTask) {
  const auto line = read_pasted_line(
      "accelerate launch train.py --model_name_or_path gpt2 --per_device_train_batch_size 4 "
      "--lora_target_modules q_proj,v_proj o_proj --gradient_checkpointing True --torch_compile");
  ASSERT_THAT(line, IsOk());
  EXPECT_FALSE(line->words.has("task"));
  EXPECT_EQ(line->words.text("model"), "gpt2");
  EXPECT_EQ(line->words.text("micro-batch"), "4");
  EXPECT_EQ(line->words.text("recompute"), "full");
  EXPECT_THAT(line->words.list("lora-targets"), ElementsAre("q_proj", "v_proj", "o_proj"));
  EXPECT_TRUE(line->words.has("compile"));
}

TEST(PastedLine, WhatNoMemoryDependsOnIsReadPastAndTold) {
  const auto line = read_pasted_line("vllm serve gpt2 --port 8000 --bf16 True --trust-remote-code --host=::");
  ASSERT_THAT(line, IsOk());
  EXPECT_THAT(line->words.list("model"), ElementsAre("gpt2")) << "8000 and True are values";
  ASSERT_EQ(line->needless.size(), 2U);
  EXPECT_EQ(line->needless[0],
            "--port, --trust-remote-code, --host are not needed: no memory of the GPU depends on it");
  EXPECT_THAT(line->needless[1], HasSubstr("--bf16 is not needed: 16 bit"));
}

TEST(PastedLine, WhatCannotBePlannedSaysWhatToWrite) {
  const auto lora = read_pasted_line("python train.py --use_peft --model gpt2");
  ASSERT_THAT(lora, FailsWith(ErrorCode::invalid_argument, HasSubstr("unknown option '--use_peft'")));
  EXPECT_EQ(lora.error().hint, "write --task lora");
  const auto refused = [](std::string_view line, std::string_view message) {
    EXPECT_THAT(read_pasted_line(line), FailsWith(ErrorCode::invalid_argument, HasSubstr(message))) << line;
  };
  refused("vllm serve gpt2 --voodoo", "unknown option '--voodoo'");
  refused("vllm serve gpt2 --port", "--port needs a value");
  refused("python train.py --model gpt2 --compile=yes", "--compile takes no value");
  refused("vllm serve gpt2 --tp", "--tp needs a value");
  refused("vllm serve gpt2 --tp 2 -tp 4", "--tensor-parallel is given more than once");
  refused("vllm serve gpt2 bert", "one model at a time: 'bert' is the second");
  refused("vllm serve 'gpt2", "quote");
}

TEST(ForeignOptions, EachNameIsOfOneOptionAndNeedsAReason) {
  std::set<std::string_view> seen;
  for (const ForeignOption& row : kForeignOptions) {
    EXPECT_TRUE(seen.insert(row.typed).second) << row.typed << " stands twice";
    EXPECT_FALSE(std::string_view(row.hint).empty()) << row.typed;
  }
  EXPECT_EQ(foreign_names_of("sequence"), kForeignNames[2].also);
  EXPECT_THAT(std::string(foreign_names_of("tokens")), IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::planning
