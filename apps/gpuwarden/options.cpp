// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/placement/names.hpp"
#include "hosts/run_on_hosts.hpp"
#include "plan/workload.hpp"
#include "plan/workload_options.hpp"
#include "run/other_launchers.hpp"
#include "shared_options.hpp"
#include "slurm/job_options.hpp"

namespace gpuwarden::cli {
namespace {

using placement::GpuName;
using placement::Request;

std::vector<GpuName> names_of(const Args& args, const std::string& key) {
  return placement::expand_ranges(args.list(key));
}

Result<std::optional<facts::ComputeCapability>> capability_option(const Args& args) {
  const auto text = args.text("min-compute-capability");
  if (!text) return std::nullopt;
  const auto capability = facts::compute_capability_from(text->contains('.') ? *text : *text + ".0");
  if (capability) return capability;
  return fail(ErrorCode::invalid_argument,
              fmt::format("--min-compute-capability: '{}' is not a compute capability", printable(*text)),
              "for example 8.0");
}

/// A list that was given must name something.
Result<void> check_lists(const Args& args) {
  for (const char* key : {"gpu-ids", "prefer", "exclude"}) {
    for (const std::string& text : args.list(key)) {
      if (text.empty())
        return fail(ErrorCode::invalid_argument, fmt::format("--{}: an empty entry", key),
                    "write ids with commas between, for example 0,2");
    }
    if (args.has(key) && args.list(key).empty())
      return fail(ErrorCode::invalid_argument, fmt::format("--{}: no GPU is given", key));
  }
  return {};
}

/// The option names a configuration's `selection:` and `run:` may hold.
placement::KnownOptions known_options() {
  placement::KnownOptions known;
  for (const Option& option : kSelectionOptions) known.selection.push_back(key_of(option));
  for (const Option& option : kWorkloadOptions) known.selection.push_back(key_of(option));
  for (const OptionGroup& group : kRunCommand.groups) {
    // A file that sends jobs to Slurm would do so on the nodes as well.
    if (group.options.data() != kSelectionOptions.data() && group.options.data() != kWorkloadOptions.data() &&
        group.options.data() != kSlurmRunOptions.data() && group.options.data() != kSlurmJobOptions.data())
      std::ranges::transform(group.options, std::back_inserter(known.run), key_of);
  }
  std::erase(known.selection, "config");
  // A file that names hosts would do so on these as well.
  for (const Option& option : kRunHostsOptions) std::erase(known.run, key_of(option));
  return known;
}

/// A file's "false" means that a flag is not set.
void fall_back_to(Args& args, const std::map<std::string, std::vector<std::string>>& values) {
  for (const auto& [key, list] : values) {
    if (list == std::vector<std::string>{"false"}) continue;
    args.fall_back(key, list == std::vector<std::string>{"true"} ? std::vector<std::string>{} : list);
  }
}

Result<placement::JobConfig> read_config(Context& context) {
  const auto file = context.args.text("config");
  if (!file) return placement::JobConfig{};
  auto text = read_file(*file, std::size_t{2} << 20U);
  if (!text) return std::unexpected(about("config", text.error()));
  return placement::parse_job_config(*text, *file, known_options());
}

/// GPUWARDEN_NUM_GPUS for --num-gpus, and so on.
void fall_back_to_environment(Context& context) {
  for (const Option& option : kSelectionOptions) {
    const std::string key = key_of(option);
    std::string name = "GPUWARDEN_" + key;
    std::ranges::transform(name, name.begin(), [](char c) {
      return c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    });
    const auto found = context.environment.find(name);
    if (found == context.environment.end() || found->second.empty()) continue;
    const bool flag = option.kind == OptionKind::flag;
    if (flag && (found->second == "0" || found->second == "false")) continue;
    context.args.fall_back(key, flag ? std::vector<std::string>{} : std::vector<std::string>{found->second});
  }
}

/// How many and which: a flag of this family on the command line replaces what the file says about the family. A model
/// does not: it asks whether so many, or these, will do.
void merge_family(const Args& args, Request& request) {
  const bool given = args.has("gpu-ids") || args.has("num-gpus") || args.has("all");
  if (given) {
    request.gpu_ids.clear();
    request.count.reset();
  }
  if (args.has("gpu-ids")) request.gpu_ids = names_of(args, "gpu-ids");
  request.all = args.has("all");
}

/// The model, and what its options say about the number of GPUs.
Result<void> fill_model(const Args& args, Request& request) {
  GPUWARDEN_TRY(request.work, read_model_request(args));
  if (!request.work || !is_single(args)) return {};
  if (request.count.value_or(1) > 1 || request.gpu_ids.size() > 1 || request.all)
    return fail(ErrorCode::invalid_argument, "--strategy single is one GPU, but more are asked for",
                "leave out one of the two");
  if (request.gpu_ids.empty()) request.count = 1;
  return {};
}

/// A configuration's strategy holds for what is trained.
void fall_back_to_strategy(Args& args, const placement::JobConfig& config) {
  const auto& strategy = config.distributed.strategy;
  const std::string task = planning::normal_word(args.text("task").value_or("train"));
  const bool has_model = args.has("model") || args.has("model-size");
  const bool trains = task != "inference" && task != "serve" && (args.has("task") || args.has("model"));
  if (strategy && has_model && trains) args.fall_back("strategy", {*strategy});
}

/// The configuration's model is planned, as if --model named it; one that is neither known nor there is the program's
/// own affair.
void fall_back_to_model(Args& args, const placement::JobConfig& config) {
  const auto& name = config.model.model_name_or_path;
  const bool cpu = placement::request_from(config).force_cpu || args.text("device") == "cpu";
  if (!name || cpu || args.has("model") || args.has("model-size")) return;
  if (read_model(args, *name))
    args.fall_back("model", {*name});
  else
    say("note: model '{}' is neither known nor a folder with a config.json: what it needs is not planned\n",
        printable(*name));
}

/// What the configuration says of offloading and of the type of weights, where a model is planned.
void fall_back_to_model_settings(Args& args, const placement::JobConfig& config) {
  if (!args.has("model") && !args.has("model-size")) return;
  const std::string task = planning::normal_word(args.text("task").value_or("train"));
  const bool trains = task != "inference" && task != "serve" && (args.has("task") || args.has("model"));
  if (trains && config.distributed.fsdp_cpu_offload.value_or(false)) args.fall_back("offload", {"all"});
  const std::string type = config.model.torch_dtype.value_or("auto");
  if (type == "float32") args.fall_back("precision", {"fp32"});
  // accelerate trains 16-bit weights under autocast (job_environment says so to it), which is the default of training.
  if (!trains && type == "float16") args.fall_back("precision", {"fp16"});
  if (!trains && type == "bfloat16") args.fall_back("precision", {"bf16"});
}

/// "cpu", "cuda", or "cuda:1": GPU 1, where no GPUs are named.
Result<void> read_device(const std::string& device, Request& request) {
  const auto index = device.starts_with("cuda:") ? parse_integer(std::string_view(device).substr(5)) : std::nullopt;
  if (device != "cpu" && device != "cuda" && !(index && *index >= 0))
    return fail(ErrorCode::invalid_argument,
                fmt::format("--device: '{}' is not cpu, cuda or cuda:N", printable(device)));
  request.force_cpu = device == "cpu";
  if (index && request.gpu_ids.empty() && !request.all) request.gpu_ids = {{std::to_string(*index)}};
  return {};
}

/// -n 4, or -n 2:4. Without it the range of --nproc-per-node 2:4, which has a rank for each GPU.
Result<void> fill_count(const Args& args, Selection& selection) {
  Request& request = selection.request;
  GPUWARDEN_TRY(auto count, range_option(args, "num-gpus", 4096));
  const bool ranks_tell = args.text("nproc-per-node").value_or("").contains(':');
  if (ranks_tell) {
    GPUWARDEN_TRY(const auto ranks, range_option(args, "nproc-per-node", 4096));
    if (count && ranks && *count != *ranks)
      return fail(ErrorCode::invalid_argument, "--num-gpus and --nproc-per-node name different ranges",
                  "a range of ranks has a GPU for each: leave out --num-gpus");
    count = ranks;
  }
  if (!count) return {};
  request.count = count->most;
  if (count->least == count->most) return {};
  if (!request.gpu_ids.empty())
    return fail(ErrorCode::invalid_argument, "GPUs that are named and a range of them cannot be used together",
                "leave out one of the two");
  selection.least = count->least;
  if (args.has("model") || args.has("model-size"))
    return fail(ErrorCode::invalid_argument, "a range of GPUs and a model cannot be used together",
                "name one number of GPUs");
  return {};
}

/// As many GPUs as ranks where nothing else says how many, or which: a rank takes LOCAL_RANK as its device's number, as
/// under torchrun.
Result<void> fill_count_of_ranks(const Args& args, Request& request) {
  const bool said = request.count || !request.gpu_ids.empty() || request.all || request.work || request.force_cpu;
  if (said) return {};
  GPUWARDEN_TRY(request.count, several_ranks(args));
  return {};
}

Result<void> fill(const Args& args, Selection& selection) {
  Request& request = selection.request;
  GPUWARDEN_CHECK(check_lists(args));
  merge_family(args, request);
  GPUWARDEN_CHECK(fill_count(args, selection));
  GPUWARDEN_TRY(request.min_memory, size_option(args, "min-memory"));
  GPUWARDEN_TRY(request.min_free_memory, size_option(args, "min-free-memory"));
  GPUWARDEN_TRY(request.min_compute_capability, capability_option(args));
  GPUWARDEN_TRY(const auto utilization, count_option(args, "max-utilization", 100));
  if (utilization) request.max_utilization = Percent(*utilization);
  request.name_contains = args.text("name");
  request.mig = args.has("mig");
  request.mig_profile = args.text("mig-profile");
  request.prefer = names_of(args, "prefer");
  request.exclude = names_of(args, "exclude");
  request.shared = args.has("share");
  request.allow_busy = args.has("allow-busy");
  const auto device = args.text("device");
  if (device) GPUWARDEN_CHECK(read_device(*device, request));
  GPUWARDEN_CHECK(fill_model(args, request));
  return fill_count_of_ranks(args, request);
}

Result<std::int32_t> priority_option(const Args& args) {
  const auto text = args.text("priority");
  if (!text) return 0;
  const auto number = parse_integer(*text);
  if (!number || *number < -lease::kMostPriority || *number > lease::kMostPriority)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--priority: '{}' is not a whole number from {} to {}", printable(*text),
                            -lease::kMostPriority, lease::kMostPriority));
  if (!args.has("wait"))
    return fail(ErrorCode::invalid_argument, "--priority requires --wait", "it orders your own waiting jobs");
  return static_cast<std::int32_t>(*number);
}

}  // namespace

