// SPDX-License-Identifier: Apache-2.0
#include "planning/line_meanings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "gpuwarden/base/foreign_option.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gpus.hpp"
#include "planning/plan_name.hpp"
#include "planning/tensor_overrides.hpp"

namespace gpuwarden::planning {
namespace {

/// What stands behind an option.
enum class Takes {
  nothing,
  switched,  ///< nothing, or true or false
  value,
};

struct Meaning {
  std::string_view option;  ///< with '-' for '_'
  Takes takes;
  std::string_view value;     ///< which it must contain in lower case; empty: any
  std::string_view words;     ///< of a plan, blanks between; empty: needless
  std::string_view off = {};  ///< the same, of a switch that is false
};
/// Sources: TrainingArguments of transformers; LLaMA-Factory's hparams (finetuning_type, stage, quantization_bit);
/// TRL's ModelConfig (use_peft, load_in_4bit); accelerate launch --help; llama.cpp's common/arg.cpp; torchrun's
/// --nproc-per-node (torch/distributed/run.py: a number, auto, cpu, gpu, xpu).
constexpr Meaning kMeanings[] = {
    {"--gradient-checkpointing", Takes::switched, "", "--recompute full", "--recompute none"},
    {"--no-gradient-checkpointing", Takes::nothing, "", "--recompute none"},
    {"--use-liger-kernel", Takes::switched, "", "--loss fused"},
    {"--load-in-8bit", Takes::switched, "", "--quantization int8"},
    {"--ddp", Takes::nothing, "", "--strategy ddp"},
    {"--fsdp-cpu-offload", Takes::switched, "", "--offload all"},
    {"--serve", Takes::nothing, "", "--task serve"},
    {"--inference", Takes::nothing, "", "--task inference"},
    {"--use-fsdp", Takes::switched, "", "--strategy fsdp1"},
    {"--fsdp", Takes::value, "offload", "--strategy fsdp1 --offload all"},
    {"--fsdp", Takes::value, "full_shard", "--strategy fsdp1"},
    {"--zero-stage", Takes::value, "0", "--strategy ddp"},
    {"--zero-stage", Takes::value, "1", "--strategy zero1"},
    {"--zero-stage", Takes::value, "2", "--strategy zero2"},
    {"--zero-stage", Takes::value, "3", "--strategy zero3"},
    {"--deepspeed", Takes::value, "z3_offload", "--strategy zero3 --offload all"},
    {"--deepspeed", Takes::value, "zero3_offload", "--strategy zero3 --offload all"},
    {"--deepspeed", Takes::value, "z2_offload", "--strategy zero2 --offload optimizer"},
    {"--deepspeed", Takes::value, "zero2_offload", "--strategy zero2 --offload optimizer"},
    {"--deepspeed", Takes::value, "z3", "--strategy zero3"},
    {"--deepspeed", Takes::value, "zero3", "--strategy zero3"},
    {"--deepspeed", Takes::value, "stage3", "--strategy zero3"},
    {"--deepspeed", Takes::value, "z2", "--strategy zero2"},
    {"--deepspeed", Takes::value, "zero2", "--strategy zero2"},
    {"--deepspeed", Takes::value, "stage2", "--strategy zero2"},
    {"--mixed-precision", Takes::value, "bf16", "--precision mixed"},
    {"--mixed-precision", Takes::value, "fp16", "--precision mixed"},
    {"--mixed-precision", Takes::value, "no", "--precision fp32"},
    {"--finetuning-type", Takes::value, "full", "--task finetune"},
    {"--stage", Takes::value, "sft", ""},
    {"--stage", Takes::value, "pt", ""},
    {"--quantization-bit", Takes::value, "8", "--quantization int8"},
    // As many as the machine has: all GPUs that are planned for.
    {"--nproc-per-node", Takes::value, "gpu", ""},
    {"--nproc-per-node", Takes::value, "auto", ""},
};
constexpr auto kNodeCounts = std::to_array<std::string_view>({"--nnodes", "--num-nodes", "--num-machines"});

constexpr std::int64_t kMostProcesses = 100'000;

template <std::size_t N>
bool has(const std::array<std::string_view, N>& table, std::string_view name) {
  return std::ranges::find(table, name) != table.end();
}

/// One of a line's options, taken apart.
struct Found {
  std::string name;  ///< with '-' for '_'
  std::optional<std::string> value;
  std::size_t words = 1;
};

std::optional<std::string> prefixed(std::string_view option, const std::optional<std::string>& value) {
  return value ? std::optional(std::string(option) + *value) : std::nullopt;
}

/// The draft model that vLLM's --speculative-config names, as JSON; empty: none, or heads for the model itself.
std::optional<std::string> draft_of(std::string_view config) {
  const auto json = nlohmann::json::parse(config, nullptr, false);
  if (!json.is_object() || !json.contains("model") || !json["model"].is_string()) return std::nullopt;
  std::string model = json["model"].get<std::string>();
  const bool one_word = !model.empty() && !model.starts_with('-') && split_words(model).size() == 1;
  return one_word ? std::optional(std::move(model)) : std::nullopt;
}

/// What means something else where text-generation-launcher has it. Source: its --help.
std::optional<std::string> words_of_tgi(std::string_view name, std::string_view value) {
  if (name == "--max-total-tokens") return fmt::format("--sequence {}", value);
  if (name == "--quantize" && value == "bitsandbytes") return "--quantization int8";
  return std::nullopt;
}

bool is_host_switch(std::string_view name) { return name == "--cpu-moe" || name == "-cmoe"; }

/// Of how many layers llama.cpp's option leaves the experts to the CPU: a number, or all.
std::optional<std::string> host_layers_of(const Found& found) {
  if (is_host_switch(found.name)) return "all";
  if (!found.value) return std::nullopt;
  if (found.name == "--override-tensor" || found.name == "-ot") return host_experts_of(*found.value);
  const bool counts = found.name != "--cpu-moe-layers" && plan_name_of(found.name) == "cpu-moe-layers";
  const auto number = parse_integer(*found.value);
  return counts && number && *number >= 0 ? found.value : std::nullopt;
}

class Line {
 public:
  Line(const std::vector<std::string>& words, bool serves, std::string_view engine)
      : words_(words), serves_(serves), engine_(engine) {
    look();
  }

