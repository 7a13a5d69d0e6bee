// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/emit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "equations.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/slurm/script.hpp"

namespace gpuwarden::planning {
namespace {

using Ordered = nlohmann::ordered_json;

struct FormatName {
  LaunchFormat format;
  std::string_view name;
};
constexpr FormatName kFormats[] = {{LaunchFormat::torchrun, "torchrun"},
                                   {LaunchFormat::accelerate, "accelerate"},
                                   {LaunchFormat::deepspeed, "deepspeed"},
                                   {LaunchFormat::slurm, "slurm"}};

/// Elements that ZeRO reduces and gathers at once (source: DeepSpeed's configuration manual, defaults).
constexpr std::uint64_t kBucketElements = 500'000'000;
constexpr int kRendezvousPort = 29'500;

bool is_fsdp(Sharding sharding) { return sharding == Sharding::fsdp1 || sharding == Sharding::fsdp2; }

/// The ZeRO stage that shards the same things.
int zero_stage(Sharding sharding) {
  switch (sharding) {
    case Sharding::none:
      return 0;
    case Sharding::zero1:
      return 1;
    case Sharding::zero2:
      return 2;
    case Sharding::zero3:
    case Sharding::fsdp1:
    case Sharding::fsdp2:
      return 3;
  }
  std::unreachable();
}

bool is_zero(Sharding sharding) { return zero_stage(sharding) > 0 && !is_fsdp(sharding); }

/// Cores of a node that a rank and its loading take where nothing is known.
constexpr std::uint32_t kCpusPerGpu = 4;

/// The 16-bit type of the plan, as the GPU has it.
std::string_view half_type(const Launch& launch) {
  return launch.ampere && launch.settings.precision != Precision::fp16 ? "bf16" : "fp16";
}

/// What accelerate casts to: nothing where the weights are loaded in the type that is computed in. Through it,
/// DeepSpeed learns its own type.
std::string_view mixed_precision(const Launch& launch, const Settings& run) {
  const Precision precision = run.precision;
  const bool casts = precision == Precision::mixed || precision == Precision::mixed_low ||
                     precision == Precision::master_weights ||
                     (is_zero(run.parallel.sharding) && precision != Precision::fp32) ||
                     (run.task == Task::adapters && precision == Precision::fp16);
  return casts ? half_type(launch) : "no";
}

Result<void> only_training(const Launch& launch) {
  if (!launch.settings.trains())
    return fail(ErrorCode::unsatisfied,
                fmt::format("--emit starts training, the plan is for {}", to_string(launch.settings.task)),
                "plan with --task train, lora or qlora");
  if (launch.settings.parallel.layer_stages > 1)
    return fail(ErrorCode::unsatisfied, "GPUs that take turns on a model's layers belong to one process (device_map)",
                "start the program itself: there is nothing to launch");
  return {};
}

/// accelerate's scaling of the loss refuses fp16 gradients of fp16 weights, whatever they are computed in.
Result<void> no_plain_fp16(const Launch& launch, const Settings& run) {
  const bool narrow = run.precision == Precision::bf16 || run.precision == Precision::mixed_low;
  const bool half = run.precision == Precision::fp16 || (narrow && !launch.ampere);
  if (!half || run.task != Task::full_training || is_zero(run.parallel.sharding)) return {};
  return fail(ErrorCode::unsatisfied, "accelerate does not train weights that are stored in fp16",
              "plan with --precision mixed, or with --strategy zero2");
}

std::string_view optimizer_words(const Settings& settings) {
  switch (settings.step) {
    case OptimizerStep::foreach:
    case OptimizerStep::foreach_twice:
      return "";
    case OptimizerStep::fused:
      return ", fused";
    case OptimizerStep::in_backward:
      return ", within the backward pass";
  }
  std::unreachable();
}

/// Whether accelerate itself recomputes: transformers' Trainer refuses to be told so, too.
bool fsdp_recomputes(const Settings& settings) { return settings.recompute == Recompute::full; }

/// How the GPUs share the work, every degree by name.
std::string strategy_words(const Parallelism& parallel) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view kind, std::uint32_t degree) {
    if (degree > 1) words.push_back(fmt::format("{} {}", kind, degree));
  };
  add("tensor parallel", parallel.tensor);
  if (parallel.tensor > 1 && parallel.sequence_parallel) words.back() += " (with sequence parallelism)";
  add("pipeline parallel", parallel.pipeline);
  if (parallel.virtual_stages > 1)
    words.back() += fmt::format(" (interleaved, {} runs a rank)", parallel.virtual_stages);
  add("context parallel", parallel.context);
  add("expert parallel", parallel.expert);
  if (parallel.data * parallel.context > 1 || parallel.sharding != Sharding::none)
    words.push_back(fmt::format("{} over {} data-parallel rank{}", title_of(parallel.sharding), parallel.data,
                                parallel.data == 1 ? "" : "s"));
  return words.empty() ? "one GPU" : join(words, " x ");
}