Error about(const std::string& key, const Error& error) {
  return {ErrorCode::invalid_argument, fmt::format("--{}: {}", key, error.message), error.hint};
}

Result<std::optional<std::uint32_t>> count_option(const Args& args, const std::string& key, std::uint32_t most) {
  auto text = args.text(key);
  if (!text) return std::nullopt;
  if (key == "max-utilization" && text->ends_with('%')) text->pop_back();
  const auto number = parse_integer(*text);
  if (!number || *number < 0 || *number > most) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--{}: '{}' is not a whole number from 0 to {}", key, printable(*text), most));
  }
  return static_cast<std::uint32_t>(*number);
}

Result<std::optional<CountRange>> range_option(const Args& args, const std::string& key, std::uint32_t most) {
  const auto text = args.text(key);
  if (!text || !text->contains(':')) {
    GPUWARDEN_TRY(const auto count, count_option(args, key, most));
    if (!count) return std::nullopt;
    return CountRange{*count, *count};
  }
  const auto parts = split(*text, ':');
  const auto least = parse_integer(parts[0]);
  const auto greatest = parse_integer(parts[1]);
  if (parts.size() != 2 || !least || !greatest || *least < 1 || *greatest < *least || *greatest > most)
    return fail(ErrorCode::invalid_argument, fmt::format("--{}: '{}' is not a range", key, printable(*text)),
                fmt::format("MIN:MAX, for example 2:4; MIN from 1, MAX up to {}", most));
  return CountRange{static_cast<std::uint32_t>(*least), static_cast<std::uint32_t>(*greatest)};
}

