// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/planning/catalog.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using gpuwarden::testing::FailsWith;
using gpuwarden::testing::IsOk;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Given {
  const char* name;
  std::vector<std::string> values;
};

Words words_of(std::initializer_list<Given> given, const char* prefix = "") {
  Words words(prefix);
  for (const Given& each : given) words.set(each.name, each.values);
  return words;
}

Result<Workload> work(std::initializer_list<Given> given, const char* model = "gpt2") {
  return workload_from(find_model(model).value(), words_of(given), "train");
}

TEST(Words, NamesAreTheSameWithDashesAndUnderscores) {
  const Words words = words_of({{"micro_batch", {"4"}}, {"lora-targets", {"q_proj", "v_proj"}}, {"flag", {}}}, "--");
  EXPECT_EQ(words.text("micro-batch"), "4");
  EXPECT_EQ(words.list("lora-targets").size(), 2U);
  EXPECT_TRUE(words.has("flag"));
  EXPECT_FALSE(words.text("flag"));
  EXPECT_EQ(words.shown("micro-batch"), "--micro-batch");
}

TEST(WorkloadWords, WithoutAnyTheTaskSaysEverything) {
  const auto given = work({});
  ASSERT_THAT(given, IsOk());
  EXPECT_EQ(given->settings, settings_for(find_model("gpt2").value(), "train").value());
  EXPECT_FALSE(given->fixed_strategy || given->fixed_micro_batch || given->fixed_recompute);
}

TEST(WorkloadWords, SetWhatTheyNameAndFixIt) {
  const auto given = work({{"task", {"LoRA"}},
                           {"precision", {"bf16"}},
                           {"optimizer", {"adamw_8bit"}},
                           {"micro-batch", {"4"}},
                           {"global-batch", {"64"}},
                           {"recompute", {"none"}},
                           {"strategy", {"fsdp"}},
                           {"lora-rank", {"8"}}});
  ASSERT_THAT(given, IsOk());
  EXPECT_EQ(given->settings.task, Task::adapters);
  EXPECT_EQ(given->settings.precision, Precision::bf16);
  EXPECT_EQ(given->settings.optimizer, Optimizer::adamw_8bit);
  EXPECT_EQ(given->settings.micro_batch, 4U);
  EXPECT_EQ(given->settings.adapters.rank, 8U);
  EXPECT_EQ(given->settings.parallel.sharding, Sharding::fsdp2);
  EXPECT_EQ(given->global_batch, 64U);
  EXPECT_TRUE(given->fixed_strategy && given->fixed_micro_batch && given->fixed_recompute);
  const auto serving = work({{"task", {"serve"}}, {"utilization", {"80%"}}});
  ASSERT_THAT(serving, IsOk());
  EXPECT_DOUBLE_EQ(serving->serving_utilization, 0.8);
}

TEST(WorkloadWords, WhatIsOffloadedIsShardedWhereNoStrategyIsNamed) {
  EXPECT_EQ(work({{"offload", {"optimizer"}}})->settings.parallel.sharding, Sharding::zero2);
}

TEST(WorkloadWords, EveryNameIsKnownAndNoOther) {
  for (const std::string_view name : workload_names()) {
    const auto given =
        workload_from(find_model("gpt2").value(), words_of({{std::string(name).c_str(), {"?"}}}), "train");
    ASSERT_FALSE(given) << name << " takes anything";
    EXPECT_THAT(given.error().message, StartsWith(std::string(name))) << "it is read, and named";
  }
  EXPECT_THAT(work({{"learning-rate", {"1"}}}), FailsWith(ErrorCode::invalid_argument, HasSubstr("'learning-rate'")));
  EXPECT_THAT(work({{"family", {"llama"}}, {"mfu", {"40%"}}}), IsOk()) << "others read these";
}

TEST(WorkloadWords, MistakesNameTheWordAsItWasGiven) {
  const auto refused = [](std::initializer_list<Given> given, const char* model = "gpt2") {
    const auto result = workload_from(find_model(model).value(), words_of(given, "--"), "train");
    EXPECT_FALSE(result);
    return result ? Error{} : result.error();
  };
  EXPECT_EQ(refused({{"micro-batch", {"0"}}}).message, "--micro-batch must be at least 1");
  EXPECT_THAT(refused({{"micro-batch", {"many"}}}).message, StartsWith("--micro-batch: 'many'"));
  EXPECT_THAT(refused({{"precision", {"fp7"}}}).hint, HasSubstr("fp16"));
  EXPECT_THAT(refused({{"sequence", {"4096"}}}).message, HasSubstr("only 1024 positions"));
  EXPECT_THAT(refused({{"kv-cache", {"fp8"}}}).hint, HasSubstr("--task inference"));
  EXPECT_THAT(refused({{"task", {"serve"}}, {"optimizer", {"lion"}}}).message, StartsWith("--optimizer: says how to"));
  EXPECT_THAT(refused({{"task", {"serve"}}, {"strategy", {"zero3"}}}).message, StartsWith("--strategy: "));
  EXPECT_THAT(refused({{"expert-parallel", {"2"}}}).message, HasSubstr("no experts"));
  EXPECT_THAT(refused({{"strategy", {"Single"}}, {"tensor-parallel", {"2"}}}).message,
              StartsWith("--strategy single is one GPU"));
}