/// The framework, or those that bring what the plan's own does not.
std::string framework_words(const Settings& settings) {
  const Parallelism& parallel = settings.parallel;
  const bool own = settings.framework == Framework::megatron || settings.framework == Framework::torchtitan ||
                   std::max({parallel.tensor, parallel.pipeline, parallel.context, parallel.expert}) == 1;
  const std::string name(to_string(settings.framework));
  return own ? name : fmt::format("Megatron or torchtitan ({} does not bring this strategy)", name);
}

/// Comment lines: what the plan counts on and the training program sets itself.
std::string program_notes(const Launch& launch, std::string_view recompute_key = "gradient_checkpointing") {
  const Settings& s = launch.settings;
  std::string text = "# What the plan counts on and the training program sets itself:\n";
  const auto note = [&](std::string_view name, std::string_view value) {
    text += fmt::format("#   {}: {}\n", name, value);
  };
  const Settings run = as_run(s);
  note("framework", framework_words(s));
  note("strategy", strategy_words(run.parallel));
  if (run.parallel.offload != Offload::none)
    note("offloaded to the host", run.parallel.offload == Offload::all ? "weights, gradients and optimizer states"
                                                                       : "gradients and optimizer states");
  note("samples per GPU (per_device_train_batch_size)", fmt::to_string(s.micro_batch));
  note("gradient accumulation (gradient_accumulation_steps)", fmt::to_string(s.accumulation));
  note("tokens of a sample", fmt::to_string(s.sequence));
  note("precision",
       fmt::format("{}{}", to_string(s.precision),
                   s.precision == Precision::fp32 ? "" : fmt::format(", 16 bit are {}", half_type(launch))));
  note("optimizer", fmt::format("{}{}", to_string(s.optimizer), optimizer_words(s)));
  note(fmt::format("recomputation ({})", recompute_key), to_string(s.recompute));
  note("attention", s.attention == Attention::eager ? "eager"
                    : launch.ampere                 ? "flash (flash_attention_2 or sdpa)"
                                                    : "sdpa (flash's kernels want compute capability 8.0)");
  note("loss", to_string(s.loss));
  if (s.task == Task::adapters) note("adapters' rank", fmt::to_string(s.adapters.rank));
  if (s.task == Task::adapters && !launch.adapter_modules.empty())
    note("adapters' matrices (target_modules)", join(launch.adapter_modules, ", "));
  if (s.quantization != Quantization::none) note("quantization", to_string(s.quantization));
  if (s.fp8 != Fp8::none) note("matrix products", "fp8");
  return text;
}

Result<void> only_data_parallel(const Launch& launch, std::string_view file) {
  const Parallelism& parallel = launch.settings.parallel;
  if (std::max({parallel.tensor, parallel.pipeline, parallel.context, parallel.expert}) == 1) return {};
  return fail(ErrorCode::unsatisfied,
              fmt::format("{} does not set tensor, pipeline, context or expert parallelism", file),
              "the training program sets it up: take --emit torchrun or slurm");
}

Ordered offload_target() { return {{"device", "cpu"}, {"pin_memory", true}}; }

std::string yaml_flag(bool value) { return value ? "true" : "false"; }

