// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/jobs/gpus_from.hpp"
#include "gpuwarden/manager/models.hpp"
#include "gpuwarden/manager/plan_question.hpp"
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
std::map<std::string, std::vector<std::string>> given_of(const Args& args, const std::vector<std::string>& keys) {
  std::map<std::string, std::vector<std::string>> given;
  for (const std::string& key : keys) {
    if (args.has(key)) given[key] = args.all(key);
  }
  return given;
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
  static constexpr auto kModelNames = std::to_array<std::string_view>({"model", "model-size"});
  GPUWARDEN_CHECK(jobs::check_which_gpus(context.args));
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
  Request request = placement::request_from(selection.config);
  GPUWARDEN_TRY(request.work,
                manager::read_work(words_of(context.args, kModelNames), manager::model_downloads(context.environment)));
  GPUWARDEN_TRY(auto gpus, jobs::gpus_from(context.args, std::move(request)));
  selection.request = std::move(gpus.gpus);
  selection.wait = gpus.wait;
  selection.least = gpus.least;
  selection.priority = gpus.priority;
  return selection;
}

}  // namespace gpuwarden::cli
