// SPDX-License-Identifier: Apache-2.0
// Command lines of other programs behind gpuwarden plan, and lengths as they write them.
#include "cli/program.hpp"

namespace gpuwarden {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;

constexpr std::string_view kLinesConfig = R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,
  "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,
  "max_position_embeddings":131072,"tie_word_embeddings":false,"torch_dtype":"bfloat16"})";

class PlanLines : public Program {
 protected:
  nlohmann::json plan(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    return json(std::move(words));
  }
};

TEST_F(PlanLines, WordsThatStartAProgramAreLeftOut) {
  const std::vector<std::string> tail = {"--gpus", "2xa100", "--max-model-len", "8192", "-tp", "2"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), tail.begin(), tail.end());
    return plan(std::move(words));
  };
  const auto own = with({"qwen3-8b", "--task", "serve"});
  EXPECT_EQ(with({"vllm", "serve", "Qwen/Qwen3-8B"}), own);
  EXPECT_EQ(with({"serve", "Qwen/Qwen3-8B"}), own);
  EXPECT_EQ(with({"CUDA_VISIBLE_DEVICES=0,1", "python", "-m", "vllm.entrypoints.openai.api_server", "--model",
                  "Qwen/Qwen3-8B"}),
            own);
  const auto by = [&](const char* engine) { return with({"qwen3-8b", "--task", "serve", "--engine", engine}); };
  EXPECT_EQ(with({"python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B"}), by("sglang"));
  const auto llama = plan({"qwen3-8b", "-c", "8192", "--gpus", "2xa100", "--task", "serve", "--engine", "llama.cpp"});
  EXPECT_EQ(plan({"./build/bin/llama-server", "-m", "qwen3-8b", "-ngl", "99", "-fa", "on", "-c", "8192", "--gpus",
                  "2xa100", "-b", "512"}),
            llama);
  EXPECT_EQ(plan({"llama-server", "-hf", "Qwen/Qwen3-8B", "-fa", "-c", "8192", "--gpus", "2xa100"}), llama);
  EXPECT_EQ(with({"trtllm-serve", "serve", "Qwen/Qwen3-8B"}), by("tensorrt-llm"));
  // Options of gpuwarden's own may stand before it.
  EXPECT_EQ(plan({"--gpus", "2xa100", "--max-model-len", "8192", "-tp", "2", "vllm", "serve", "Qwen/Qwen3-8B"}), own);
  EXPECT_EQ(plan({"--gpus", "2xa100", "--max-model-len", "8192", "-tp", "2", "CUDA_VISIBLE_DEVICES=0", "python3.11",
                  "-m", "vllm.entrypoints.openai.api_server", "--model", "Qwen/Qwen3-8B"}),
            own);
  EXPECT_EQ(plan({"--gpus", "2xa100", "--max-model-len", "8192", "-tp", "2", "--engine", "sglang", "vllm", "serve",
                  "Qwen/Qwen3-8B"}),
            by("sglang"));
  EXPECT_EQ(plan({"--gpus", "l4", "--task", "train", "vllm", "serve", "gpt2"}), plan({"gpt2", "--gpus", "l4"}));
  // A task that is named stays.
  EXPECT_EQ(plan({"vllm", "serve", "gpt2", "--gpus", "l4", "--task", "train"}), plan({"gpt2", "--gpus", "l4"}));
  EXPECT_EQ(plan({"./llama-server", "-m", "/models/Qwen3-8B-Q4_K_M.gguf", "-c", "8192", "--gpus", "l4"}),
            plan({"Qwen3-8B-Q4_K_M.gguf", "--sequence", "8192", "--gpus", "l4"}));
  expect_error({"plan", "vllm", "serve", "--gpus", "l4"}, 2, "no model is given");
  expect_error({"plan", "--gpus", "l4", "vllm serv gpt2"}, 2, "did you mean 'vllm serve'?");
  expect_error({"plan", "llamafactory-cli train --stage=dpo --model_name_or_path gpt2", "--gpus", "l4"}, 2,
               "'--stage dpo' is not planned");
}

