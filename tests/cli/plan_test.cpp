// SPDX-License-Identifier: Apache-2.0
// gpuwarden plan, as a user meets it. GPUs are always named or simulated: what machine the tests run on does not
// matter.
#include <algorithm>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;

constexpr std::string_view kConfig = R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,
  "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,
  "max_position_embeddings":131072,"tie_word_embeddings":false,"torch_dtype":"bfloat16"})";

class Plan : public Program {
 protected:
  nlohmann::json plan(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    return json(std::move(words));
  }
};

TEST_F(Plan, AModelByNameIsPlannedForNamedGpus) {
  const auto answer = plan({"llama-3.1-8b", "--gpus", "8xh100"});
  EXPECT_EQ(answer["schema"], 1);
  EXPECT_EQ(answer["simulated"], false);
  EXPECT_EQ(answer["model"]["parameters"], 8030261248);
  EXPECT_EQ(answer["gpus"]["count"], 8);
  EXPECT_EQ(answer["gpus"]["name"], "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(answer["verdict"], ::testing::AnyOf("fits", "tight"));
  const auto& gpu = answer["per_gpu"];
  EXPECT_LE(gpu["low_bytes"], gpu["expected_bytes"]);
  EXPECT_LE(gpu["expected_bytes"], gpu["high_bytes"]);
  std::uint64_t sum = 0;
  for (const auto& component : gpu["components"]) {
    sum += component["bytes"].get<std::uint64_t>();
    EXPECT_FALSE(component["formula"].get<std::string>().empty()) << component;
    EXPECT_FALSE(component["source"].get<std::string>().empty()) << component;
  }
  EXPECT_NEAR(static_cast<double>(sum), gpu["expected_bytes"].get<double>(), 100.0);
  EXPECT_EQ(std::ranges::count_if(gpu["moments"], [](const auto& moment) { return moment["peak"] == true; }), 1);
}

TEST_F(Plan, AFlagOfTheWorkloadNeedsNoValue) {
  EXPECT_EQ(plan({"llama-3.1-8b", "--gpus", "8xh100", "--framework", "torchtitan", "--compile"})["model"]["parameters"],
            8030261248);
}

TEST_F(Plan, AConfigAndItsFolderGiveTheSamePlan) {
  const std::string config = file("model/config.json", kConfig);
  const auto by_file = plan({config, "--gpus", "2xa100"});
  const auto by_folder = plan({(dir_ / "model").string(), "--gpus", "2xa100"});
  EXPECT_EQ(by_file["per_gpu"], by_folder["per_gpu"]);
  EXPECT_EQ(by_file["model"]["parameters"], 8030261248);
}

TEST_F(Plan, WhatDoesNotFitIsSaidWithExitCodeOneAndAWayOut) {
  const auto done = run({"plan", "llama-3.1-70b", "--gpus", "rtx4090"});
  EXPECT_EQ(done.exit_code, 1) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("does not fit"));
  const auto answer = plan({"llama-3.1-8b", "--gpus", "rtx4090"});
  EXPECT_EQ(answer["verdict"], "does_not_fit");
  EXPECT_TRUE(answer["recommended"].is_null());
  EXPECT_FALSE(answer["changes"].empty());
}

TEST_F(Plan, GpusOfASimulatedFleetAreSaidToBeSimulated) {
  const auto answer = plan({"gpt2", "--simulate", "h100x8"});
  EXPECT_EQ(answer["simulated"], true);
  EXPECT_EQ(answer["gpus"]["count"], 8);
  EXPECT_THAT(run({"plan", "gpt2", "--simulate", "h100x8"}).standard_output, HasSubstr("simulated"));
}

TEST_F(Plan, OfSeveralKindsOneIsPlannedForAndTheOthersAreNamed) {
  const std::string mixed = run({"plan", "gpt2", "--simulate", "mixed"}).standard_output;
  EXPECT_THAT(mixed, HasSubstr("1 x NVIDIA A100-SXM4-80GB"));
  EXPECT_THAT(mixed, HasSubstr("3 GPUs of another kind are not planned for"));
  EXPECT_EQ(plan({"gpt2", "--simulate", "mixed"})["gpus"]["other_gpus"], 3);
  EXPECT_THAT(run({"plan", "gpt2", "--simulate", "h100x8"}).standard_output, Not(HasSubstr("not planned for")));
}

