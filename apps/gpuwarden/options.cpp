// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/jobs/run_values.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/manager/models.hpp"
#include "gpuwarden/manager/plan_question.hpp"
#include "gpuwarden/placement/selection.hpp"
#include "gpuwarden/telemetry/rules_file.hpp"
#include "hosts/run_on_hosts.hpp"
#include "plan/workload_options.hpp"
#include "shared_options.hpp"
#include "slurm/job_options.hpp"

namespace gpuwarden::cli {
namespace {

using placement::Request;

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
    std::string name = "GPUWARDEN_" + to_upper(key);
    std::ranges::replace(name, '-', '_');
    const auto found = context.environment.find(name);
    if (found == context.environment.end() || found->second.empty()) continue;
    const bool flag = option.kind == OptionKind::flag;
    if (flag && (found->second == "0" || found->second == "false")) continue;
    context.args.fall_back(key, flag ? std::vector<std::string>{} : std::vector<std::string>{found->second});
  }
}

/// Those of the options that were given.
placement::SelectionOptions given_of(const Args& args, const std::vector<std::string>& keys) {
  placement::SelectionOptions given;
  for (const std::string& key : keys) {
    if (args.has(key)) given[key] = args.all(key);
  }
  return given;
}

Result<void> fill_gpus(const placement::SelectionOptions& given, Request& request) {
  auto applied = placement::apply_selection(given, request);
  if (!applied) applied.error().message.insert(0, "--");
  return applied;
}

/// The model, and what its options say about the number of GPUs.
Result<void> fill_model(const Context& context, Request& request) {
  const Args& args = context.args;
  static constexpr auto kModelNames = std::to_array<std::string_view>({"model", "model-size"});
  static constexpr auto kClashes =
      std::to_array<Clash>({{"model-size", "family", "a shape that is guessed from a size is Llama's"}});
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  GPUWARDEN_TRY(request.work,
                manager::read_work(words_of(args, kModelNames), manager::model_downloads(context.environment)));
  if (!request.work || planning::normal_word(args.text("strategy").value_or("")) != "single") return {};
  if (request.count.value_or(1) > 1 || request.gpu_ids.size() > 1 || request.all)
    return fail(ErrorCode::invalid_argument, "--strategy single is one GPU, but more are asked for",
                "leave out one of the two");
  if (request.gpu_ids.empty()) request.count = 1;
  return {};
}

/// The configuration's model is planned, as if --model named it; one that is neither known nor there is the program's
/// own affair.
void fall_back_to_model(Context& context, const placement::JobConfig& config) {
  Args& args = context.args;
  const auto& name = config.model.model_name_or_path;
  const bool cpu = placement::request_from(config).force_cpu || args.text("device") == "cpu";
  if (!name || cpu || args.has("model") || args.has("model-size")) return;
  if (manager::load_model(*name, args.text("family").value_or(""), manager::model_downloads(context.environment)))
    args.fall_back("model", {*name});
  else
    say("note: model '{}' is neither known nor a folder with a config.json: what it needs is not planned\n",
        printable(*name));
}

/// As many GPUs as ranks where nothing else says how many, or which: a rank takes LOCAL_RANK as its device's number, as
/// under torchrun.
Result<void> fill_count_of_ranks(const Args& args, Request& request) {
  const bool said = request.count || !request.gpu_ids.empty() || request.all || request.work || request.force_cpu;
  if (said) return {};
  GPUWARDEN_TRY(request.count, jobs::several_ranks(args));
  return {};
}

Result<void> fill(const Context& context, Selection& selection) {
  const Args& args = context.args;
  Request& request = selection.request;
  // How many and which: a flag of this family on the command line replaces what the file says about the family. A model
  // does not: it asks whether so many, or these, will do.
  if (args.has("gpu-ids") || args.has("num-gpus") || args.has("all")) {
    request.gpu_ids.clear();
    request.count.reset();
  }
  std::vector<std::string> keys;
  std::ranges::transform(kSelectionOptions, std::back_inserter(keys), key_of);
  placement::SelectionOptions given = given_of(args, keys);
  given.erase("num-gpus");  // may be a range
  const auto device = given.extract("device");
  GPUWARDEN_CHECK(fill_gpus(given, request));
  GPUWARDEN_TRY(selection.least, placement::apply_count(args, request));
  if (device) GPUWARDEN_CHECK(fill_gpus({{device.key(), device.mapped()}}, request));
  GPUWARDEN_CHECK(fill_model(context, request));
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

planning::Words words_of(const Args& args, std::span<const std::string_view> besides) {
  planning::Words words("--");
  for (const Option& option : kWorkloadOptions) {
    const std::string key = key_of(option);
    if (args.has(key)) words.set(key, option.kind == OptionKind::list ? args.list(key) : args.all(key));
  }
  for (const std::string_view name : besides) {
    if (const std::string key(name); args.has(key)) words.set(key, args.all(key));
  }
  return words;
}

Result<std::optional<std::chrono::milliseconds>> interval_option(const Args& args) {
  GPUWARDEN_TRY(const auto interval, duration_option(args, "interval"));
  if (!interval || (*interval >= std::chrono::milliseconds(100) && *interval <= std::chrono::minutes(10)))
    return interval;
  return fail(ErrorCode::invalid_argument, "--interval must be between 100ms and 10m");
}

Result<std::optional<std::chrono::milliseconds>> timeout_option(const Args& args) {
  GPUWARDEN_TRY(const auto timeout, duration_option(args, "timeout"));
  if (!timeout || timeout->count() > 0) return timeout;
  return fail(ErrorCode::invalid_argument, "--timeout must be greater than 0", "for example --timeout 5s");
}

std::filesystem::path alert_rules_file(const Context& context) {
  const auto named = context.args.text("rules");
  return named ? std::filesystem::path(*named) : telemetry::find_alert_rules(context.environment);
}

Result<void> check_standard_output(const Args& args, const std::vector<std::string>& files) {
  const auto taken = std::ranges::count_if(files, [&](const std::string& key) { return args.text(key) == "-"; });
  if (taken + (args.has("json") ? 1 : 0) <= 1) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("standard output can take one of --{} and --json", join(files, ", --")),
              "name files for the others");
}

Error about(const std::string& key, const Error& error) { return Args().about(key, error); }

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
  fall_back_to_model(context, selection.config);
  fall_back_to(context.args,
               placement::model_options(selection.config, given_of(context.args, {"model", "model-size", "task"})));
  selection.request = placement::request_from(selection.config);
  GPUWARDEN_CHECK(fill(context, selection));
  if (context.args.has("wait")) {
    GPUWARDEN_TRY(const auto wait, duration_option(context.args, "wait"));
    selection.wait = wait.value_or(std::chrono::milliseconds::max());
  }
  GPUWARDEN_TRY(selection.priority, priority_option(context.args));
  return selection;
}

}  // namespace gpuwarden::cli