Result<std::optional<Bytes>> size_option(const Args& args, const std::string& key) {
  const auto text = args.text(key);
  if (!text) return std::nullopt;
  const auto size = parse_size(*text);
  if (!size) return std::unexpected(about(key, size.error()));
  // "40" is seldom meant as 40 bytes.
  if (*size < 1_MiB && parse_number(*text) && size->value > 0)
    return fail(ErrorCode::invalid_argument, fmt::format("--{}: {} has no unit, and would be bytes", key, *text),
                fmt::format("write {}GiB, {}MiB or {}B", *text, *text, *text));
  return *size;
}

Result<std::optional<std::chrono::milliseconds>> duration_option(const Args& args, const std::string& key) {
  const auto text = args.text(key);
  if (!text || text->empty()) return std::nullopt;
  const auto duration = parse_duration(*text);
  if (!duration) return std::unexpected(about(key, duration.error()));
  return *duration;
}

Result<void> check_clashes(const Args& args, std::span<const Clash> clashes) {
  for (const Clash& clash : clashes) {
    if (args.has(clash.one) && args.has(clash.other))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--{} and --{} cannot be used together", clash.one, clash.other), clash.hint);
  }
  return {};
}

Result<void> refuse_operands(const Args& args, std::string_view what, std::string hint) {
  if (args.rest.empty()) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} starts no command: '{}' is unexpected", what, printable(args.rest[0])), std::move(hint));
}