TEST_F(Plan, TheTableHasTheColumnsOfItsTask) {
  const std::string trained = run({"plan", "gpt2", "--gpus", "2xl4"}).standard_output;
  EXPECT_THAT(trained, HasSubstr("accumulate"));
  EXPECT_THAT(trained, HasSubstr("memory of each GPU, DDP over 2, at its peak"));
  EXPECT_THAT(trained, HasSubstr("usable each"));
  const std::string served = run({"plan", "gpt2", "--gpus", "l4", "--task", "serve"}).standard_output;
  EXPECT_THAT(served, Not(HasSubstr("accumulate")));
  EXPECT_THAT(served, HasSubstr("memory of one GPU at its peak"));
  EXPECT_THAT(served, Not(HasSubstr("each")));
}

TEST_F(Plan, ExplainShowsFormulasAndSources) {
  const auto plain = run({"plan", "gpt2", "--gpus", "l4"}).standard_output;
  const auto explained = run({"plan", "gpt2", "--gpus", "l4", "--explain"}).standard_output;
  EXPECT_THAT(plain, Not(HasSubstr("source:")));
  EXPECT_THAT(explained, HasSubstr("source:"));
  EXPECT_THAT(explained, HasSubstr("<- peak"));
}

TEST_F(Plan, AGuessedShapeIsSaidToBeGuessed) {
  const auto answer = plan({"--params", "7B", "--gpus", "8xh100"});
  EXPECT_EQ(answer["model"]["estimated"], true);
  EXPECT_FALSE(answer["model"]["notes"].empty());
  EXPECT_NEAR(answer["model"]["parameters"].get<double>(), 7e9, 7e7);
}