std::string fsdp_section(const Settings& settings) {
  const bool second = settings.parallel.sharding == Sharding::fsdp2;
  // Source: accelerate's launch.py, v1.5.0 and v1.6.0.
  std::string text = second ? "# accelerate before 1.6 does not know FSDP2 and takes FSDP1\n" : "";
  text += "fsdp_config:\n";
  const auto add = [&](std::string_view key, std::string_view value) { text += fmt::format("  {}: {}\n", key, value); };
  add("fsdp_version", second ? "2" : "1");
  add("fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
  add("fsdp_activation_checkpointing", yaml_flag(fsdp_recomputes(settings)));
  add("fsdp_cpu_ram_efficient_loading", "true");
  add("fsdp_offload_params", yaml_flag(settings.parallel.offload != Offload::none));
  add("fsdp_state_dict_type", "SHARDED_STATE_DICT");
  if (second) {
    add("fsdp_reshard_after_forward", "true");
  } else {
    add("fsdp_reshard_after_forward", "FULL_SHARD");
    add("fsdp_backward_prefetch", "BACKWARD_PRE");
    add("fsdp_forward_prefetch", "false");
    add("fsdp_sync_module_states", "true");
    add("fsdp_use_orig_params", "true");
  }
  return text;
}

std::string deepspeed_section(const Settings& settings, const Nodes& nodes) {
  const int stage = zero_stage(settings.parallel.sharding);
  const bool optimizer = settings.parallel.offload != Offload::none;
  const bool weights = settings.parallel.offload == Offload::all && stage == 3;
  // Without it accelerate wants a host file and starts the other nodes through pdsh.
  const std::string_view launcher = nodes.nodes > 1 ? "  deepspeed_multinode_launcher: standard\n" : "";
  return fmt::format(
      "deepspeed_config:\n{}  gradient_accumulation_steps: {}\n  offload_optimizer_device: {}\n"
      "  offload_param_device: {}\n  zero3_init_flag: {}\n  zero3_save_16bit_model: {}\n  zero_stage: {}\n",
      launcher, settings.accumulation, optimizer ? "cpu" : "none", weights ? "cpu" : "none", stage == 3, stage == 3,
      stage);
}

std::string_view distributed_type(const Settings& settings) {
  if (is_fsdp(settings.parallel.sharding)) return "FSDP";
  if (is_zero(settings.parallel.sharding)) return "DEEPSPEED";
  return settings.parallel.gpus() > 1 ? "MULTI_GPU" : "'NO'";
}

Ordered zero_section(const Settings& settings) {
  const int stage = zero_stage(settings.parallel.sharding);
  Ordered zero = {{"stage", stage},
                  {"overlap_comm", true},
                  {"contiguous_gradients", true},
                  {"reduce_bucket_size", kBucketElements},
                  {"allgather_bucket_size", kBucketElements}};
  if (settings.parallel.offload != Offload::none && stage > 0) zero["offload_optimizer"] = offload_target();
  if (stage != 3) return zero;
  zero.erase("allgather_bucket_size");
  zero["stage3_prefetch_bucket_size"] = kBucketElements;
  zero["stage3_max_live_parameters"] = 2 * kBucketElements;
  zero["stage3_gather_16bit_weights_on_model_save"] = true;
  if (settings.parallel.offload == Offload::all) zero["offload_param"] = offload_target();
  return zero;
}

/// DeepSpeed refuses optimizers that it was not tried with unless it is told to take them, and beside offloaded states
/// those that are not its own (source: DeepSpeedEngine._do_optimizer_sanity_check and _configure_optimizer).
void add_optimizer(const Settings& settings, Ordered& config) {
  if (settings.optimizer == Optimizer::adamw) return;
  config["zero_allow_untested_optimizer"] = true;
  if (settings.parallel.offload != Offload::none) config["zero_force_ds_cpu_optimizer"] = false;
}

/// Comment lines as texts, without their hashes.
std::vector<std::string> split_notes(std::string_view text) {
  std::vector<std::string> lines;
  for (const auto line : split(text, '\n')) {
    const auto words = trim(line.substr(std::min<std::size_t>(line.size(), 1)));
    if (!words.empty()) lines.emplace_back(words);
  }
  return lines;
}

/// The torchrun words in front of the program; with underscores, which torch before 2.0 needs and later ones take. On
/// one node the port is any free one; --standalone of torch before 2.0 takes 29400, which two jobs would share.
std::string torchrun_words(const Nodes& nodes, std::string_view endpoint) {
  if (nodes.nodes == 1)
    return fmt::format("torchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:0 --nproc_per_node={}", nodes.gpus);
  return fmt::format("torchrun --nnodes={} --nproc_per_node={} --rdzv_backend=c10d --rdzv_endpoint={}", nodes.nodes,
                     nodes.gpus, endpoint);
}

}  // namespace