TEST(SizedModels, AreParametersOrBytesOfWeights) {
  const auto parameters = workload_of_size(words_of({{"model-size", {"7B"}}}), "model-size");
  ASSERT_THAT(parameters, IsOk());
  EXPECT_EQ(parameters->settings.task, Task::full_training);
  EXPECT_EQ(parameters->model.name, "a model of 7B");
  const auto bytes = workload_of_size(words_of({{"model-size", {"14GB"}}}), "model-size");
  ASSERT_THAT(bytes, IsOk());
  EXPECT_EQ(bytes->settings.task, Task::inference);
  EXPECT_EQ(bytes->model.name, "a model of 14GB");
  EXPECT_THAT(workload_of_size(words_of({{"model-size", {"big"}}}, "--"), "model-size"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("--model-size: 'big' is neither")));
  EXPECT_THAT(workload_of_size(words_of({{"model-size", {"14GB"}}, {"layers", {"8"}}}, "--"), "model-size"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("--layers completes --model-size 7B")));
}

TEST(SizedModels, TakeTheShapeThatIsKnown) {
  const auto model = sized_model(words_of({{"params", {"7B"}}, {"layers", {"32"}}}), "params");
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->layers, 32U);
  EXPECT_THAT(sized_model(words_of({{"params", {"7B"}}, {"layers", {"0"}}}, "--"), "params"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("--layers must be at least 1")));
  EXPECT_THAT(refuse_sizes(words_of({{"vocab", {"5"}}}, "--"), "params"),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("--vocab completes --params")));
  EXPECT_THAT(refuse_sizes(words_of({{"task", {"lora"}}}), "params"), IsOk());
}

TEST(ReadShare, TakesPercentAndFractions) {
  for (const char* text : {"45%", "45", "0.45"}) {
    const auto share = read_share(words_of({{"mfu", {text}}}), "mfu");
    ASSERT_TRUE(share && *share) << text;
    EXPECT_DOUBLE_EQ(**share, 0.45) << text;
  }
  EXPECT_EQ(read_share(words_of({}), "mfu").value(), std::nullopt);
  for (const char* text : {"0", "101", "-1", "half"})
    EXPECT_THAT(read_share(words_of({{"mfu", {text}}}), "mfu"),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("mfu")));
}

TEST(ReadTokens, TakesUnitsOfAThousand) {
  for (const auto& [text, tokens] : {std::pair("300B", 3e11), std::pair("2t", 2e12), std::pair(" 1.5M ", 1.5e6),
                                     std::pair("50000000", 5e7), std::pair("1e12", 1e12)}) {
    const auto read = read_tokens(words_of({{"tokens", {text}}}), "tokens");
    ASSERT_TRUE(read && *read) << text;
    EXPECT_DOUBLE_EQ(**read, tokens) << text;
  }
  EXPECT_EQ(read_tokens(words_of({}), "tokens").value(), std::nullopt);
  for (const char* text : {"0", "-1B", "many", "2TT", "2000000T", ""})
    EXPECT_THAT(read_tokens(words_of({{"tokens", {text}}}, "--"), "tokens"),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("--tokens: '")))
        << text;
}

TEST(ReadPeaks, ArePairsOfMicroBatchAndGiB) {
  const auto peaks = read_peaks(words_of({{"calibrate", {"1=23.5", "4=40"}}}), "calibrate");
  ASSERT_THAT(peaks, IsOk());
  ASSERT_EQ(peaks->size(), 2U);
  EXPECT_EQ((*peaks)[0].micro_batch, 1U);
  EXPECT_EQ((*peaks)[0].peak, Bytes(47ULL << 29U));
  EXPECT_TRUE(read_peaks(words_of({}), "calibrate")->empty());
  for (const char* text : {"1", "1=", "0=3", "a=3", "1=0", "1=2=3", "1=9e9"})
    EXPECT_THAT(read_peaks(words_of({{"calibrate", {text}}}, "--"), "calibrate"),
                FailsWith(ErrorCode::invalid_argument, HasSubstr("--calibrate: '")))
        << text;
}