TEST_F(Plan, ServingTellsTokensAndRequests) {
  const auto answer = plan({"llama-3.1-8b", "--task", "serve", "--gpus", "h100", "--sequence", "8192"});
  EXPECT_GT(answer["serving"]["tokens"], 100'000);
  EXPECT_GT(answer["serving"]["requests"], 10);
  EXPECT_EQ(run({"plan", "llama-3.1-70b", "--task", "serve", "--gpus", "h100"}).exit_code, 1);
  const auto shared = plan({"qwen2.5-7b", "--task", "serve", "--gpus", "8xh100"});
  EXPECT_THAT(shared["reason"].get<std::string>(), HasSubstr("a copy takes 4 of the 8 GPUs")) << "28 heads";
}

TEST_F(Plan, TheFewestGpusOfAnEngineHoldARequestToo) {
  // The weights fit on two, but 80% of the memory less the weights holds no request.
  const auto on = [&](const std::string& gpus) {
    return plan({"llama-3.1-70b", "--task", "serve", "--gpus", gpus, "--utilization", "80%", "--sequence", "2048"});
  };
  const auto two = on("2xh100");
  EXPECT_EQ(two["verdict"], "does_not_fit");
  EXPECT_THAT(two["reason"].get<std::string>(), HasSubstr("KV cache"));
  const std::string count = std::to_string(two["smallest_gpus"].get<int>());
  EXPECT_NE(count, "2");
  EXPECT_NE(on(count + "xh100")["verdict"], "does_not_fit");
}

TEST_F(Plan, AdaptersTrainFewParameters) {
  const auto answer =
      plan({"llama-2-7b", "--task", "lora", "--lora-rank", "8", "--gpus", "a100", "--micro-batch", "1"});
  EXPECT_EQ(answer["model"]["trained_parameters"], 4194304);
  const auto quantised = plan({"llama-2-7b", "--task", "qlora", "--gpus", "a100", "--micro-batch", "1"});
  EXPECT_LT(quantised["per_gpu"]["expected_bytes"], answer["per_gpu"]["expected_bytes"]);
  expect_error({"plan", "llama-2-7b", "--task", "lora", "--lora-targets", "c_attn", "--gpus", "a100"}, 2, "c_attn");
}

TEST_F(Plan, TrainingTakesTokensTimeAndWorkers) {
  const auto answer = plan({"llama-3.1-8b", "--gpus", "8xh100", "--tokens", "1B", "--cpus", "64"});
  const auto& speed = answer["throughput"];
  EXPECT_LT(speed["low_tokens_per_second"], speed["expected_tokens_per_second"]);
  EXPECT_NEAR(speed["duration_seconds"].get<double>(), 1e9 / speed["expected_tokens_per_second"].get<double>(), 2.0);
  EXPECT_GT(answer["data_loading"]["workers"], 0);
  const auto faster = plan({"llama-3.1-8b", "--gpus", "8xh100", "--mfu", "60%"})["throughput"];
  EXPECT_GT(faster["expected_tokens_per_second"], speed["expected_tokens_per_second"]);
}

TEST_F(Plan, SpeedIsToldWithTheShareOfThePeakThatItIs) {
  const auto answer = plan({"llama-3.1-405b", "--gpus", "128xh100", "--strategy", "fsdp2", "--micro-batch", "1"});
  const auto& speed = answer["throughput"];
  // 6 N T and attention's part, PaLM's count.
  const double flops = 6 * 405.85e9 + 12.0 * 126 * 16384 * answer["recommended"]["settings"]["sequence"].get<double>();
  const double share = speed["expected_tokens_per_second"].get<double>() * flops / (128 * 989.4e12);
  EXPECT_NEAR(speed["utilization_percent"].get<double>(), 100 * share, 1);
  EXPECT_LT(speed["utilization_percent"], speed["arithmetic_utilization_percent"]);
  EXPECT_GT(speed["link_seconds"].get<double>(), 0);
  const auto text = run({"plan", "llama-3.1-405b", "--gpus", "128xh100", "--strategy", "fsdp2", "--micro-batch", "1"});
  EXPECT_THAT(text.standard_output, HasSubstr("arithmetic alone reaches 40%"));
  EXPECT_THAT(text.standard_output, HasSubstr("waiting for links"));
}

TEST_F(Plan, OffloadingCostsSpeed) {
  const auto rate = [&](const char* offload) {
    return plan({"llama-3.1-8b", "--gpus", "8xh100", "--strategy", "zero3", "--offload", offload, "--micro-batch",
                 "1"})["throughput"]["expected_tokens_per_second"]
        .get<double>();
  };
  EXPECT_GT(rate("none"), rate("optimizer"));
  EXPECT_GT(rate("optimizer"), rate("all"));
}

TEST_F(Plan, MeasuredPeaksTakeThePlaceOfTheEquations) {
  const auto answer =
      plan({"llama-3.1-8b", "--task", "lora", "--gpus", "a100", "--calibrate", "1=20,2=25", "--micro-batch", "3"});
  EXPECT_NEAR(answer["per_gpu"]["allocated_bytes"].get<double>(), 30.0 * (1ULL << 30U), 1e8);
  EXPECT_FALSE(answer["calibration"]["note"].get<std::string>().empty());
  expect_error({"plan", "gpt2", "--gpus", "l4", "--calibrate", "1=20"}, 2, "");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--calibrate", "1=20,2=x"}, 2, "2=x");
  expect_error({"plan", "gpt2", "--gpus", "2xl4", "--calibrate", "1=2,2=3"}, 2, "--calibrate");
}

TEST_F(Plan, ChartsAreWrittenWholeOrNotAtAll) {
  const std::string svg = (dir_ / "plan.svg").string();
  EXPECT_EQ(run({"plan", "gpt2", "--gpus", "l4", "--chart", svg}).exit_code, 0);
  const std::string picture = read_file(svg).value();
  EXPECT_TRUE(picture.starts_with("<svg xmlns="));
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
  EXPECT_THAT(picture, HasSubstr("GPU: "));
  EXPECT_THAT(picture, HasSubstr("activations")) << "nothing is computed again";
  EXPECT_THAT(picture, Not(HasSubstr("checkpoints")));
  const std::string html = (dir_ / "plan.html").string();
  EXPECT_EQ(run({"plan", "gpt2", "--gpus", "l4", "--chart", html}).exit_code, 0);
  EXPECT_THAT(read_file(html).value(), HasSubstr("<table>"));
  expect_error({"plan", "gpt2", "--gpus", "l4", "--chart", (dir_ / "plan.png").string()}, 2, ".svg");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--chart", (dir_ / "none" / "plan.svg").string()}, 2, "none");
}

TEST_F(Plan, EmitsWhatOtherToolsRead) {
  EXPECT_THAT(run({"plan", "gpt2", "--gpus", "8xl4", "--emit", "torchrun", "--program", "my train.py"}).standard_output,
              HasSubstr("torchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:0 --nproc_per_node=8 'my train.py'"));
  EXPECT_THAT(run({"plan", "gpt2", "--gpus", "8xl4", "--emit", "slurm"}).standard_output,
              HasSubstr("#SBATCH --gres=gpu:8"));
  const auto config = run({"plan", "gpt2", "--gpus", "8xl4", "--strategy", "zero3", "--emit", "deepspeed"});
  EXPECT_EQ(nlohmann::json::parse(config.standard_output)["zero_optimization"]["stage"], 3);
  expect_error({"plan", "gpt2", "--gpus", "8xl4", "--strategy", "ddp", "--emit", "deepspeed"}, 1, "zero2");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--task", "serve", "--emit", "slurm"}, 1, "--task train");
  expect_error({"plan", "gpt2", "--gpus", "8xl4", "--emit", "mpi"}, 2, "mpi");
  expect_error({"plan", "llama-3.1-405b", "--gpus", "l4", "--emit", "slurm"}, 1, "nothing fits");
}

TEST_F(Plan, ChecksTheDefaultsThatModelsAndTasksBring) {
  const auto settings = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--json"});
    return nlohmann::json::parse(run(words).standard_output)["strategies"][0];
  };
  EXPECT_EQ(settings({"plan", "gpt-oss-20b", "--gpus", "a100", "--task", "serve"})["settings"]["quantization"],
            "mxfp4");
  EXPECT_EQ(settings({"plan", "deepseek-v3", "--gpus", "8xh200", "--task", "serve"})["settings"]["quantization"],
            "fp8");
  EXPECT_EQ(settings({"plan", "gpt2", "--gpus", "l4", "--task", "pretrain"})["settings"]["precision"], "mixed");
  EXPECT_EQ(settings({"plan", "t5-small", "--gpus", "l4"})["settings"]["attention"], "eager");
  EXPECT_EQ(run({"plan", "llama-3-8b", "--gpus", "4xa100", "--offload", "optimizer"}).exit_code, 0);
}