TEST_F(PlanLines, WhatAServersOwnOptionsSayIsCounted) {
  const auto sglang =
      plan({"python -m sglang.launch_server --model-path Qwen/Qwen3-8B --mem-fraction-static 0.6", "--gpus", "l40s"});
  EXPECT_EQ(sglang["serving"]["engine"], "sglang");
  const auto usual = plan({"python -m sglang.launch_server --model-path Qwen/Qwen3-8B", "--gpus", "l40s"});
  EXPECT_LT(sglang["serving"]["cache_bytes"].get<double>(), 0.7 * usual["serving"]["cache_bytes"].get<double>());
  const auto high =
      plan({"python -m sglang.launch_server --model-path Qwen/Qwen3-8B --mem-fraction-static 0.99", "--gpus", "l40s"});
  EXPECT_THAT(high["notes"].dump(), HasSubstr("may run out of memory when prompts come"));
  const auto draft = plan({"llama-server -m Qwen3-32B-Q4_K_M.gguf -c 8192 -md Qwen3-0.6B-Q8_0.gguf", "--gpus", "l40s"});
  EXPECT_THAT(draft["notes"].dump(), HasSubstr("the draft model Qwen/Qwen3-0.6B is counted beside it"));
  const auto unknown = plan({"llama-server -m Qwen3-32B-Q4_K_M.gguf -c 8192 -md mine.gguf", "--gpus", "l40s"});
  EXPECT_THAT(unknown["notes"].dump(), HasSubstr("the draft model is left out: no model 'mine"));
  EXPECT_LT(draft["serving"]["cache_bytes"].get<double>(), unknown["serving"]["cache_bytes"].get<double>());
  const auto tgi =
      plan({"text-generation-launcher --model-id Qwen/Qwen3-8B --max-total-tokens 8192", "--gpus", "l40s"});
  EXPECT_EQ(tgi["serving"]["engine"], "tgi");
  EXPECT_NE(tgi["verdict"], "does_not_fit");
}

TEST_F(PlanLines, AQuotedLineIsReadAsItsWords) {
  const auto own = plan({"--gpus", "t4", "vllm", "serve", "Qwen/Qwen3-4B", "--max-model-len", "8192"});
  EXPECT_EQ(own["serving"]["engine"], "vllm");
  EXPECT_EQ(plan({"--gpus", "t4", "vllm serve Qwen/Qwen3-4B --max-model-len 8192"}), own);
  EXPECT_EQ(plan({"vllm serve 'Qwen/Qwen3-4B' \\\n  --max-model-len 8192", "--gpus", "t4"}), own);
  EXPECT_EQ(plan({"--json", "CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-4B --max-model-len=8192", "--gpus", "t4"}),
            own);
  EXPECT_EQ(
      plan({"python -m sglang.launch_server --model-path Qwen/Qwen3-235B-A22B-FP8 --tp 4", "--gpus", "4xh200"}),
      plan({"Qwen/Qwen3-235B-A22B-FP8", "--task", "serve", "--engine", "sglang", "-tp", "4", "--gpus", "4xh200"}));
  EXPECT_EQ(plan({"cd models && vllm serve Qwen/Qwen3-4B --max-model-len 8192", "--gpus", "t4"}), own);
  expect_error({"plan", "vllm serve 'Qwen/Qwen3-4B", "--gpus", "t4"}, 2, "a command line, not a model's name");
  // A program's own line is the value of --program, and what starts no program is no line.
  expect_error({"plan", "Qwen/Qwen3-4B --max-model-len 8192", "--gpus", "t4"}, 2, "a command line, not a model's name");
  expect_error({"plan", "my nice Qwen3-4B", "--gpus", "t4"}, 2, "no model 'my nice Qwen3-4B' in the catalogue");
  EXPECT_THAT(
      run({"plan", "gpt2", "--gpus", "l4", "--emit", "torchrun", "--program", "python train.py"}).standard_output,
      HasSubstr("'python train.py'"));
}