TEST(WorkloadWords, TakeWhatOtherProgramsCallAValue) {
  const auto quantised = [](const char* word) {
    return work({{"task", {"inference"}}, {"quantization", {word}}}, "llama-3.1-8b")->settings.quantization;
  };
  EXPECT_EQ(quantised("AWQ"), Quantization::int4);
  EXPECT_EQ(quantised("gptq_marlin"), Quantization::int4);
  EXPECT_EQ(quantised("bitsandbytes"), Quantization::nf4);
  EXPECT_EQ(quantised("nvfp4"), Quantization::nvfp4);
  EXPECT_EQ(quantised("hqq"), Quantization::hqq);
  const auto packed_alone = [](const char* word, const char* model) {
    return work({{"task", {"inference"}}, {"quantization", {word}}}, model)->model.quantized_weights_only;
  };
  EXPECT_TRUE(packed_alone("gptq-int8", "llama-3.1-8b"));
  EXPECT_TRUE(packed_alone("W8A16", "llama-3.1-8b"));
  EXPECT_FALSE(packed_alone("int8", "llama-3.1-8b"));
  EXPECT_FALSE(packed_alone("w8a8", "Qwen2.5-7B-Instruct-GPTQ-Int8"));
  const auto train = work({{"task", {"sft"}},
                           {"optimizer", {"adamw_torch_fused"}},
                           {"attention", {"flash_attention_2"}},
                           {"framework", {"Megatron-LM"}},
                           {"precision", {"bfloat16"}}});
  ASSERT_THAT(train, IsOk());
  EXPECT_EQ(train->settings.step, OptimizerStep::fused);
  EXPECT_EQ(train->settings.framework, Framework::megatron);
  EXPECT_EQ(train->settings.precision, Precision::bf16);
  EXPECT_EQ(work({{"optimizer", {"paged_adamw_8bit"}}})->settings.optimizer, Optimizer::adamw_8bit);
  EXPECT_THAT(work({{"quantization", {"int5"}}}), FailsWith(ErrorCode::invalid_argument, HasSubstr("int5")));
}

TEST(WorkloadWords, TorchtitanIsCompiledWithItsLoss) {
  const auto given = [](std::initializer_list<Given> words) { return work(words, "llama-3.1-8b")->settings; };
  const Settings titan = given({{"framework", {"torchtitan"}}});
  EXPECT_TRUE(titan.compiled);
  EXPECT_EQ(titan.loss, LossKernel::compiled);
  EXPECT_EQ(given({{"framework", {"torchtitan"}}, {"loss", {"standard"}}}).loss, LossKernel::standard);
  EXPECT_FALSE(given({}).compiled);
  EXPECT_TRUE(given({{"compile", {}}}).compiled);
  EXPECT_FALSE(given({{"compile", {"false"}}}).compiled);
}

TEST(WorkloadWords, AnEnginesLimitsAreItsOwn) {
  const auto serve =
      work({{"task", {"serve"}}, {"batched-tokens", {"1024"}}, {"max-requests", {"32"}}}, "llama-3.1-8b");
  ASSERT_THAT(serve, IsOk());
  EXPECT_EQ(serve->batched_tokens, 1024U);
  EXPECT_EQ(serve->max_requests, 32U);
  EXPECT_FALSE(work({{"batched-tokens", {"1024"}}}).has_value());
}

TEST(WorkloadWords, AnEngineTakesTheModelsWindowWhereNoLengthIsGiven) {
  const auto serve = [](const char* engine, std::vector<std::string> length = {}) {
    Words words;
    words.set("task", {"serve"});
    words.set("engine", {engine});
    if (!length.empty()) words.set("sequence", length);
    return workload_from(find_model("phi-3.5-mini").value(), words, "train").value();
  };
  EXPECT_EQ(serve("vllm").settings.sequence, 4096U) << "longrope's model before it was stretched";
  EXPECT_EQ(serve("vllm").length, Length::window);
  EXPECT_EQ(serve("vllm", {"auto"}).length, Length::fitted);
  EXPECT_EQ(serve("vllm", {"512"}).length, Length::given);
  EXPECT_EQ(serve("sglang").settings.sequence, 131'072U);
  EXPECT_EQ(serve("trtllm").length, Length::fitted);
  EXPECT_EQ(serve("llama_cpp").length, Length::fitted);
  EXPECT_EQ(serve("llama.cpp", {"0"}).length, Length::window);
  EXPECT_EQ(serve("llama.cpp").serving_utilization, 1);
  EXPECT_EQ(serve("sglang").serving_utilization, 0.9);
  EXPECT_FALSE(work({{"task", {"serve"}}, {"sequence", {"0"}}}).has_value());
}

TEST(WorkloadWords, MegatronsParallelismComesWithItsDistributedOptimizer) {
  const auto given = [](std::initializer_list<Given> words) { return work(words, "llama-3.1-8b").value(); };
  const auto shared = given({{"framework", {"megatron"}}, {"tensor-parallel", {"2"}}});
  EXPECT_EQ(shared.settings.parallel.sharding, Sharding::zero1);
  EXPECT_TRUE(shared.usual_sharding);
  const auto plain = given({{"framework", {"megatron"}}, {"tensor-parallel", {"2"}}, {"strategy", {"ddp"}}});
  EXPECT_EQ(plain.settings.parallel.sharding, Sharding::none);
  EXPECT_FALSE(plain.usual_sharding);
  EXPECT_EQ(given({{"framework", {"torchtitan"}}, {"tensor-parallel", {"2"}}}).settings.parallel.sharding,
            Sharding::fsdp2);
  for (const char* framework : {"transformers", "torchtune", "litgpt"}) {
    const auto others = given({{"framework", {framework}}, {"tensor-parallel", {"2"}}});
    EXPECT_EQ(others.settings.parallel.sharding, Sharding::none) << framework;
    EXPECT_FALSE(others.usual_sharding) << framework;
  }
}

}  // namespace
}  // namespace gpuwarden::planning