TEST_F(Plan, TheTextEndsWithItsLineAndWritesRatesInDigits) {
  const std::string text = run({"plan", "llama-3.1-8b", "--gpus", "8xh100", "--tokens", "1B"}).standard_output;
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_THAT(text, HasSubstr(" k tokens/s"));
  EXPECT_THAT(text, HasSubstr("1 B tokens take"));
  EXPECT_THAT(text, Not(HasSubstr("e+0")));
}

TEST_F(Plan, AGivenStrategyIsAnsweredAsASearchedOneIs) {
  // 256 samples are accumulated, not held at once.
  const auto single = plan({"llama-3.2-1b", "--gpus", "1xrtx3090", "--strategy", "single", "--global-batch", "256"});
  EXPECT_EQ(single["verdict"], plan({"llama-3.2-1b", "--gpus", "1xrtx3090", "--global-batch", "256"})["verdict"]);
  EXPECT_NE(single["verdict"], "does_not_fit");
  EXPECT_EQ(single["recommended"]["effective_batch"], 256);
  const auto ddp = plan({"llama-3.1-8b", "--gpus", "8xrtx4090", "--strategy", "ddp"});
  EXPECT_EQ(ddp["verdict"], "does_not_fit");
  EXPECT_FALSE(ddp["changes"].empty());
  const auto fsdp = plan({"llama-3.1-8b", "--gpus", "8xa100", "--strategy", "fsdp2"});
  EXPECT_EQ(fsdp["strategies"].size(), 2U) << "with and without recomputation";
  EXPECT_GE(fsdp["smallest_gpus"], 1);
}

TEST_F(Plan, EightBitProductsNeedAGpuThatHasThemAndAllWeights) {
  EXPECT_EQ(plan({"llama-3.1-8b", "--gpus", "8xh100", "--precision", "fp8"})["recommended"]["settings"]["fp8"],
            "matrices");
  expect_error({"plan", "llama-3.1-8b", "--gpus", "8xa100", "--precision", "fp8"}, 2, "8-bit floating point");
  expect_error({"plan", "llama-3.1-8b", "--gpus", "8xh100", "--task", "lora", "--precision", "fp8"}, 2, "fp8");
}