  Result<std::vector<std::string>> take() {
    while (next_ < words_.size() && words_[next_] != "--") {
      const Found found = at(next_);
      const std::size_t before = said_.size();
      const std::string typed = words_[next_].substr(0, words_[next_].find('='));
      if (!say(found)) said_.push_back(words_[next_++]);
      GPUWARDEN_CHECK(check_said(typed, before));
    }
    said_.insert(said_.end(), words_.begin() + next(), words_.end());
    return std::move(said_);
  }

 private:
  /// One thing that is said twice in other words is told in those that were typed.
  Result<void> check_said(const std::string& typed, std::size_t before) {
    for (std::size_t i = before; i < said_.size(); ++i) {
      const std::string own = looks_like_option(said_[i]) ? plan_name_of(said_[i].substr(0, said_[i].find('='))) : "";
      if (own.empty()) continue;
      const auto [first, fresh] = said_by_.emplace(own, typed);
      const bool both_own = plan_name_of(typed) == own && plan_name_of(first->second) == own;
      if (fresh || both_own) continue;
      return fail(ErrorCode::invalid_argument,
                  typed == first->second
                      ? fmt::format("{} is given more than once", printable(typed))
                      : fmt::format("{} and {} both say --{}", printable(first->second), printable(typed), own),
                  "leave one of them out");
    }
    return {};
  }

  std::ptrdiff_t next() const { return static_cast<std::ptrdiff_t>(next_); }

  Found at(std::size_t place) const {
    const std::string& word = words_[place];
    if (!looks_like_option(word)) return {};
    const std::size_t equals = word.find('=');
    Found found{.name = hyphenated(word.substr(0, equals))};
    if (equals != std::string::npos) {
      found.value = word.substr(equals + 1);
    } else if (place + 1 < words_.size() && !looks_like_option(words_[place + 1])) {
      found.value = words_[place + 1];
      found.words = 2;
    }
    return found;
  }

  /// What several options say together.
  void look() {
    for (std::size_t i = 0; i < words_.size() && words_[i] != "--"; ++i) {
      const Found found = at(i);
      const std::string value = to_lower(found.value.value_or(""));
      const std::string own = plan_name_of(found.name);
      look_at_task(found.name, value);
      look_at_host_layers(found);
      if (const auto number = parse_integer(value); number && *number > 0 && *number < kMostProcesses)
        look_at_count(found.name, own, static_cast<std::uint64_t>(*number));
      if (own == "gpus" && found.value) gpus_ = value;
      if (own == "task") names_task_ = true;
      if (own == "expert-parallel") names_experts_ = true;
      if (own == "lora-targets") names_targets_ = true;
      if (own == "tensor-parallel") look_at_ranks(value);
    }
    if (processes_ > 0) all_processes_ = processes_ * nodes_;
  }

