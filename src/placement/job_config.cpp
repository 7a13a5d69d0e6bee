// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/job_config.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/planning/words.hpp"
#include "gpuwarden/yaml/document.hpp"

namespace gpuwarden::placement {
namespace {

/// Typed values of one map; keeps the first error, with its place.
class Section {
 public:
  Section(const YAML::Node& map, std::string_view file, std::string name)
      : map_(map), file_(file), name_(std::move(name)) {}

  /// What follows is noted in the place of an error where a key is not known.
  void ignore_unknown(std::vector<std::string>* notes) { notes_ = notes; }

  void known(const std::vector<std::string>& keys) {
    if (!map_.IsDefined() || map_.IsNull() || error_) return;
    if (notes_ != nullptr && map_.IsMap()) {
      for (const auto& entry : map_) note_unknown(entry.first.Scalar(), keys);
      return;
    }
    if (auto checked = yaml::check_keys(map_, file_, name_.empty() ? "the configuration" : name_, keys); !checked)
      error_ = checked.error();
  }

  void text(const char* key, std::optional<std::string>& value) {
    const YAML::Node at = node(key);
    if (!present(at)) return;
    if (!at.IsScalar() || at.Scalar().size() > 4096 || printable(at.Scalar()) != at.Scalar())
      return wrong(at, key, "a plain text");
    value = at.Scalar();
  }

  /// One of `options`, letter case ignored; the option's own spelling is kept.
  void choice(const char* key, std::optional<std::string>& value, const std::vector<std::string>& options) {
    const YAML::Node at = node(key);
    if (!present(at)) return;
    const auto found = std::ranges::find_if(
        options, [&](const std::string& option) { return at.IsScalar() && to_lower(option) == to_lower(at.Scalar()); });
    if (found == options.end()) return wrong(at, key, "one of " + join(options, ", "));
    value = *found;
  }

  void flag(const char* key, std::optional<bool>& value) {
    const YAML::Node at = node(key);
    if (!present(at)) return;
    if (!at.IsScalar() || (at.Scalar() != "true" && at.Scalar() != "false")) return wrong(at, key, "true or false");
    value = at.Scalar() == "true";
  }

  template <class Integer>
  void number(const char* key, std::optional<Integer>& value, std::int64_t low, std::int64_t high) {
    const YAML::Node at = node(key);
    if (!present(at)) return;
    const auto parsed = at.IsScalar() ? parse_integer(at.Scalar()) : std::nullopt;
    if (!parsed || *parsed < low || *parsed > high)
      return wrong(at, key, fmt::format("a whole number from {} to {}", low, high));
    value = static_cast<Integer>(*parsed);
  }

  /// Texts: a list, or one text with commas.
  void list(const char* key, std::vector<std::string>& values) {
    const YAML::Node at = node(key);
    if (!present(at)) return;
    if (at.IsMap()) return wrong(at, key, "a list");
    if (at.IsScalar()) {
      for (const auto piece : split(at.Scalar(), ',')) values.emplace_back(trim(piece));
      return;
    }
    for (const auto& entry : at) {
      if (!entry.IsScalar()) return wrong(entry, key, "a list of plain values");
      values.push_back(entry.Scalar());
    }
  }