TEST_F(Plan, APoolThatHoldsNoRequestNamesWhatWouldMakeItHoldOne) {
  const auto full = plan({"llama-3.1-8b", "--gpus", "a10g", "--task", "serve", "--sequence", "36000"});
  EXPECT_EQ(full["verdict"], "does_not_fit");
  EXPECT_THAT(full["reason"].dump(), HasSubstr("not one request"));
  ASSERT_FALSE(full["changes"].empty());
  EXPECT_THAT(full["changes"].dump(), HasSubstr("KV cache in 8 bit"));
}

TEST_F(Plan, AGlobalBatchThatCannotBeMetIsNotEmitted) {
  EXPECT_THAT(run({"plan", "gpt2", "--gpus", "8xl4", "--strategy", "ddp", "--global-batch", "100"}).standard_output,
              HasSubstr("cannot be met"));
  expect_error({"plan", "gpt2", "--gpus", "8xl4", "--strategy", "ddp", "--global-batch", "100", "--emit", "torchrun"},
               1, "cannot be met");
}

TEST_F(Plan, OptionsThatContradictEachOtherAreRefused) {
  const auto refused = [&](std::vector<std::string> more, const std::string& word) {
    more.insert(more.begin(), {"plan", "llama-3.1-8b", "--gpus", "8xh100"});
    expect_error(more, 2, word);
  };
  refused({"--task", "serve", "--strategy", "fsdp2"}, "fsdp2 shards what is trained");
  refused({"--task", "inference", "--strategy", "zero2"}, "zero2");
  refused({"--task", "serve", "--optimizer", "lion"}, "--optimizer");
  refused({"--task", "inference", "--global-batch", "64"}, "--global-batch");
  refused({"--expert-parallel", "2"}, "no experts");
  refused({"--strategy", "single", "--tensor-parallel", "2"}, "--strategy single");
  refused({"--lora-rank", "8"}, "--lora-rank");
}

TEST_F(Plan, ListsTheModelsThatItKnows) {
  const auto models = json({"plan", "--list"})["models"];
  EXPECT_GE(models.size(), 120U);
  EXPECT_THAT(run({"plan", "--list"}).standard_output, HasSubstr("meta-llama/Llama-3.1-8B"));
}

TEST_F(Plan, BadModelsAreToldClearly) {
  expect_error({"plan", "--gpus", "h100"}, 2, "no model is given");
  expect_error({"plan", "llama-9", "--gpus", "h100"}, 2, "no model 'llama-9'");
  expect_error({"plan", file("cut.json", kConfig.substr(0, 100)), "--gpus", "h100"}, 2, "ends in the middle");
  expect_error({"plan", file("unet.json", R"({"_class_name":"UNet2DConditionModel"})"), "--gpus", "h100"}, 2,
               "diffusion");
  expect_error({"plan", file("odd.json", R"({"model_type":"mamba"})"), "--gpus", "h100"}, 2,
               "unknown architecture 'mamba'");
  expect_error({"plan", (dir_ / "missing.json").string(), "--gpus", "h100"}, 2, "missing.json");
  file("empty/readme.txt", "");
  expect_error({"plan", (dir_ / "empty").string(), "--gpus", "h100"}, 2, "no config.json");
  expect_error({"plan", "gpt2", "bert", "--gpus", "h100"}, 2, "one model at a time");
  expect_error({"plan", "gpt2", "--params", "7B", "--gpus", "h100"}, 2, "cannot be given together");
  expect_error({"plan", "gpt2", "--hidden", "64", "--gpus", "h100"}, 2, "--hidden completes --params");
  expect_error({"plan", "gpt2", "--gpus", "h100", "--simulate", "h100x8"}, 2, "cannot be used together");
  expect_error({"plan", "--params", "8x7B", "--gpus", "h100"}, 2, "8x7B");
}

TEST_F(Plan, GpusOfAFleetThatAreDownOrHeldAreSaid) {
  const auto done = run({"plan", "gpt2", "--simulate", "h100x8-sick"});
  EXPECT_THAT(done.standard_output, HasSubstr("4 x NVIDIA H100"));
  EXPECT_THAT(done.standard_output, HasSubstr("is not counted: "));
  EXPECT_THAT(done.standard_output, HasSubstr("GPU 3 is counted as free, though "));
  const auto answer = plan({"gpt2", "--simulate", "h100x8-sick"});
  EXPECT_GE(answer["gpus"]["notes"].size(), 5U);
}