Result<void> refuse_json(const Args& args, std::string_view what, std::string hint) {
  if (!args.has("json")) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} prints no JSON", what), std::move(hint));
}

std::vector<std::string> option_words(const Context& context, std::span<const std::string_view> without) {
  std::vector<std::string> words;
  for (const Option& option : options_of(*context.command)) {
    const std::string key = key_of(option);
    if (!context.args.has(key) || std::ranges::find(without, key) != without.end()) continue;
    const auto values = context.args.all(key);
    if (values.empty()) words.push_back("--" + key);
    for (const std::string& value : values) words.push_back(fmt::format("--{}={}", key, value));
  }
  return words;
}

Result<void> fall_back_to_run_config(Context& context) {
  GPUWARDEN_TRY(const auto config, read_config(context));
  fall_back_to(context.args, config.run);
  return {};
}

Result<std::vector<std::string>> fall_back_to_config(Context& context) {
  GPUWARDEN_TRY(const auto config, read_config(context));
  std::vector<std::string> from_file;
  for (const auto* section : {&config.selection, &config.run}) {
    for (const auto& [key, values] : *section) {
      if (values != std::vector<std::string>{"false"}) from_file.push_back(key);
    }
    fall_back_to(context.args, *section);
  }
  return from_file;
}

Result<Selection> read_selection(Context& context) {
  static constexpr auto kClashes = std::to_array<Clash>({{"all", "num-gpus", "leave out one of the two"}});
  GPUWARDEN_CHECK(check_clashes(context.args, kClashes));
  Selection selection;
  GPUWARDEN_TRY(selection.config, read_config(context));
  fall_back_to_environment(context);
  fall_back_to(context.args, selection.config.selection);
  fall_back_to(context.args, selection.config.run);
  if (!context.args.has("quiet")) {
    for (const std::string& note : selection.config.notes) say("note: {}\n", printable(note));
  }
  fall_back_to_model(context.args, selection.config);
  fall_back_to_strategy(context.args, selection.config);
  fall_back_to_model_settings(context.args, selection.config);
  selection.request = placement::request_from(selection.config);
  GPUWARDEN_CHECK(fill(context.args, selection));
  if (context.args.has("wait")) {
    GPUWARDEN_TRY(const auto wait, duration_option(context.args, "wait"));
    selection.wait = wait.value_or(std::chrono::milliseconds::max());
  }
  GPUWARDEN_TRY(selection.priority, priority_option(context.args));
  return selection;
}

}  // namespace gpuwarden::cli