TEST_F(PlanLines, AContainersImageStandsForItsProgram) {
  const auto own = plan({"vllm", "serve", "Qwen/Qwen3-4B", "--max-model-len", "8192", "--gpus", "t4"});
  EXPECT_EQ(plan({"--gpus",
                  "t4",
                  "docker",
                  "run",
                  "--runtime",
                  "nvidia",
                  "--gpus",
                  "all",
                  "-v",
                  "~/.cache:/root/.cache",
                  "--env",
                  "HF_TOKEN=x",
                  "-p",
                  "8000:8000",
                  "--ipc=host",
                  "vllm/vllm-openai:latest",
                  "--model",
                  "Qwen/Qwen3-4B",
                  "--max-model-len",
                  "8192"}),
            own);
  EXPECT_EQ(
      plan({"--gpus", "t4", "sudo docker run --gpus all vllm/vllm-openai:v0.11.0 Qwen/Qwen3-4B --max-model-len 8192"}),
      own);
  EXPECT_EQ(plan({"docker", "run", "--gpus", "all", "--shm-size", "32g", "lmsysorg/sglang:latest", "python3", "-m",
                  "sglang.launch_server", "--model-path", "Qwen/Qwen3-4B", "--gpus", "t4"}),
            plan({"qwen3-4b", "--task", "serve", "--engine", "sglang", "--gpus", "t4"}));
  EXPECT_EQ(
      plan({"podman", "run", "ghcr.io/ggml-org/llama.cpp:server-cuda", "-m", "qwen3-4b", "-c", "8192", "--gpus", "t4"}),
      plan({"llama-server", "-m", "qwen3-4b", "-c", "8192", "--gpus", "t4"}));
  EXPECT_EQ(plan({"docker", "run", "--rm", "mine:1", "vllm", "serve", "Qwen/Qwen3-4B", "--max-model-len", "8192",
                  "--gpus", "t4"}),
            own);
}

TEST_F(PlanLines, ATrainersWholeCommandLineMayBePasted) {
  const auto own = plan({"gpt2", "--gpus", "l4", "--micro-batch", "4", "--recompute", "full"});
  EXPECT_EQ(plan({"torchrun",
                  "train.py",
                  "--model_name_or_path",
                  "gpt2",
                  "--gpus",
                  "l4",
                  "--per_device_train_batch_size",
                  "4",
                  "--bf16",
                  "True",
                  "--tf32",
                  "True",
                  "--learning_rate",
                  "1e-5",
                  "--gradient_checkpointing",
                  "True",
                  "--num_train_epochs",
                  "3",
                  "--gradient_accumulation_steps",
                  "8",
                  "--lora_alpha",
                  "16",
                  "--save_total_limit",
                  "2",
                  "--report_to",
                  "none"}),
            own);
}