TEST_F(Plan, EmittedFilesNameTheStrategyAndTheAdapters) {
  const auto emitted = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "llama-3.1-8b", "--gpus", "8xh100", "--emit", "torchrun"});
    return run(words).standard_output;
  };
  EXPECT_THAT(emitted({"--strategy", "fsdp2"}), HasSubstr("strategy: FSDP2 over 8 data-parallel ranks"));
  EXPECT_THAT(emitted({"--tensor-parallel", "4", "--pipeline-parallel", "2", "--framework", "megatron"}),
              HasSubstr("strategy: tensor parallel 4 (with sequence parallelism) x pipeline parallel 2"));
  EXPECT_THAT(emitted({"--task", "lora"}), HasSubstr("(target_modules): q_proj, v_proj"));
  EXPECT_THAT(emitted({"--task", "lora", "--lora-targets", "all-linear"}), HasSubstr("(target_modules): all-linear"));
}

TEST_F(Plan, OptionsOfOtherProgramsMeanTheSame) {
  const auto own = plan({"llama-3.1-8b", "--gpus", "8xh100", "--sequence", "4096", "--micro-batch", "2"});
  EXPECT_EQ(
      plan({"llama-3.1-8b", "--gpus", "h100:8", "--max_seq_length", "4096", "--per_device_train_batch_size", "2"}),
      own);
  EXPECT_EQ(plan({"--model", "llama-3.1-8b", "--gpus", "8xH100-SXM", "--seq", "4096", "--batch-size", "2"})["per_gpu"],
            own["per_gpu"]);
  const auto serve =
      plan({"qwen3-8b", "--gpus", "2xa100", "--task", "serve", "--max-model-len", "8192", "--tensor-parallel-size", "2",
            "--gpu-memory-utilization", "0.8", "--quantization", "awq", "--kv-cache-dtype", "fp8_e4m3"});
  EXPECT_EQ(serve["recommended"]["settings"]["sequence"], 8192);
  EXPECT_EQ(serve["recommended"]["settings"]["quantization"], "int4");
  EXPECT_EQ(serve["recommended"]["settings"]["tensor_parallel"], 2);
  const auto few = plan(
      {"qwen3-8b", "--gpus", "a100", "--task", "serve", "--max-num-batched-tokens", "1024", "--max-num-seqs", "16"});
  EXPECT_LT(few["serving"]["activations_bytes"],
            plan({"qwen3-8b", "--gpus", "a100", "--task", "serve"})["serving"]["activations_bytes"]);
}

TEST_F(Plan, OptionsThatAreNoneHereAreAnsweredWithTheRightSpelling) {
  const auto answered = [&](const char* option, const char* hint) {
    const auto done = run({"plan", "gpt2", "--gpus", "4xl4", option});
    EXPECT_EQ(done.exit_code, 2);
    EXPECT_THAT(done.standard_error, HasSubstr(hint)) << option;
  };
  answered("--nproc-per-node=8", "--gpus 8xh100");
  answered("--use-distributed-optimizer", "--strategy zero1");
  answered("--cpu-offload-gb=4", "not planned");
  answered("--world-size=8", "--gpus 8xh100");
  answered("--data-parallel-size=2", "each replica");
  answered("-np", "--max-requests N");
  answered("--config_file=fsdp.yaml", "is not read");
  // Named as ours would be, but something else there.
  answered("--mem-fraction-static=0.8", "only a serving engine");
  answered("--free-gpu-memory-fraction=0.8", "--utilization SHARE");
}

TEST_F(Plan, AnEnginesWholeCommandLineMayBePasted) {
  const auto own =
      plan({"qwen3-8b", "--gpus", "2xa100", "--task", "serve", "--sequence", "8192", "--tensor-parallel", "2"});
  const std::vector<std::string> pasted = {"plan",
                                           "qwen3-8b",
                                           "--gpus",
                                           "2xa100",
                                           "--task",
                                           "serve",
                                           "-c",
                                           "8192",
                                           "-tp",
                                           "2",
                                           "--dtype",
                                           "auto",
                                           "--swap-space",
                                           "4",
                                           "--block-size",
                                           "16",
                                           "--enable-chunked-prefill",
                                           "--enforce-eager",
                                           "--port=8000",
                                           "--served_model_name",
                                           "mine",
                                           "--trust-remote-code",
                                           "-ngl",
                                           "99"};
  EXPECT_EQ(plan(std::vector<std::string>(pasted.begin() + 1, pasted.end()))["per_gpu"], own["per_gpu"]);
  const auto said = run(pasted);
  EXPECT_THAT(said.standard_error, HasSubstr("--swap-space is not needed: it is the host's memory"));
  EXPECT_THAT(said.standard_error, HasSubstr("--port, --served-model-name, --trust-remote-code are not needed: no "
                                             "memory of the GPU depends on it"));
}