Launch launch_of(const PlanAnswer& answer) {
  const PlanRequest& request = answer.request;
  Launch launch{.settings = answer.best().settings, .gpus_per_node = request.gpus_per_node};
  launch.ampere = request.gpus.capability_major == 0 || request.gpus.capability_major >= 8;
  launch.job_name = request.work.model.name;
  launch.adapter_modules = default_lora_targets(request.work.model);
  // As nodes_of() has it: of nodes without a size, one takes all GPUs.
  const std::uint32_t node = request.gpus_per_node != 0 ? request.gpus_per_node : request.gpus.count;
  launch.cpus_per_gpu = node != 0 ? request.cpus / node : 0;
  const std::uint32_t on_node = std::min(node, request.gpus.count);
  launch.host_memory_per_node = Bytes(static_cast<std::uint64_t>(answer.best().estimate.host * on_node));
  return launch;
}

std::string_view to_string(LaunchFormat format) {
  return std::ranges::find(kFormats, format, &FormatName::format)->name;
}

std::optional<LaunchFormat> launch_format_from(std::string_view name) {
  const auto* const found = std::ranges::find(kFormats, name, &FormatName::name);
  if (found == std::end(kFormats)) return std::nullopt;
  return found->format;
}

Result<Nodes> nodes_of(const Launch& launch) {
  const std::uint32_t gpus = launch.settings.parallel.gpus();
  if (launch.gpus_per_node == 0 || gpus <= launch.gpus_per_node) return Nodes{1, gpus};
  if (gpus % launch.gpus_per_node != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} GPUs do not fill nodes of {} GPUs", gpus, launch.gpus_per_node),
                "say how many a node has: --gpus-per-node");
  return Nodes{gpus / launch.gpus_per_node, launch.gpus_per_node};
}

Result<std::string> torchrun_commands(const Launch& launch) {
  GPUWARDEN_CHECK(only_training(launch));
  GPUWARDEN_TRY(const Nodes nodes, nodes_of(launch));
  const std::string several =
      nodes.nodes > 1
          ? fmt::format(" --nnodes {} --node-rank \"$NODE_RANK\" --master-addr \"$MASTER_ADDR\" --master-port {}",
                        nodes.nodes, kRendezvousPort)
          : "";
  const std::string endpoint = fmt::format("\"$MASTER_ADDR:{}\"", kRendezvousPort);
  return fmt::format("{}gpuwarden run -n {} --nproc-per-node gpu{} -- python3 {}\n{} {}\n", program_notes(launch),
                     nodes.gpus, several, launch.program, torchrun_words(nodes, endpoint), launch.program);
}

