// SPDX-License-Identifier: Apache-2.0
// gpuwarden plan
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/catalog_list.hpp"
#include "gpuwarden/planning/chart.hpp"
#include "gpuwarden/planning/emit.hpp"
#include "gpuwarden/planning/json.hpp"
#include "options.hpp"
#include "plan/request.hpp"
#include "plan/workload_options.hpp"
#include "render/plan_text.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kPlanOptions = std::to_array<Option>({
    {.names = "--model",
     .kind = OptionKind::text,
     .value = "NAME",
     .help = "the model, as an option: a name, a config.json or its folder",
     .also = "--model-name-or-path --model-path --model-name --model-id --pretrained-model-name-or-path"},
    {"--params", OptionKind::text, "N", "a model of which only the size is known: 7B; its shape is guessed"},
    {"--list", OptionKind::flag, "", "show the models that are known by name"},
    {.names = "--gpus",
     .kind = OptionKind::text,
     .value = "SPEC",
     .help = "plan for these instead of this machine's: 8xh100, 4xa100-40gb, rtx4090",
     .also = "--gpu --gpu-type --accelerator"},
    {"--gpus-per-node", OptionKind::text, "N", "how many GPUs a node has (8)"},
    {"--cpus", OptionKind::text, "N", "CPU cores of a node (this machine's, a capture's): advice on data loading"},
    {"--tokens", OptionKind::text, "N", "train on so many: how long it takes (300B)"},
    {"--mfu", OptionKind::text, "SHARE", "utilization that you measured, instead of what was published"},
    {"--calibrate", OptionKind::list, "M=GiB...",
     "peaks that you measured at two or three micro-batches: 1=23.4,2=30.1"},
    {"--explain", OptionKind::flag, "", "show the formula and the source of every line"},
    {"--chart", OptionKind::text, "FILE", "draw the memory: FILE ends with .svg or .html"},
    {"--emit", OptionKind::text, "FORMAT", "print what starts it: torchrun, accelerate, deepspeed, slurm",
     "torchrun accelerate deepspeed slurm"},
    {"--program", OptionKind::text, "FILE", "with --emit: the training program (train.py)"},
});