TEST_F(Plan, QuantisedNamesHaveTheBytesOfTheirFormat) {
  const auto weights = [&](const char* name) {
    const auto answer = plan({name, "--gpus", "h200", "--task", "inference"});
    return answer["per_gpu"]["components"][0]["bytes"].get<double>();
  };
  const double whole = weights("Qwen/Qwen2.5-7B");
  const double other = 2.0 * 2 * 152064 * 3584;  // embedding and head stay in 16 bit
  const double matrices = whole - other;
  EXPECT_NEAR(weights("Qwen/Qwen2.5-7B-Instruct-AWQ"), other + matrices * (0.5 + 2.5 / 128) / 2, 2e6);
  EXPECT_NEAR(weights("nvidia/Qwen2.5-7B-Instruct-NVFP4"), other + matrices * (0.5 + 1.0 / 16) / 2, 2e6);
  EXPECT_NEAR(weights("unsloth/Qwen2.5-7B-Instruct-bnb-4bit"), other + matrices * (0.5 + 4.0 / 64) / 2, 2e6);
  const auto said = run({"plan", "Qwen/Qwen2.5-7B-Instruct-AWQ", "--gpus", "a100", "--task", "inference", "--explain"});
  EXPECT_THAT(said.standard_output, HasSubstr("4 bit + 2.5 B for 128"));
  EXPECT_THAT(said.standard_output, HasSubstr("only stores weights in int4"));
  EXPECT_EQ(plan({"Qwen2.5-7B-Instruct-Q4_K_M", "--gpus", "a100", "-c", "8192"})["serving"]["engine"], "llama.cpp");
}

TEST_F(Plan, AFormulaOfShardedCopiesInEightBitsGivesItsFigure) {
  const auto answer = plan({"llama-3-70b", "--gpus", "64xgb200", "--task", "pretrain", "--framework", "megatron",
                            "--precision", "fp8", "--strategy", "fsdp2", "--micro-batch", "2"});
  const auto& line = answer["per_gpu"]["components"][0];
  EXPECT_EQ(line["name"], "weights");
  EXPECT_THAT(line["formula"].get<std::string>(), HasSubstr("copies in 8 bits"));
  // 2 B for each of 70.6e9 parameters and 2 more in matrices, over 64 ranks.
  EXPECT_NEAR(line["bytes"].get<double>(), (2 * 70.55e9 + 2 * 68.45e9) / 64, 3e7);
}

TEST_F(Plan, BadSettingsAreToldClearly) {
  expect_error({"plan", "gpt2", "--gpus", "8xvoodoo"}, 2, "voodoo");
  expect_error({"plan", "gpt2", "--gpus", "0xh100"}, 2, "0 GPUs");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--task", "dance"}, 2, "dance");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--micro-batch", "0"}, 2, "--micro-batch");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--sequence", "-5"}, 2, "--sequence");
  expect_error({"plan", "gpt2", "--gpus", "3xl4", "--tensor-parallel", "2"}, 2, "divided");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--sequence", "4096"}, 2, "only 1024 positions");
  expect_error({"plan", "bert-base", "--gpus", "l4", "--task", "serve"}, 2, "no KV cache");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--task", "serve", "--utilization", "180%"}, 2, "180");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--task", "serve", "--utilization", "1.5"}, 2, "more than the whole");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--utilization", "90%"}, 2, "only a serving engine");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--kv-cache", "fp8"}, 2, "training keeps no KV cache");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--cpus", "0"}, 2, "--cpus");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--precision", "foo"}, 2, "master-weights, fp8");
  expect_error({"plan", "gpt2-xl", "--gpus", "2xh100", "--tensor-parallel", "2"}, 1, "25 attention heads");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--chart", (dir_ / "no/such/x.svg").string()}, 2, "cannot write");
  expect_error({"plan", "gpt2", "--gpus", "l4", "--quantization", "nf4"}, 2, "cannot be trained");
}

}  // namespace
}  // namespace gpuwarden
