// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden plan --emit` prints has the numbers that the same plan shows with --json.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "emit/emitted.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class Agreement : public Emitted {
 protected:
  Json recommended(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    return Program::json(words).at("recommended");
  }
};

std::string noted(const char* name, const Json& value) {
  return fmt::format("{}: {}", name, value.is_string() ? value.get<std::string>() : value.dump());
}

TEST_F(Agreement, DeepSpeedsBatchIsThatOfThePlan) {
  for (const char* strategy : {"zero1", "zero2", "zero3"}) {
    for (const char* gpus : {"1xh100", "8xh100", "16xh100"}) {
      const std::vector<std::string> words = {
          "llama-3.2-1b", "--gpus", gpus, "--strategy", strategy, "--offload", "optimizer", "--global-batch", "128"};
      const Json plan = recommended(words);
      const Json written = Json::parse(emitted("deepspeed", words));
      const Json& settings = plan["settings"];
      EXPECT_EQ(written["train_batch_size"], 128);
      EXPECT_EQ(written["train_batch_size"], plan["effective_batch"]);
      EXPECT_EQ(written["train_micro_batch_size_per_gpu"], settings["micro_batch"]);
      EXPECT_EQ(written["gradient_accumulation_steps"], settings["accumulation"]);
      EXPECT_EQ(settings["micro_batch"].get<int>() * settings["accumulation"].get<int>() *
                    settings["data_parallel"].get<int>(),
                128);
      EXPECT_EQ(written["zero_optimization"]["offload_optimizer"]["device"], "cpu");
    }
  }
}

TEST_F(Agreement, EveryFormatNotesWhatThePlanCountsOn) {
  const std::vector<std::vector<std::string>> plans = {
      {"llama-3.2-1b", "--gpus", "8xh100", "--strategy", "zero3", "--global-batch", "256", "--sequence", "4096"},
      {"gpt2-xl", "--gpus", "2xv100", "--strategy", "zero2", "--optimizer", "adafactor", "--attention", "eager"},
      {"qwen2.5-7b", "--gpus", "4xa100", "--strategy", "zero3", "--task", "lora", "--loss", "fused"},
  };
  for (const auto& words : plans) {
    const Json settings = recommended(words)["settings"];
    for (const char* format : {"torchrun", "accelerate", "deepspeed", "slurm"}) {
      const std::string text = emitted(format, words);
      EXPECT_THAT(text, HasSubstr(noted("samples per GPU (per_device_train_batch_size)", settings["micro_batch"])));
      EXPECT_THAT(text, HasSubstr(noted("(gradient_accumulation_steps)", settings["accumulation"])));
      EXPECT_THAT(text, HasSubstr(noted("tokens of a sample", settings["sequence"])));
      EXPECT_THAT(text, HasSubstr(noted("optimizer", settings["optimizer"])));
      EXPECT_THAT(text, HasSubstr(noted("recomputation (gradient_checkpointing)", settings["recompute"])));
      EXPECT_THAT(text, HasSubstr(noted("loss", settings["loss"])));
    }
  }
}

TEST_F(Agreement, WhatDoesNotFitIsNotEmitted) {
  for (const char* format : {"torchrun", "accelerate", "deepspeed", "slurm"}) {
    const auto done = run({"plan", "llama-3.1-70b", "--gpus", "t4", "--emit", format});
    EXPECT_EQ(done.exit_code, 1) << format;
    EXPECT_EQ(done.standard_output, "");
    EXPECT_THAT(done.standard_error, HasSubstr("plan without --emit"));
  }
  expect_error({"plan", "gpt2", "--gpus", "t4", "--emit", "mpi"}, 2, "unknown value 'mpi'");
  expect_error({"plan", "gpt2", "--gpus", "t4", "--task", "serve", "--emit", "slurm"}, 1, "--emit starts training");
}

}  // namespace
}  // namespace gpuwarden::testing