/// What people type who know torchrun, transformers, vLLM, DeepSpeed or Megatron, where no single option is meant.
constexpr auto kElsewhere = std::to_array<Elsewhere>({
    {"--gradient-checkpointing", "write --recompute full"},
    {"--no-gradient-checkpointing", "write --recompute none"},
    {"--mixed-precision",
     "accelerate's bf16 and fp16 are autocast over fp32 weights: write --precision mixed; no: fp32"},
    {"--fp8", "write --precision fp8 for training in 8 bits, --quantization fp8 for weights that are stored so"},
    {"--load-in-4bit", "write --task qlora for training, --quantization nf4 for inference"},
    {"--load-in-8bit", "write --quantization int8"},
    {"--lora", "write --task lora"},
    {"--use-lora", "write --task lora"},
    {"--use-peft", "write --task lora"},
    {"--qlora", "write --task qlora"},
    {"--serve", "write --task serve"},
    {"--inference", "write --task inference"},
    {"--fsdp", "write --strategy fsdp1, or fsdp2"},
    {"--ddp", "write --strategy ddp"},
    {"--deepspeed", "write --strategy zero2, or zero1 or zero3"},
    {"--zero-stage", "write --strategy zero1, zero2 or zero3"},
    {"--use-distributed-optimizer", "write --framework megatron --strategy zero1"},
    {"--sequence-parallel", "it is taken to be on where Megatron or torchtitan share matrices (--tensor-parallel)"},
    {"--cpu-offload", "write --offload optimizer, or --offload all"},
    {"--fsdp-cpu-offload", "write --offload all"},
    {"--use-flash-attn", "flash attention is the default; without it: --attention eager"},
    {"--mem-fraction-static",
     "SGLang's share has weights and cache alone: write --utilization SHARE, what the engine computes with included"},
    {"--kv-cache-free-gpu-memory-fraction",
     "TensorRT-LLM's share is of what weights leave free: write --utilization SHARE of the whole GPU"},
    {"--free-gpu-memory-fraction",
     "TensorRT-LLM's share is of what weights leave free: write --utilization SHARE of the whole GPU"},
    {"--nproc-per-node", "write --gpus 8xh100 for how many of which, --gpus-per-node for those of a node"},
    {"--num-gpus", "write --gpus 8xh100: how many, and of which model"},
    {"--num-processes", "write --gpus 8xh100: how many, and of which model"},
    {"--nnodes", "write --gpus 16xh100 for all of them, --gpus-per-node for those of a node"},
    {"--nodes", "write --gpus 16xh100 for all of them, --gpus-per-node for those of a node"},
    {"--use-liger-kernel", "write --loss fused"},
    {"--world-size", "write --gpus 8xh100: how many, and of which model"},
    {"--cpu-offload-gb",
     "weights that an engine keeps in the host's memory are not planned: --quantization, or more GPUs, makes them fit"},
    {"--data-parallel-size",
     "each replica is an engine of its own: write in --gpus those of one, 2xh100 of 8 with --tensor-parallel 2"},
    {"--dp-size", "each replica is an engine of its own: write in --gpus those of one"},
    {"--dp", "each replica is an engine of its own: write in --gpus those of one"},
    {"-dp", "each replica is an engine of its own: write in --gpus those of one"},
    {"--enable-expert-parallel",
     "write --expert-parallel N: vLLM spreads the experts over all GPUs of --tensor-parallel and the replicas"},
    {"--enable-ep-moe", "write --expert-parallel N"},
    {"--max-total-tokens", "write --sequence N for a request and --max-requests N for how many there are at a time"},
    {"--enable-lora", "an engine's adapters are not planned: leave it out; each is some hundred MB"},
    {"--speculative-config", "a draft model is not planned: plan it apart, and add its weights and cache"},
    {"--speculative-draft-model-path", "a draft model is not planned: plan it apart, and add its weights and cache"},
    {"--speculative-model", "a draft model is not planned: plan it apart, and add its weights and cache"},
    {"--config-file", "a file of accelerate's is not read: write its --strategy, --precision and --gpus in its place"},
    {"--override-tensor", "which tensors stay with the CPU is planned by --gpu-layers and --cpu-moe-layers alone"},
    {"-ot", "which tensors stay with the CPU is planned by --gpu-layers and --cpu-moe-layers alone"},
    {"--cpu-moe", "write --cpu-moe-layers all"},
    {"-cmoe", "write --cpu-moe-layers all"},
    {"--no-kv-offload", "a KV cache on the host is not planned: it is taken to be with its layers"},
    {"-nkvo", "a KV cache on the host is not planned: it is taken to be with its layers"},
    {"--model-draft", "a draft model is not planned: plan it apart, and add its weights and cache"},
    {"-md", "a draft model is not planned: plan it apart, and add its weights and cache"},
    {"--mmproj", "towers for images are counted with the model, in 16 bit", Elsewhere::Kind::needless_value},
    {"--main-gpu", "the GPUs are taken to be alike", Elsewhere::Kind::needless_value},
    {"-mg", "the GPUs are taken to be alike", Elsewhere::Kind::needless_value},
    {"--kv-unified", "the cache of -c tokens is counted once, whoever shares it", Elsewhere::Kind::needless},
    {"-kvu", "the cache of -c tokens is counted once, whoever shares it", Elsewhere::Kind::needless},
    {"--cont-batching", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"-cb", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--no-warmup", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--metrics", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--slots", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"-cnv", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--no-mmproj-offload", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--verbose", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--color", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--top-p", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--top-k", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--min-p", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--repeat-penalty", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"-n", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--n-predict", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--numa", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--prio", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--reasoning-format", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--chat-template-kwargs", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--cache-reuse", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--threads-batch", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"-tb", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--log-file", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--timeout", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--cache-ram", "it is the host's memory, not the GPU's", Elsewhere::Kind::needless_value},
    {"--fit", "how long requests are where -c says nothing is told in any case", Elsewhere::Kind::needless_value},
    {"--swa-full", "a sliding window's cache is planned at its window, as llama.cpp has it without this"},
    {"-t", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--alias", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"-p", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    // What changes nothing, so that a whole command line may be pasted.
    {"--enforce-eager", "CUDA graphs are within the range that is told of an engine", Elsewhere::Kind::needless},
    {"--disable-cuda-graph", "CUDA graphs are within the range that is told of an engine", Elsewhere::Kind::needless},
    {"--enable-chunked-prefill", "prompts are read in pieces of --batched-tokens, as engines do",
     Elsewhere::Kind::needless},
    {"--no-enable-chunked-prefill", "prompts are read in pieces of --batched-tokens, as engines do",
     Elsewhere::Kind::needless},
    {"--enable-prefix-caching", "what is cached is within the pool", Elsewhere::Kind::needless},
    {"--no-enable-prefix-caching", "what is cached is within the pool", Elsewhere::Kind::needless},
    {"--disable-radix-cache", "what is cached is within the pool", Elsewhere::Kind::needless},
    {"--swap-space", "it is the host's memory, not the GPU's", Elsewhere::Kind::needless_value},
    {"--block-size", "at most one block of a request is not full", Elsewhere::Kind::needless_value},
    {"--page-size", "at most one block of a request is not full", Elsewhere::Kind::needless_value},
    {"--gradient-accumulation-steps",
     "accumulation needs no more memory; a step's samples on all GPUs are --global-batch N",
     Elsewhere::Kind::needless_value},
    {"--bf16", "16 bit under autocast is the default (--precision mixed-low); everything in bf16: --precision bf16",
     Elsewhere::Kind::needless},
    {"--fp16", "16 bit under autocast is the default (--precision mixed-low); everything in fp16: --precision fp16",
     Elsewhere::Kind::needless},
    {"--num-train-epochs", "how long training takes is told with --tokens 300B", Elsewhere::Kind::needless_value},
    {"--max-steps", "how long training takes is told with --tokens 300B", Elsewhere::Kind::needless_value},
    {"--flash-attn", "flash attention is the default; without it: --attention eager", Elsewhere::Kind::needless},
    {"-fa", "flash attention is the default; without it: --attention eager", Elsewhere::Kind::needless},
    {"--tf32", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--jinja", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--no-mmap", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--mlock", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--remove-unused-columns", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--ddp-find-unused-parameters", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--group-by-length", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--push-to-hub", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--log-level", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--lora-alpha", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--lora-dropout", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--max-grad-norm", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--adam-beta1", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--adam-beta2", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--adam-epsilon", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--save-total-limit", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--eval-steps", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--evaluation-strategy", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--logging-dir", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--dataset-config-name", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--dataset-config", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--train-file", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--validation-file", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--dataloader-num-workers", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--threads", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--temp", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--revision", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--lr-scheduler", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--save-only-model", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--packing", "every sample is planned at its full length", Elsewhere::Kind::needless},
    {"--trust-remote-code", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--disable-log-requests", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--enable-auto-tool-choice", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--do-train", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--do-eval", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--overwrite-output-dir", "no memory of the GPU depends on it", Elsewhere::Kind::needless},
    {"--host", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--port", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--api-key", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--served-model-name", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--tokenizer", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--tokenizer-mode", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--chat-template", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--tool-call-parser", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--reasoning-parser", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--load-format", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--download-dir", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--seed", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--output-dir", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--run-name", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--learning-rate", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--lr-scheduler-type", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--warmup-ratio", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--warmup-steps", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--weight-decay", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--logging-steps", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--save-steps", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--save-strategy", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--eval-strategy", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--report-to", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--dataset", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--dataset-name", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
    {"--data-path", "no memory of the GPU depends on it", Elsewhere::Kind::needless_value},
});

using namespace planning;

constexpr Clash kClashes[] = {{"list", "emit", "--list shows the models and plans nothing"},
                              {"list", "chart", "--list shows the models and plans nothing"},
                              {"gpus", "from", "the GPUs are either named or those of a capture"},
                              {"gpus", "simulate", "the GPUs are either named or those of a fleet"},
                              {"params", "model", "a model has its own size"},
                              {"params", "family", "a shape that is guessed from a size is Llama's"},
                              {"emit", "json", "what --emit prints is for other tools as it is"}};

Result<int> show_list(bool as_json) {
  GPUWARDEN_TRY(const auto entries, list_catalog());
  if (as_json) {
    print_json(to_json(entries));
    return kFine;
  }
  for (const CatalogEntry& one : entries) fmt::print("{:<48} {:<12} {:>16}\n", one.name, one.family, one.parameters);
  return kFine;
}

Result<LaunchFormat> format_of(const std::string& name) {
  if (const auto format = launch_format_from(name)) return *format;
  return fail(ErrorCode::invalid_argument, fmt::format("--emit: unknown value '{}'", printable(name)),
              "torchrun, accelerate, deepspeed or slurm");
}

/// The chosen strategy as another tool's input.
Result<std::string> emitted(const Context& context, const PlanAnswer& answer) {
  GPUWARDEN_TRY(const LaunchFormat format, format_of(*context.args.text("emit")));
  Launch launch = launch_of(answer);
  launch.program = shell_word(context.args.text("program").value_or("train.py"));
  if (context.args.has("lora-targets")) launch.adapter_modules = context.args.list("lora-targets");
  return emit(launch, format);
}

Result<void> draw(const Context& context, const PlanAnswer& answer) {
  const auto file = context.args.text("chart");
  if (!file) return {};
  const auto picture = draw_chart(chart_of(answer), *file);
  if (!picture) return std::unexpected(about("chart", picture.error()));
  return write_output(*file, *picture);
}

Result<int> run_plan(Context& context) {
  if (context.args.has("list") && !context.args.has("emit") && !context.args.has("chart"))
    return show_list(context.args.has("json"));
  GPUWARDEN_CHECK(check_clashes(context.args, kClashes));
  if (context.args.has("emit")) GPUWARDEN_CHECK(format_of(*context.args.text("emit")));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(PlanQuestion question, read_plan_question(context));
  GPUWARDEN_TRY(const PlanAnswer answer, planning::answer(std::move(question.request)));
  GPUWARDEN_CHECK(draw(context, answer));
  if (context.args.has("emit")) {
    if (!answer.fits)
      return fail(ErrorCode::unsatisfied, answer.search.reason, "plan without --emit to see what makes it fit");
    if (answer.best().misses_global_batch)
      return fail(ErrorCode::unsatisfied, answer.search.reason,
                  fmt::format("give --global-batch {}, or another number of GPUs", answer.best().effective_batch));
    GPUWARDEN_TRY(const std::string text, emitted(context, answer));
    fmt::print("{}", text);
    return kFine;
  }
  if (context.args.has("json"))
    print_json(to_json(answer, question.origin));
  else
    fmt::print("{}", plan_text(answer, question.origin, style, context.args.has("explain")));
  return answer.fits ? kFine : kNo;
}

}  // namespace

constinit const Subcommand kPlanCommand{
    .name = "plan",
    .summary = "say whether a model fits, on how many GPUs, with which strategy",
    .usage = "gpuwarden plan MODEL | CONFIG.json | DIR | --params 7B [--task TASK] [--gpus 8xh100] [options]",
    .groups = {OptionGroup{kPlanOptions}, OptionGroup{kFromOptions}, kTaskGroup},
    .rest = Rest::operands,
    .elsewhere = kElsewhere,
    .run = run_plan};

}  // namespace gpuwarden::cli