  void complain(const YAML::Node& at, std::string_view what, std::string hint = {}) {
    if (!error_) error_ = yaml::error_at(at, file_, what, std::move(hint));
  }
  YAML::Node node(const char* key) const { return yaml::child(map_, key); }
  const YAML::Node& map() const { return map_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  void note_unknown(const std::string& key, const std::vector<std::string>& keys) {
    if (std::ranges::find(keys, key) != keys.end()) return;
    notes_->push_back(fmt::format("{}: '{}{}{}' is left to the program (tool: ignore-unknown)", file_, name_,
                                  name_.empty() ? "" : ".", printable(key)));
  }
  static bool present(const YAML::Node& at) { return at.IsDefined() && !at.IsNull(); }
  void wrong(const YAML::Node& at, const char* key, const std::string& wanted) {
    complain(at, fmt::format("{}{}{} should be {}", name_, name_.empty() ? "" : ".", key, wanted));
  }

  YAML::Node map_;
  std::string_view file_;
  std::string name_;
  std::vector<std::string>* notes_ = nullptr;
  std::optional<Error> error_;
};

/// GPUs that a list names, ranges of indices ("0-3") taken apart.
std::size_t number_named(const std::vector<GpuName>& ids) {
  std::vector<std::string> texts;
  for (const GpuName& id : ids) texts.push_back(id.text);
  return expand_ranges(texts).size();
}

/// What cannot both be meant. Source of what each key means: the guide to choosing GPUs that the file follows.
void check_distributed(Section& in, const DistributedConfig& config) {
  const std::uint32_t count = config.num_gpus.value_or(0);
  const std::size_t named = config.gpu_ids.empty() ? 0 : number_named(config.gpu_ids);
  if (count > 0 && named > 0 && count != named)
    in.complain(
        in.node("num_gpus"),
        fmt::format("distributed.num_gpus is {}, but gpu_ids names {} GPU{}", count, named, named == 1 ? "" : "s"),
        "leave out one of the two, or make them agree");
  const std::size_t asked = std::max<std::size_t>(count, named);
  if (config.strategy == "single" && asked > 1)
    in.complain(in.node("strategy"),
                fmt::format("distributed.strategy is single: one GPU, but {} are asked for", asked),
                "take ddp or fsdp, or one GPU");
  if (config.enabled == false && asked > 1)
    in.complain(in.node("enabled"), fmt::format("distributed.enabled is false: one GPU, but {} are asked for", asked),
                "enabled: true, or one GPU");
  if (config.fsdp_cpu_offload.value_or(false) && config.strategy && config.strategy != "fsdp")
    in.complain(in.node("fsdp_cpu_offload"),
                fmt::format("distributed.fsdp_cpu_offload is true, but the strategy is {}", *config.strategy),
                "strategy: fsdp");
}

std::optional<Error> read_distributed(const YAML::Node& map, std::string_view file, std::vector<std::string>* ignored,
                                      DistributedConfig& config) {
  Section in(map, file, "distributed");
  in.ignore_unknown(ignored);
  in.known({"enabled", "num_gpus", "gpu_ids", "strategy", "fsdp_sharding_strategy", "fsdp_cpu_offload", "backend",
            "master_addr", "master_port", "nnodes", "node_rank"});
  in.flag("enabled", config.enabled);
  in.number("num_gpus", config.num_gpus, 1, 4096);
  std::vector<std::string> ids;
  in.list("gpu_ids", ids);
  if (!ids.empty()) config.gpu_ids.clear();  // `device: cuda:1` stands behind it
  for (auto& id : ids) {
    if (id.empty() || printable(id) != id)
      in.complain(in.node("gpu_ids"), "distributed.gpu_ids has an empty or unreadable entry", "for example [0, 2]");
    config.gpu_ids.push_back({std::move(id)});
  }
  in.choice("strategy", config.strategy, {"ddp", "fsdp", "single"});
  in.choice("fsdp_sharding_strategy", config.fsdp_sharding_strategy,
            {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"});
  in.flag("fsdp_cpu_offload", config.fsdp_cpu_offload);
  in.choice("backend", config.backend, {"nccl", "gloo"});
  in.text("master_addr", config.master_addr);
  in.number("master_port", config.master_port, 1, 65535);
  in.number("nnodes", config.nnodes, 1, 65536);
  in.number("node_rank", config.node_rank, 0, 65535);
  if (config.node_rank.value_or(0) >= config.nnodes.value_or(65536)) {
    in.complain(in.node("node_rank"), "distributed.node_rank should be below nnodes", "ranks count from 0");
  }
  check_distributed(in, config);
  return in.error();
}

std::optional<Error> read_model(const YAML::Node& map, std::string_view file, std::vector<std::string>* ignored,
                                ModelConfig& config) {
  Section in(map, file, "model");
  in.ignore_unknown(ignored);
  in.known({"model_name_or_path", "device_map", "torch_dtype"});
  in.text("model_name_or_path", config.model_name_or_path);
  in.text("device_map", config.device_map);
  in.choice("torch_dtype", config.torch_dtype, {"auto", "float32", "float16", "bfloat16", "fp32", "fp16", "bf16"});
  static const std::map<std::string, std::string> kShort{
      {"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}};
  if (config.torch_dtype && kShort.contains(*config.torch_dtype)) config.torch_dtype = kShort.at(*config.torch_dtype);
  return in.error();
}

/// Flags of a command by their long names; "_" and "-" are the same.
std::optional<Error> read_flags(const YAML::Node& map, std::string_view file, const char* name,
                                const std::vector<std::string>& known,
                                std::map<std::string, std::vector<std::string>>& flags) {
  if (!map.IsDefined() || map.IsNull()) return std::nullopt;
  Section in(map, file, name);
  std::vector<std::string> spellings = known;
  for (std::string spelling : known) {
    std::ranges::replace(spelling, '-', '_');
    spellings.push_back(spelling);
  }
  in.known(spellings);
  if (in.error()) return in.error();
  for (const auto& entry : map) {
    const std::string key = entry.first.Scalar();
    std::string flag = key;
    std::ranges::replace(flag, '_', '-');
    in.list(key.c_str(), flags[flag]);
  }
  return in.error();
}

constexpr std::string_view kKeys[] = {"experiment_name", "device", "distributed", "model", "selection", "run", "tool"};

/// Whether the file says `tool: ignore-unknown`.
bool ignores_unknown(Section& in) {
  std::optional<std::string> tool;
  in.choice("tool", tool, {"ignore-unknown"});
  return tool.has_value();
}

/// Sections of the job's own program beside the known ones. A word that is no section, and a section that is nearly
/// called as a known one, are slips.
void check_top(Section& in, std::string_view file, bool ignores, std::vector<std::string>& notes) {
  const std::vector<std::string> keys(std::begin(kKeys), std::end(kKeys));
  std::vector<std::string> all = keys;
  if (in.map().IsMap()) {
    for (const auto& entry : in.map()) {
      const std::string key = entry.first.Scalar();
      if (std::ranges::find(keys, key) != keys.end()) continue;
      const bool section = entry.second.IsMap() || entry.second.IsSequence();
      if (!ignores && (!section || !closest_match(key, keys).empty())) continue;
      all.push_back(key);
      notes.push_back(fmt::format("{}: '{}' is left to the program: no section of gpuwarden", file, printable(key)));
    }
  }
  in.known(all);
}

/// "cpu", "cuda", or "cuda:1", which is GPU 1 where no GPUs are named.
void read_device(Section& in, JobConfig& config) {
  std::optional<std::string> device;
  in.text("device", device);
  if (!device) return;
  const std::string word = to_lower(*device);
  const auto index = word.starts_with("cuda:") ? parse_integer(std::string_view(word).substr(5)) : std::nullopt;
  if (index && *index >= 0) {
    config.device = "cuda";
    config.distributed.gpu_ids = {{std::to_string(*index)}};
  } else if (word == "cpu" || word == "cuda") {
    config.device = word;
  } else {
    in.complain(in.node("device"), "device should be one of cpu, cuda, cuda:N");
  }
}

/// `device` has the word; without it a device map of "cpu" says the same.
bool is_for_cpu(const JobConfig& config) {
  return config.device == "cpu" || (!config.device && config.model.device_map == "cpu");
}

}  // namespace

Result<JobConfig> parse_job_config(std::string_view text, std::string_view name, const KnownOptions& known) {
  GPUWARDEN_TRY(const YAML::Node root, yaml::load(text, name));
  JobConfig config;
  if (!root.IsDefined() || root.IsNull()) return config;
  Section in(root, name, "");
  const bool ignores = ignores_unknown(in);
  check_top(in, name, ignores, config.notes);
  if (in.error()) return std::unexpected(*in.error());
  std::vector<std::string>* const ignored = ignores ? &config.notes : nullptr;
  in.text("experiment_name", config.experiment_name);
  read_device(in, config);
  if (in.error()) return std::unexpected(*in.error());
  if (auto error = read_distributed(in.node("distributed"), name, ignored, config.distributed))
    return std::unexpected(*error);
  if (auto error = read_model(in.node("model"), name, ignored, config.model)) return std::unexpected(*error);
  if (auto error = read_flags(in.node("selection"), name, "selection", known.selection, config.selection))
    return std::unexpected(*error);
  if (auto error = read_flags(in.node("run"), name, "run", known.run, config.run)) return std::unexpected(*error);
  return config;
}

Environment job_environment(const JobConfig& config) {
  Environment env;
  const auto set = [&](const char* name, const std::optional<std::string>& value) {
    if (value) env[name] = *value;
  };
  const auto& distributed = config.distributed;
  set("GPUWARDEN_EXPERIMENT_NAME", config.experiment_name);
  set("GPUWARDEN_STRATEGY", distributed.strategy);
  set("GPUWARDEN_BACKEND", distributed.backend);
  set("GPUWARDEN_MODEL_NAME_OR_PATH", config.model.model_name_or_path);
  set("GPUWARDEN_DEVICE_MAP", config.model.device_map);
  set("GPUWARDEN_TORCH_DTYPE", config.model.torch_dtype);
  if (distributed.strategy == "fsdp") {
    env["ACCELERATE_USE_FSDP"] = "true";
    env["FSDP_SHARDING_STRATEGY"] = distributed.fsdp_sharding_strategy.value_or("FULL_SHARD");
    env["FSDP_OFFLOAD_PARAMS"] = distributed.fsdp_cpu_offload.value_or(false) ? "true" : "false";
    env["GPUWARDEN_FSDP_SHARDING_STRATEGY"] = env["FSDP_SHARDING_STRATEGY"];
    env["GPUWARDEN_FSDP_CPU_OFFLOAD"] = env["FSDP_OFFLOAD_PARAMS"];
  }
  static const std::map<std::string, std::string> kPrecisions{
      {"float32", "no"}, {"float16", "fp16"}, {"bfloat16", "bf16"}};
  const auto precision = kPrecisions.find(config.model.torch_dtype.value_or(""));
  if (precision != kPrecisions.end()) env["ACCELERATE_MIXED_PRECISION"] = precision->second;
  if (is_for_cpu(config)) env["ACCELERATE_USE_CPU"] = "true";
  return env;
}

Request request_from(const JobConfig& config) {
  Request request;
  const auto& distributed = config.distributed;
  request.gpu_ids = distributed.gpu_ids;
  request.count = distributed.num_gpus;
  if (!request.gpu_ids.empty()) request.count.reset();
  const bool one = distributed.strategy == "single" || distributed.enabled == false;
  if (one && request.gpu_ids.empty()) request.count = 1;
  request.force_cpu = is_for_cpu(config);
  return request;
}

std::map<std::string, std::vector<std::string>> model_options(
    const JobConfig& config, const std::map<std::string, std::vector<std::string>>& given) {
  std::map<std::string, std::vector<std::string>> options;
  const bool named = given.contains("model");
  if (!named && !given.contains("model-size")) return options;
  const auto task = given.find("task");
  const std::string kind =
      task == given.end() || task->second.empty() ? "train" : planning::normal_word(task->second.front());
  const bool serves = kind == "inference" || kind == "serve";
  // A size alone is no training job: without a task its figures are those of weights.
  const bool trains = !serves && (named || task != given.end());
  if (trains && config.distributed.strategy) options["strategy"] = {*config.distributed.strategy};
  if (trains && config.distributed.fsdp_cpu_offload.value_or(false)) options["offload"] = {"all"};
  const std::string type = config.model.torch_dtype.value_or("auto");
  if (type == "float32") options["precision"] = {"fp32"};
  // accelerate trains 16-bit weights under autocast (job_environment says so to it), which is the default of training.
  if (!trains && type == "float16") options["precision"] = {"fp16"};
  if (!trains && type == "bfloat16") options["precision"] = {"bf16"};
  return options;
}

}  // namespace gpuwarden::placement