  void look_at_task(std::string_view name, std::string_view value) {
    static constexpr auto kAdapters = std::to_array<std::string_view>({"--use-peft", "--lora", "--use-lora"});
    if (name == "--finetuning-type" && value == "lora") adapters_ = true;
    if (name == "--quantization-bit" && value == "4") packed_ = true;
    if (value == "false") return;
    if (has(kAdapters, name)) adapters_ = true;
    if (name == "--load-in-4bit" || name == "--qlora") packed_ = true;
    if (name == "--qlora") qlora_ = true;
  }

  void look_at_count(std::string_view name, std::string_view own, std::uint64_t count) {
    static constexpr auto kReplicas =
        std::to_array<std::string_view>({"--data-parallel-size", "--dp", "--dp-size", "-dp"});
    if (has(kNodeCounts, name)) nodes_ = count;
    if (own == "gpus-per-node") gpus_per_node_ = count;
    if (name == "--nproc-per-node" || name == "--num-gpus") processes_ = count;
    if (name == "--num-processes") all_processes_ = count;
    if (has(kReplicas, name)) ranks_ *= count;
  }

  /// llama.cpp keeps on the CPU what any of its options names.
  void look_at_host_layers(const Found& found) {
    const auto layers = host_layers_of(found);
    if (!layers || host_layers_ == "all") return;
    const bool more = host_layers_.empty() || *layers == "all" || parse_integer(*layers) > parse_integer(host_layers_);
    if (more) host_layers_ = *layers;
  }

  void look_at_ranks(std::string_view value) {
    if (const auto ranks = parse_integer(value); ranks && *ranks > 0 && *ranks < kMostProcesses)
      ranks_ *= static_cast<std::uint64_t>(*ranks);
  }

  /// How many GPUs "8xh100", "h100:8" and "rtx4090" name; 0: no number is there.
  static std::uint64_t named_gpus(std::string_view spec) {
    const std::size_t digits = std::min(spec.find_first_not_of("0123456789"), spec.size());
    if (digits > 0 && digits < spec.size() && spec[digits] == 'x')
      return static_cast<std::uint64_t>(parse_integer(spec.substr(0, digits)).value_or(0));
    const std::size_t colon = spec.rfind(':');
    if (colon != std::string_view::npos)
      return static_cast<std::uint64_t>(std::max<std::int64_t>(0, parse_integer(spec.substr(colon + 1)).value_or(0)));
    // "h100x8", but not the model's own number: "rtx4090".
    const auto gpus = gpus_named(spec);
    return gpus && gpus->count > 1 ? gpus->count : 0;
  }

  void put(std::string_view text) {
    for (const std::string_view word : split_words(text)) said_.emplace_back(word);
  }

  bool say(const Found& found) {
    if (found.name.empty()) return false;
    if (say_task(found) || say_gpus(found) || say_experts(found) || say_host_layers(found) || say_of_server(found))
      return true;
    const std::string value = to_lower(found.value.value_or(""));
    // Whether all of it is offloaded, or the optimizer, no such name says.
    if (found.name == "--deepspeed" && value.contains("offload") && !value.contains("_offload")) return false;
    const auto* const row = std::ranges::find_if(kMeanings, [&](const Meaning& one) {
      return one.option == found.name && (one.takes != Takes::value || (found.value && value.contains(one.value)));
    });
    if (row == std::end(kMeanings)) return false;
    const bool switched = value == "true" || value == "false";
    const bool takes_value = row->takes == Takes::value || (row->takes == Takes::switched && switched);
    put(value == "false" && row->takes == Takes::switched ? row->off : row->words);
    next_ += takes_value ? found.words : 1;
    return true;
  }

  /// Adapters, and weights that are stored in 4 bits beside them or served so.
  bool say_task(const Found& found) {
    static constexpr auto kSwitches =
        std::to_array<std::string_view>({"--use-peft", "--lora", "--use-lora", "--qlora", "--load-in-4bit"});
    const std::string value = to_lower(found.value.value_or(""));
    if (has(kSwitches, found.name) && value == "false") {
      next_ += found.words;
      return true;
    }
    const bool valued =
        (found.name == "--finetuning-type" && value == "lora") || (found.name == "--quantization-bit" && value == "4");
    if (!valued && !(has(kSwitches, found.name) && (adapters_ || packed_))) return false;
    next_ += valued || value == "true" || value == "false" ? found.words : 1;
    // LLaMA-Factory's lora_target is all of them where nothing is named (finetuning_args.py).
    if (found.name == "--finetuning-type" && !names_targets_) put("--lora-targets all-linear");
    if (std::exchange(task_said_, true)) return true;
    const bool of_task = !names_task_ && (qlora_ || !serves_);
    if (of_task)
      put(packed_ ? "--task qlora" : "--task lora");
    else if (packed_)
      put("--quantization nf4");
    return true;
  }