TEST_F(PlanLines, LengthsAreReadAsEnginesReadThem) {
  const auto sequence = [&](const char* length) {
    return plan({"llama-3.1-8b", "--gpus", "h200", "--task", "serve", "--max-model-len",
                 length})["recommended"]["settings"]["sequence"]
        .get<int>();
  };
  EXPECT_EQ(sequence("128k"), 128'000);
  EXPECT_EQ(sequence("32K"), 32'768);
  EXPECT_EQ(sequence("25.6k"), 25'600);
  EXPECT_EQ(sequence("auto"), 131'072);
  EXPECT_EQ(sequence("-1"), 131'072);
  expect_error({"plan", "gpt2", "--gpus", "l4", "--sequence", "auto"}, 2, "only a serving engine chooses its length");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--sequence", "xk"}, 2, "not a whole number");
}

TEST_F(PlanLines, WithoutALengthAnEnginesOwnIsPlanned) {
  const auto text = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    words.insert(words.end(), {"--gpus", "rtx4090"});
    return run(words).standard_output;
  };
  const std::string vllm = text({"vllm", "serve", "meta-llama/Llama-3.1-8B"});
  EXPECT_THAT(vllm,
              HasSubstr("where --max-model-len names no length, vLLM takes the model's window, 131072 tokens, and "
                        "does not start where its KV cache cannot hold one such request"));
  EXPECT_THAT(vllm, HasSubstr("that fits: --max-model-len 4"));
  EXPECT_THAT(text({"python", "-m", "sglang.launch_server", "--model-path", "llama-3.1-8b"}),
              HasSubstr("SGLang takes the model's window, 131072 tokens, and of them what its KV cache holds: 3"));
  EXPECT_THAT(text({"llama-server", "-m", "llama-3.1-8b", "-c", "0"}), HasSubstr("131072 tokens, and does not start"));
  EXPECT_THAT(text({"vllm", "serve", "phi-4-mini"}),
              HasSubstr("4096 tokens (without longrope's stretching; --max-model-len up to 131072)"));
  EXPECT_THAT(text({"vllm", "serve", "bloom-7b1"}),
              AllOf(HasSubstr("the model's window is not known: requests of 2048 tokens are assumed"),
                    HasSubstr("spare; with requests of 2048 tokens, as the model's\nwindow is not known")));
  EXPECT_THAT(text({"vllm", "serve", "Qwen/Qwen3-4B-Instruct-2607"}),
              AllOf(HasSubstr("the window of this release is not known: that of Qwen/Qwen3-4B is taken for it; "
                              "--max-model-len says otherwise"),
                    HasSubstr("1 x 40960 tokens"), Not(HasSubstr("beyond"))));
  expect_error({"plan", "gpt2", "--gpus", "l4", "--engine", "vllm"}, 2, "only a serving engine has it");
}

TEST_F(PlanLines, AnAnswerThatDoesNotFitNamesALengthThatDoes) {
  const auto serve = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"llama-3.1-8b", "--gpus", "rtx4090", "--task", "serve"};
    words.insert(words.end(), more.begin(), more.end());
    return plan(words);
  };
  const auto whole = serve({});
  EXPECT_EQ(whole["serving"]["length"], "window");
  EXPECT_EQ(whole["serving"]["window"], 131'072);
  EXPECT_EQ(whole["verdict"], "does_not_fit");
  const int longest = whole["serving"]["longest_request"];
  EXPECT_NE(serve({"--sequence", std::to_string(longest)})["verdict"], "does_not_fit");
  EXPECT_EQ(serve({"--sequence", std::to_string(longest + 16)})["verdict"], "does_not_fit");
  const auto fitted = serve({"--sequence", "auto"});
  EXPECT_EQ(fitted["serving"]["length"], "fitted");
  EXPECT_EQ(fitted["recommended"]["settings"]["sequence"], longest);
}

TEST_F(PlanLines, LengthsBeyondTheModelsContextAreTold) {
  const auto text = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    return run(words).standard_output;
  };
  EXPECT_THAT(text({"Llama-2-13b-chat-hf", "--gpus", "8xh100", "--task", "serve", "--sequence", "16384"}),
              HasSubstr("16384 tokens are beyond the 4096 positions of meta-llama/Llama-2-13b-hf's config: vLLM and "
                        "SGLang refuse"));
  EXPECT_THAT(text({"qwen3-8b", "--gpus", "8xh100", "--sequence", "100000"}),
              HasSubstr("100000 tokens are beyond the 40960 positions"));
  EXPECT_THAT(text({"qwen3-8b", "--gpus", "8xh100", "--sequence", "40960"}), Not(HasSubstr("beyond")));
  std::string yarn(kLinesConfig);
  yarn.replace(yarn.find("131072"), 6, "32768");
  yarn.replace(yarn.find('{'), 1,
               R"({"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768},)");
  const std::string scaled = file("yarn.json", yarn);
  EXPECT_THAT(text({scaled, "--gpus", "8xh100", "--task", "serve", "--sequence", "131072"}), Not(HasSubstr("beyond")));
  EXPECT_THAT(text({scaled, "--gpus", "8xh100", "--task", "serve", "--sequence", "131073"}),
              HasSubstr("beyond the 131072 positions"));
}

TEST_F(PlanLines, LlamaCppMakesNoPool) {
  const std::vector<std::string> line = {
      "openai/gpt-oss-20b", "--gpus", "rtx4080", "--sequence", "8192", "--task", "serve", "--engine"};
  const auto with = [&](const char* engine) {
    std::vector<std::string> words = line;
    words.emplace_back(engine);
    return words;
  };
  const auto llama = plan(with("llama.cpp"));
  EXPECT_NE(llama["verdict"], "does_not_fit");
  EXPECT_EQ(llama["smallest_gpus"], 1);
  EXPECT_GT(llama["serving"]["requests"], 1.0);
  std::vector<std::string> words = with("llama.cpp");
  words.insert(words.begin(), "plan");
  EXPECT_THAT(run(words).standard_output,
              AllOf(HasSubstr("beside weights and compute buffer there is room for"), Not(HasSubstr("utilization"))));
  // A file has Q8_0 where the checkpoint has 16 bit.
  const auto file = plan({"llama-server", "-hf", "openai/gpt-oss-20b-GGUF", "-c", "8192", "--gpus", "rtx4080"});
  EXPECT_LT(file["serving"]["weights_bytes"], llama["serving"]["weights_bytes"]);
  // 1 GiB stays free where llama.cpp chooses the length itself.
  const auto fitted = plan({"llama-3.1-8b", "--gpus", "rtx4090", "--task", "serve", "--engine", "llama.cpp"});
  const auto given =
      plan({"llama-3.1-8b", "--gpus", "rtx4090", "--task", "serve", "--engine", "llama.cpp", "-c", "4096"});
  EXPECT_EQ(given["serving"]["cache_bytes"].get<std::int64_t>() - fitted["serving"]["cache_bytes"].get<std::int64_t>(),
            std::int64_t{1} << 30U);
}

TEST_F(PlanLines, NoStrategyFitsWhereNotOneRequestDoes) {
  const auto answer = plan({"vllm", "serve", "gpt-oss-120b", "--gpus", "h100"});
  EXPECT_EQ(answer["verdict"], "does_not_fit");
  EXPECT_EQ(answer["strategies"][0]["verdict"], "does_not_fit");
  EXPECT_EQ(answer["strategies"][0]["largest_micro_batch"], 0);
}

TEST_F(PlanLines, GpusOfSeveralKindsAreNotPlannedTogether) {
  expect_error({"plan", "qwen3-8b", "--gpus", "4xrtx5090,2xrtx3090"}, 2,
               "GPUs of several kinds are not planned together");
  expect_error({"plan", "qwen3-8b", "--gpus", "h100:4 + a100:2"}, 2, "plan for each kind apart: h100:4");
  expect_error({"plan", "qwen3-8b", "--gpus", "h100,80gb-nothing"}, 2, "no GPU model");
}

TEST_F(PlanLines, ASparksMemoryIsSharedWithItsSystem) {
  const auto spark = plan({"qwen3-8b", "--gpus", "dgx-spark", "--task", "serve"});
  EXPECT_NEAR(spark["gpus"]["usable_bytes"].get<double>() / (1 << 30U), 121.69, 0.01);
  EXPECT_THAT(spark["notes"].dump(), HasSubstr("shares this memory with the CPU"));
  EXPECT_THAT(plan({"qwen3-8b", "--gpus", "h100", "--task", "serve"})["notes"].dump(), Not(HasSubstr("shares")));
}

TEST_F(PlanLines, AMistralWithoutAWindowKeepsItsWholeCache) {
  const auto cache = [&](const char* name) {
    return plan({name, "--gpus", "h100", "--task", "serve", "--sequence", "32768"})["serving"];
  };
  EXPECT_GT(cache("mistralai/Mistral-7B-Instruct-v0.1")["requests"].get<double>(),
            7 * cache("mistralai/Mistral-7B-Instruct-v0.2")["requests"].get<double>());
}

}  // namespace
}  // namespace gpuwarden