Result<std::string> accelerate_config(const Launch& launch) {
  GPUWARDEN_CHECK(only_training(launch));
  GPUWARDEN_CHECK(only_data_parallel(launch, "accelerate's configuration"));
  GPUWARDEN_TRY(const Nodes nodes, nodes_of(launch));
  const Settings settings = as_run(launch.settings);
  GPUWARDEN_CHECK(no_plain_fp16(launch, settings));
  const std::string_view type = distributed_type(settings);
  // What differs between nodes is said when it is launched.
  const std::string node = fmt::format(
      " --machine_rank \"$NODE_RANK\" --main_process_ip \"$MASTER_ADDR\" --main_process_port {}", kRendezvousPort);
  std::string text = fmt::format("# accelerate launch --config_file THIS_FILE{} {}\n", nodes.nodes > 1 ? node : "",
                                 printable(launch.program));
  const bool recomputes = type == "FSDP" && fsdp_recomputes(settings);
  text += program_notes(launch, recomputes ? "fsdp_activation_checkpointing below; gradient_checkpointing stays off"
                                           : "gradient_checkpointing");
  text += fmt::format("compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: {}\n", type);
  if (type == "FSDP") text += fsdp_section(settings);
  if (type == "DEEPSPEED") text += deepspeed_section(settings, nodes);
  text += fmt::format(
      "downcast_bf16: 'no'\nenable_cpu_affinity: false\nmachine_rank: 0\nmain_training_function: main\n"
      "mixed_precision: '{}'\nnum_machines: {}\nnum_processes: {}\nrdzv_backend: static\nsame_network: true\n"
      "use_cpu: false\n",
      mixed_precision(launch, settings), nodes.nodes, nodes.nodes * nodes.gpus);
  return text;
}

Result<std::string> deepspeed_config(const Launch& launch) {
  GPUWARDEN_CHECK(only_training(launch));
  GPUWARDEN_CHECK(only_data_parallel(launch, "DeepSpeed's configuration"));
  const Settings settings = as_run(launch.settings);
  if (!is_zero(settings.parallel.sharding)) {
    return fail(ErrorCode::unsatisfied, "the plan is not one of ZeRO: under DeepSpeed it needs other memory",
                "plan with --strategy zero1, zero2 or zero3");
  }
  const bool narrow = settings.precision != Precision::fp32;
  const bool half = narrow && half_type(launch) == "fp16";
  const bool brain = narrow && !half;
  const std::uint64_t batch = std::uint64_t{settings.micro_batch} * settings.accumulation * settings.parallel.data;
  // Comments are keys that DeepSpeed does not read.
  Ordered notes = Ordered(split_notes(program_notes(launch)));
  if (settings.parallel.offload != Offload::none && settings.optimizer == Optimizer::adamw)
    notes.emplace_back("the optimizer's class: deepspeed.ops.adam.DeepSpeedCPUAdam, its states rest on the host");
  Ordered config = {{"_plan", notes},
                    {"train_batch_size", batch},
                    {"train_micro_batch_size_per_gpu", settings.micro_batch},
                    {"gradient_accumulation_steps", settings.accumulation},
                    {"gradient_clipping", 1.0},
                    {"bf16", {{"enabled", brain}}},
                    {"fp16", {{"enabled", half}}},
                    {"zero_optimization", zero_section(settings)},
                    {"steps_per_print", 10},
                    {"wall_clock_breakdown", false}};
  add_optimizer(settings, config);
  return config.dump(2) + "\n";
}

Result<std::string> slurm_script(const Launch& launch) {
  GPUWARDEN_CHECK(only_training(launch));
  GPUWARDEN_TRY(const Nodes nodes, nodes_of(launch));
  slurm::BatchJob job{.name = slurm::plain_name(launch.job_name), .nodes = nodes.nodes, .gpus = nodes.gpus};
  job.cpus = (launch.cpus_per_gpu > 0 ? launch.cpus_per_gpu : kCpusPerGpu) * nodes.gpus;
  if (launch.host_memory_per_node > Bytes{})
    job.memory = fmt::format("{}M", (launch.host_memory_per_node.value >> 20U) + 1);
  job.time = launch.time;
  job.output = "%x-%j.log";
  const std::string notes = program_notes(launch);
  for (const auto line : split(trim(notes), '\n')) job.notes.emplace_back(line);
  job.command = torchrun_words(nodes, "\"$MASTER_ADDR:$MASTER_PORT\"") + " " + launch.program;
  return slurm::sbatch_script(job);
}

Result<std::string> emit(const Launch& launch, LaunchFormat format) {
  switch (format) {
    case LaunchFormat::torchrun:
      return torchrun_commands(launch);
    case LaunchFormat::accelerate:
      return accelerate_config(launch);
    case LaunchFormat::deepspeed:
      return deepspeed_config(launch);
    case LaunchFormat::slurm:
      return slurm_script(launch);
  }
  std::unreachable();
}

}  // namespace gpuwarden::planning
