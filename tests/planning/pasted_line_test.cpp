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
  EXPECT_THAT(*without_launcher({"docker", "run", "--gpus", "all", "vllm/vllm-openai:latest", "--model", "gpt2"}),
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
  const auto offloads = read_pasted_line("deepspeed train.py --cpu_offload --model gpt2");
  ASSERT_THAT(offloads, FailsWith(ErrorCode::invalid_argument, HasSubstr("unknown option '--cpu_offload'")));
  EXPECT_EQ(offloads.error().hint, "write --offload optimizer, or --offload all");
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

/// The options that a plan gets, in order.
std::string options_of(std::string_view line) {
  const auto read = read_pasted_line(line);
  if (!read) return read.error().message;
  std::string text;
  for (const std::string& name : read->words.names()) {
    if (name == "model") continue;
    text += (text.empty() ? "" : " ") + name;
    for (const std::string& value : read->words.list(name)) text += "=" + value;
  }
  return text;
}

TEST(PastedLine, OtherProgramsSwitchesAreSaidInAPlansWords) {
  const std::pair<const char*, const char*> rows[] = {
      {"train.py --gradient_checkpointing", "recompute=full"},
      {"train.py --gradient_checkpointing False", "recompute=none"},
      {"train.py --use_liger_kernel false", ""},
      {"train.py --use_peft", "task=lora"},
      {"-m trl sft --use_peft", "task=lora"},
      {"train.py --use_peft true --load_in_4bit", "task=qlora"},
      {"train.py --load_in_4bit=true", "task=qlora"},
      {"llamafactory-cli train --stage sft --finetuning_type lora --quantization_bit 4",
       "lora-targets=all-linear task=qlora"},
      {"llamafactory-cli train --finetuning_type lora --lora_target q_proj", "lora-targets=q_proj task=lora"},
      {"accelerate launch --use_fsdp train.py", "strategy=fsdp1"},
      {"llamafactory-cli train --finetuning_type full --quantization_bit 8", "quantization=int8 task=finetune"},
      {"train.py --fsdp 'full_shard auto_wrap'", "strategy=fsdp1"},
      {"train.py --deepspeed configs/ds_z3_config.json", "strategy=zero3"},
      {"train.py --deepspeed ds_z3_offload_config.json", "offload=all strategy=zero3"},
      {"train.py --fsdp 'full_shard offload'", "offload=all strategy=fsdp1"},
      {"accelerate launch --mixed_precision bf16 train.py", "precision=mixed"},
      {"vllm serve --load-in-4bit", "engine=vllm quantization=nf4 task=serve"},
      {"vllm serve -tp 4 --data-parallel-size=1 --enable-expert-parallel", "--data-parallel-size"},
      {"vllm serve -tp 4 --enable-expert-parallel", "engine=vllm expert-parallel=4 task=serve tensor-parallel=4"},
      {"llama-server --cpu-moe", "cpu-moe-layers=all engine=llama.cpp task=serve"},
  };
  for (const auto& [line, options] : rows) {
    const std::string read = options_of("python " + std::string(line) + " --model gpt2");
    if (std::string_view(options).starts_with("--"))
      EXPECT_THAT(read, HasSubstr(options)) << line;
    else
      EXPECT_EQ(read, options) << line;
  }
}

TEST(PastedLine, ProcessesAreGpusWhereTheseAreNamed) {
  EXPECT_EQ(options_of("torchrun --nproc_per_node 8 --nnodes=2 train.py --model gpt2 --gpus a100"),
            "gpus=16xa100 gpus-per-node=8");
  EXPECT_EQ(options_of("torchrun --nproc_per_node=8 train.py --model gpt2 --gpus 8xh100"), "gpus=8xh100");
  EXPECT_EQ(options_of("accelerate launch --num_processes 4 train.py --model gpt2 --gpus h100:4"), "gpus=h100:4");
  EXPECT_EQ(options_of("torchrun --nproc_per_node 2 train.py --model gpt2 --gpus rtx4090"), "gpus=2xrtx4090");
  EXPECT_EQ(options_of("torchrun --nproc_per_node 8 train.py --model gpt2 --gpus 'RTX 4090'"), "gpus=8xrtx 4090");
  EXPECT_EQ(options_of("torchrun --nproc_per_node 8 train.py --model gpt2 --gpus h100x8"), "gpus=h100x8");
  EXPECT_EQ(options_of("--gpus h100 torchrun --nproc_per_node 8 train.py --model gpt2"), "gpus=8xh100");
  EXPECT_EQ(options_of("torchrun --nproc_per_node=gpu train.py --model gpt2 --gpus 4xh100"), "gpus=4xh100");
  EXPECT_EQ(options_of("torchrun --nproc_per_node auto --nnodes 1 train.py --model gpt2"), "");
  EXPECT_EQ(options_of("torchrun --nproc_per_node=gpu --nnodes=2 train.py --model gpt2 --gpus 16xh100"),
            "gpus=16xh100 gpus-per-node=8");
  EXPECT_EQ(options_of("torchrun --nproc_per_node 8 train.py --model gpt2 --gpus 4xh100"),
            "'--nproc_per_node 8' is not planned");
  EXPECT_EQ(options_of("torchrun --nproc_per_node 8 train.py --model gpt2"), "'--nproc_per_node 8' is not planned");
  EXPECT_EQ(options_of("torchrun --nnodes=1:4 train.py --model gpt2 --gpus h100"), "'--nnodes 1:4' is not planned");
  EXPECT_THAT(*without_launcher({"torchrun --nproc_per_node 2 t.py --model gpt2", "--gpus", "2xl4"}),
              ElementsAre("--model", "gpt2", "--gpus", "2xl4"));
}

TEST(PastedLine, NodesDivideTheGpusThatAreNamed) {
  EXPECT_EQ(options_of("--model gpt2 --gpus 16xh100 --nnodes 4"), "gpus=16xh100 gpus-per-node=4");
  EXPECT_EQ(options_of("torchrun --nnodes 4 --nproc-per-node 4 t.py --model gpt2 --gpus 16xh100"),
            "gpus=16xh100 gpus-per-node=4");
  EXPECT_EQ(options_of("accelerate launch --num_processes 8 --num_machines 2 t.py --model gpt2 --gpus h100"),
            "gpus=8xh100 gpus-per-node=4");
  EXPECT_EQ(options_of("--model gpt2 --gpus 16xh100 --nnodes 1"), "gpus=16xh100 gpus-per-node=16");
  EXPECT_EQ(options_of("--model gpt2 --gpus 16xh100 --nnodes 4 --gpus-per-node 4"), "gpus=16xh100 gpus-per-node=4");
  EXPECT_EQ(options_of("--model gpt2 --gpus 16xh100 --nnodes 4 --gpus-per-node 8"), "'--nnodes 4' is not planned");
  EXPECT_EQ(options_of("--model gpt2 --gpus 16xh100 --nnodes 3"), "'--nnodes 3' is not planned");
  EXPECT_EQ(options_of("--model gpt2 --gpus h100 --nnodes 2"), "'--nnodes 2' is not planned");
  EXPECT_EQ(options_of("--model gpt2 --nnodes 2"), "'--nnodes 2' is not planned");
  EXPECT_EQ(options_of("--model gpt2 --nnodes 1"), "");
}

TEST(PastedLine, AValueThatIsNotPlannedIsSaidToBeSo) {
  const auto read = read_pasted_line("llamafactory-cli train --stage dpo --model_name_or_path gpt2");
  ASSERT_THAT(read, FailsWith(ErrorCode::invalid_argument, HasSubstr("'--stage dpo' is not planned")));
  EXPECT_THAT(read.error().hint, HasSubstr("sft and pt are planned"));
  EXPECT_EQ(options_of("llamafactory-cli train --finetuning_type=freeze --model gpt2"),
            "'--finetuning_type freeze' is not planned");
  EXPECT_EQ(options_of("train.py --model gpt2 --quantization_bit 3"), "'--quantization_bit 3' is not planned");
  EXPECT_EQ(options_of("train.py --model gpt2 --mixed_precision fp8"), "'--mixed_precision fp8' is not planned");
  EXPECT_EQ(options_of("train.py --model gpt2 --stage"), "--stage needs a value");
  EXPECT_EQ(options_of("train.py --model gpt2 --load_in_4bit False --use_peft=false"), "");
}

TEST(PastedLine, WhatStandsBeforeTheLineIsReadAsItsOwn) {
  EXPECT_EQ(options_of("--gradient-checkpointing torchrun train.py --model gpt2"), "recompute=full");
  EXPECT_EQ(options_of("--qlora --gpus l4 python train.py --model gpt2"), "gpus=l4 task=qlora");
}

TEST(PastedLine, AMistypedProgramIsGuessed) {
  const auto guess = [](std::string_view line) {
    const auto read = read_pasted_line(line);
    return read ? std::string() : read.error().hint;
  };
  EXPECT_EQ(guess("vllm serv Qwen/Qwen3-8B"), "did you mean 'vllm serve'?");
  EXPECT_EQ(guess("vlm serve Qwen/Qwen3-8B"), "did you mean 'vllm serve'?");
  EXPECT_EQ(guess("'vllm serv Qwen/Qwen3-8B'"), "did you mean 'vllm serve'?");
  EXPECT_EQ(guess("--gpus l4 'vllm serv Qwen/Qwen3-8B'"), "did you mean 'vllm serve'?");
  EXPECT_EQ(guess("llama-sever -m qwen3-8b"), "did you mean 'llama-server -m'?");
  EXPECT_EQ(guess("tochrun train.py --model gpt2"), "did you mean 'torchrun train.py'?");
  EXPECT_EQ(guess("sglang lauch_server --model-path gpt2"), "did you mean 'sglang launch_server'?");
  for (const char* model : {"llama3 --gpus l4", "qwen3 --task serve", "Llama-2-7b-hf", "'my nice Qwen3-4B' -c 4096",
                            "llama.gguf -c 4096", "vllm serve gpt2", "torchrun train.py --model gpt2"})
    EXPECT_EQ(guess(model), "") << model;
}

TEST(PastedLine, AnOptionsValueStartsNoProgram) {
  EXPECT_EQ(options_of("--family llama4 --model gpt2"), "family=llama4");
  EXPECT_EQ(options_of("--family llama --model gpt2"), "family=llama");
  EXPECT_EQ(options_of("--family ollama run --gpus l4"), "family=ollama gpus=l4");
  EXPECT_EQ(options_of("--alias llama --model gpt2"), "");
  EXPECT_EQ(options_of("--compile llama --model gpt2"), "compile engine=llama.cpp task=serve");
  EXPECT_THAT(*without_launcher({"--chart", "llama", "--model", "gpt2"}, {"--chart"}),
              ElementsAre("--chart", "llama", "--model", "gpt2"));
  EXPECT_THAT(*without_launcher({"--program", "vllm serv x", "--model", "gpt2"}, {"--program"}),
              ElementsAre("--program", "vllm serv x", "--model", "gpt2"));
}

TEST(PastedLine, WhatIsNotPlannedIsLeftOutAndTold) {
  const auto line = read_pasted_line("vllm serve gpt2 --speculative-config '{\"method\": \"ngram\"}' --standalone");
  ASSERT_THAT(line, IsOk());
  EXPECT_THAT(line->needless, ::testing::Contains(HasSubstr("--speculative-config is left out: heads and n-grams")));
}

TEST(PastedLine, ADraftModelIsNamed) {
  EXPECT_EQ(options_of("llama-server -m gpt2 -md small.gguf -ngld 99"),
            "draft-model=small.gguf engine=llama.cpp task=serve");
  EXPECT_EQ(options_of("vllm serve gpt2 --speculative-config '{\"model\": \"distilgpt2\", "
                       "\"num_speculative_tokens\": 5}'"),
            "draft-model=distilgpt2 engine=vllm task=serve");
  EXPECT_EQ(options_of("vllm serve gpt2 --speculative-config '{\"model\": \"--gpus 8xh100\"}'"),
            "engine=vllm task=serve");
}

TEST(PastedLine, ExpertsThatTheCpuKeepsByPatternsAreSaidInLayers) {
  EXPECT_EQ(options_of("llama-server -m gpt2 -ot exps=CPU"), "cpu-moe-layers=all engine=llama.cpp task=serve");
  EXPECT_EQ(options_of("llama-server -m gpt2 --override-tensor 'blk\\.([0-9]|1[0-9])\\.ffn_.*_exps\\.=CPU'"),
            "cpu-moe-layers=20 engine=llama.cpp task=serve");
  EXPECT_EQ(options_of("llama-server -m gpt2 -ot token_embd=CPU"), "'-ot token_embd=CPU' is not planned");
}

TEST(PastedLine, WhatTheCpuKeepsByAnyOptionIsJoined) {
  const auto layers = [](const std::string& words) { return options_of("llama-server -m gpt2 " + words); };
  EXPECT_EQ(layers("-ot 'blk\\.([0-3])\\.ffn_.*_exps\\.=CPU' -ot 'blk\\.([0-9])\\.ffn_.*_exps\\.=CPU'"),
            "cpu-moe-layers=10 engine=llama.cpp task=serve");
  EXPECT_EQ(layers("-ot exps=CPU -ncmoe 4"), "cpu-moe-layers=all engine=llama.cpp task=serve");
  EXPECT_EQ(layers("-ncmoe 4 --n-cpu-moe=12"), "cpu-moe-layers=12 engine=llama.cpp task=serve");
  EXPECT_EQ(layers("--cpu-moe -ot exps=CPU"), "cpu-moe-layers=all engine=llama.cpp task=serve");
  EXPECT_EQ(layers("-ot exps=CPU -ot token_embd=CPU"), "'-ot token_embd=CPU' is not planned");
}

TEST(PastedLine, WhatIsSaidTwiceIsToldAsItWasTyped) {
  EXPECT_EQ(options_of("train.py --model gpt2 --fsdp full_shard --strategy ddp"),
            "--fsdp and --strategy both say --strategy");
  EXPECT_EQ(options_of("train.py --model gpt2 --use_liger_kernel --use_liger_kernel"),
            "--use_liger_kernel is given more than once");
  EXPECT_EQ(options_of("llama-server -m gpt2 --cpu-moe-layers 3 -ot exps=CPU"),
            "--cpu-moe-layers and -ot both say --cpu-moe-layers");
  EXPECT_EQ(options_of("train.py --model gpt2 --strategy ddp --strategy fsdp2"), "--strategy is given more than once");
}

TEST(PastedLine, TgiHasWordsOfItsOwn) {
  EXPECT_EQ(options_of("text-generation-launcher --model-id gpt2 --num-shard 2 --quantize awq --max-total-tokens 8192 "
                       "--max-input-length 4096 --max-batch-prefill-tokens 4096 --sharded true --port 8080"),
            "batched-tokens=4096 engine=tgi quantization=awq sequence=8192 task=serve tensor-parallel=2");
  EXPECT_EQ(options_of("text-generation-launcher --model-id=gpt2 --quantize=bitsandbytes --cuda-memory-fraction=0.5"),
            "engine=tgi quantization=int8 task=serve utilization=0.5");
  EXPECT_EQ(options_of("docker run --gpus all -p 8080:80 ghcr.io/huggingface/text-generation-inference:3.0 "
                       "--model-id gpt2 --max-total-tokens 2048"),
            "engine=tgi sequence=2048 task=serve");
  EXPECT_THAT(options_of("python -m sglang.launch_server --model-path gpt2 --max-total-tokens 2048"),
              HasSubstr("unknown option '--max-total-tokens'"));
}

TEST(PastedLine, OllamasNamesMeanTheLatest) {
  EXPECT_EQ(read_pasted_line("ollama run llama3.1")->words.text("model"), "llama3.1:latest");
  EXPECT_EQ(read_pasted_line("ollama run llama3.1:70b")->words.text("model"), "llama3.1:70b");
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
