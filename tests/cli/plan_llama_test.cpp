// SPDX-License-Identifier: Apache-2.0
// Lines of llama.cpp's and ollama's users behind gpuwarden plan.
#include "cli/program.hpp"

namespace gpuwarden {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;

class PlanLlama : public Program {
 protected:
  nlohmann::json plan(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    return json(std::move(words));
  }
  std::string text(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    return run(words).standard_output;
  }
};

TEST_F(PlanLlama, APastedLineSaysWhichGpuHoldsWhichLayers) {
  const std::vector<std::string> line = {"llama-server", "-m",       "Llama-3.3-70B-Instruct-Q4_K_M.gguf",
                                         "-ngl",         "99",       "-c",
                                         "32768",        "-fa",      "on",
                                         "-ctk",         "q8_0",     "-ctv",
                                         "q8_0",         "-np",      "4",
                                         "-ts",          "3,1",      "-sm",
                                         "layer",        "--mmproj", "mmproj.gguf",
                                         "--gpus",       "2xa6000"};
  const auto answer = plan(line);
  EXPECT_EQ(answer["recommended"]["name"], "layer split over 2");
  EXPECT_EQ(answer["recommended"]["settings"]["quantization"], "Q4_K_M");
  EXPECT_EQ(answer["recommended"]["settings"]["tensor_parallel"], 1);
  const auto& layers = answer["serving"]["layers"];
  EXPECT_EQ(layers["mode"], "layer");
  EXPECT_EQ(layers["gpus"][0]["layers"], 61);
  EXPECT_EQ(layers["gpus"][1]["layers"], 19);
  EXPECT_EQ(layers["gpus"][1]["output"], true);
  EXPECT_EQ(layers["options"],
            "-ngl all -c 32768 --split-mode layer --tensor-split 3,1 -fa on -ctk q8_0 -ctv q8_0 -np 4");
  // 32768 tokens of 80 layers, two of eight heads of 128, in blocks of 34 bytes.
  EXPECT_NEAR(layers["gpus"][0]["cache_bytes"].get<double>() + layers["gpus"][1]["cache_bytes"].get<double>(),
              32768.0 * 80 * 2 * 8 * 128 * 34 / 32, 100);
  const std::string shown = text(line);
  EXPECT_THAT(shown, AllOf(HasSubstr("GPU 0                  61 layers, 0 to 60: weights"),
                           HasSubstr("GPU 1                  19 layers, 61 to 79, and the output: weights"),
                           HasSubstr("host                   the input's embedding: weights"), Not(HasSubstr("TP"))));
}

TEST_F(PlanLlama, WhatNeedsNoMemoryOfTheGpuIsLeftOut) {
  const std::vector<std::string> line = {"llama-server", "-m", "phi-4-Q4_K_M.gguf", "-c", "8192", "--gpus", "rtx3060"};
  std::vector<std::string> longer = line;
  longer.insert(longer.end(), {"-t", "8", "--port", "8080", "--jinja", "-cb", "-mg", "0", "-p", "hello"});
  EXPECT_EQ(plan(longer), plan(line));
}

TEST_F(PlanLlama, LayersThatStayWithTheCpuAreCountedThere) {
  const std::vector<std::string> line = {
      "llama-server", "-m", "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "-ngl", "17", "-c", "8192", "--gpus", "rtx4060"};
  const auto some = plan(line);
  EXPECT_EQ(some["serving"]["layers"]["host"]["layers"], 16);
  EXPECT_EQ(some["per_gpu"]["host_bytes"], some["serving"]["layers"]["host"]["weights_bytes"].get<std::int64_t>() +
                                               some["serving"]["layers"]["host"]["cache_bytes"].get<std::int64_t>());
  EXPECT_THAT(text(line),
              AllOf(HasSubstr("the input's embedding, and 16 layers, 0 to 15: weights"),
                    HasSubstr("options                -ngl 17 -c 8192 -fa on"), Not(HasSubstr("for each GPU"))));
}

TEST_F(PlanLlama, OllamasTagsAreItsFilesAndItsContext) {
  const auto answer = plan({"ollama", "run", "llama3.1:70b-instruct-q4_K_M", "--gpus", "l40s"});
  EXPECT_EQ(answer["serving"]["engine"], "ollama");
  EXPECT_EQ(answer["serving"]["length"], "usual");
  EXPECT_EQ(answer["serving"]["layers"]["options"], "OLLAMA_CONTEXT_LENGTH=32768");
  EXPECT_EQ(answer["recommended"].is_null() ? "Q4_K_M" : answer["recommended"]["settings"]["quantization"], "Q4_K_M");
  EXPECT_EQ(plan({"qwen3:8b", "--gpus", "rtx4090"})["serving"]["layers"]["options"], "OLLAMA_CONTEXT_LENGTH=32768");
  EXPECT_EQ(plan({"qwen3:8b", "--gpus", "rtx4060"})["serving"]["layers"]["options"], "OLLAMA_CONTEXT_LENGTH=4096");
  EXPECT_EQ(plan({"ollama", "run", "qwen3:8b", "--gpus", "rtx4060"}), plan({"qwen3:8b", "--gpus", "rtx4060"}));
}

TEST_F(PlanLlama, ItsNewerProgramIsTheSame) {
  const auto server = plan({"llama-server", "-hf", "Qwen/Qwen3-8B-GGUF:Q8_0", "-c", "4096", "--gpus", "rtx4090"});
  EXPECT_EQ(plan({"llama", "serve", "-hf", "Qwen/Qwen3-8B-GGUF:Q8_0", "-c", "4096", "--gpus", "rtx4090"}), server);
  EXPECT_EQ(plan({"llama", "cli", "-hf", "Qwen/Qwen3-8B-GGUF:Q8_0", "-c", "4096", "--gpus", "rtx4090"}), server);
}

TEST_F(PlanLlama, AFileOfARepositorySaysMoreThanTheRepository) {
  EXPECT_EQ(plan({"llama-server", "--hf-repo", "bartowski/Llama-3.2-1B-Instruct-GGUF", "--hf-file",
                  "Llama-3.2-1B-Instruct-Q8_0.gguf", "-c", "4096", "--gpus", "rtx3060"}),
            plan({"llama-server", "-m", "Llama-3.2-1B-Instruct-Q8_0.gguf", "-c", "4096", "--gpus", "rtx3060"}));
}

TEST_F(PlanLlama, AnotherEnginesLineKeepsItsEngine) {
  const auto answer = plan({"vllm", "serve", "Qwen3-8B-Q4_K_M.gguf", "--max-model-len", "8192", "--gpus", "rtx4090"});
  EXPECT_EQ(answer["serving"]["engine"], "vllm");
  EXPECT_TRUE(answer["serving"]["layers"].is_null());
}

TEST_F(PlanLlama, WithoutFlashAttentionNoValuesInBlocks) {
  expect_error({"plan", "llama-server", "-m", "qwen3-8b", "-ctv", "q8_0", "-fa", "off", "--gpus", "rtx4090"}, 2,
               "only with flash attention");
  const auto buffer = [&](const char* flash) {
    return plan({"llama-server", "-m", "qwen3-8b", "-c", "32768", "-fa", flash, "--gpus",
                 "rtx4090"})["serving"]["activations_bytes"]
        .get<double>();
  };
  EXPECT_GT(buffer("off"), 3 * buffer("on"));
}

TEST_F(PlanLlama, AWidthThatNobodyHasIsRefused) {
  expect_error({"plan", "qwen3-8b", "--quantization", "Q4_K_X", "--gpus", "rtx4090"}, 2, "unknown value 'Q4_K_X'");
  expect_error({"plan", "turboderp/Qwen3-8B-exl3", "--gpus", "rtx4090"}, 2, "does not say how many bits");
}

}  // namespace
}  // namespace gpuwarden