  /// How many processes there are is how many GPUs, if these are named on the line.
  bool say_gpus(const Found& found) {
    static constexpr auto kCounts =
        std::to_array<std::string_view>({"--nproc-per-node", "--num-processes", "--num-gpus"});
    const std::uint64_t named = named_gpus(gpus_);
    if (has(kNodeCounts, found.name)) return say_nodes(found, named);
    if (gpus_.empty() || all_processes_ == 0 || (named > 0 && named != all_processes_)) return false;
    if (plan_name_of(found.name) == "gpus" && named == 0) {
      said_.insert(said_.end(), {"--gpus", fmt::format("{}x{}", all_processes_, gpus_)});
      next_ += found.words;
      return true;
    }
    if (!has(kCounts, found.name)) return false;
    next_ += found.words;
    return true;
  }

  /// How many nodes there are is how many GPUs each has, if these are named on the line.
  bool say_nodes(const Found& found, std::uint64_t named) {
    const auto nodes = parse_integer(found.value.value_or(""));
    if (!nodes || static_cast<std::uint64_t>(*nodes) != nodes_) return false;
    const bool differs = named > 0 && all_processes_ > 0 && named != all_processes_;
    const std::uint64_t gpus = named > 0 || gpus_.empty() ? named : all_processes_;
    if (gpus == 0 || differs) {
      if (nodes_ != 1) return false;
    } else {
      if (gpus % nodes_ != 0 || (gpus_per_node_ > 0 && gpus_per_node_ != gpus / nodes_)) return false;
      if (std::exchange(gpus_per_node_, gpus / nodes_) == 0) put(fmt::format("--gpus-per-node {}", gpus_per_node_));
    }
    next_ += found.words;
    return true;
  }

  /// vLLM spreads experts over all ranks of tensor parallelism and the replicas.
  bool say_experts(const Found& found) {
    if (found.name != "--enable-expert-parallel" && found.name != "--enable-ep-moe") return false;
    if (ranks_ > 1 && !names_experts_) put(fmt::format("--expert-parallel {}", ranks_));
    next_ += 1;
    return true;
  }

  bool say_host_layers(const Found& found) {
    if (!host_layers_of(found)) return false;
    if (!std::exchange(host_layers_said_, true)) put("--cpu-moe-layers " + host_layers_);
    next_ += is_host_switch(found.name) ? 1 : found.words;
    return true;
  }

  /// What a server's option says by its value.
  bool say_of_server(const Found& found) {
    if (!found.value) return false;
    std::optional<std::string> words;
    if (found.name == "--speculative-config") words = prefixed("--draft-model ", draft_of(*found.value));
    if (engine_ == "tgi") words = words_of_tgi(found.name, *found.value);
    if (!words) return false;
    put(*words);
    next_ += found.words;
    return true;
  }

  const std::vector<std::string>& words_;
  bool serves_;
  std::string_view engine_;
  std::vector<std::string> said_;
  std::size_t next_ = 0;
  bool names_task_ = false;
  bool names_experts_ = false;
  bool names_targets_ = false;
  bool adapters_ = false;
  bool packed_ = false;
  bool qlora_ = false;
  bool task_said_ = false;
  std::uint64_t nodes_ = 1;
  std::uint64_t processes_ = 0;      ///< of a node
  std::uint64_t all_processes_ = 0;  ///< 0: not said
  std::uint64_t gpus_per_node_ = 0;  ///< 0: not said
  std::uint64_t ranks_ = 1;
  std::string gpus_;
  std::string host_layers_;  ///< that all options together name; empty: none
  bool host_layers_said_ = false;
  std::map<std::string, std::string> said_by_;  ///< what was typed, by a plan's name of what it says
};

}  // namespace

Result<std::vector<std::string>> with_meanings(const std::vector<std::string>& options, bool serves,
                                               std::string_view engine) {
  return Line(options, serves, engine).take();
}

}  // namespace gpuwarden::planning
