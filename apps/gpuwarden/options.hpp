// SPDX-License-Identifier: Apache-2.0
// What the options that several commands share mean.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "command.hpp"
#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/placement/job_config.hpp"
#include "gpuwarden/placement/request.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::cli {

/// The request behind --config, environment (GPUWARDEN_NUM_GPUS ...) and flags, in rising precedence. Fills `args`
/// with what comes from environment and file.
struct Selection {
  placement::Request request;
  placement::JobConfig config;
  std::optional<std::chrono::milliseconds> wait;  ///< given; max() for no limit
  std::int32_t priority = 0;                      ///< of --priority
  /// Of -n MIN:MAX; request.count is the most then.
  std::optional<std::uint32_t> least;
};
Result<Selection> read_selection(Context& context);

/// The options that were given, as words for the parser of another process; without those of these keys.
std::vector<std::string> option_words(const Context& context, std::span<const std::string_view> without);

/// The `selection:` and the `run:` of --config behind what was typed; the keys that the file sets. Fails as the file's
/// reader does.
Result<std::vector<std::string>> fall_back_to_config(Context& context);

/// The `run:` of --config behind what was typed. Fails as the file's reader does.
Result<void> fall_back_to_run_config(Context& context);

/// The options about a model and its task that were given (kWorkloadOptions), and those named besides.
planning::Words words_of(const Args& args, std::span<const std::string_view> besides);

/// Fails with invalid_argument where more than one of these options' files and --json is standard output.
Result<void> check_standard_output(const Args& args, const std::vector<std::string>& files);
/// Fails with invalid_argument where a command to run was given to `what` ("lease --list"), which runs none.
Result<void> refuse_operands(const Args& args, std::string_view what, std::string hint);
/// Fails with invalid_argument where --json was given to `what` ("sim stop"), which has no answer to print.
Result<void> refuse_json(const Args& args, std::string_view what, std::string hint = {});

/// The error as invalid_argument of this option: "--min-memory: 'x' is not a size".
Error about(const std::string& key, const Error& error);
/// --interval, between readings: 100ms to 10m.
Result<std::optional<std::chrono::milliseconds>> interval_option(const Args& args);
/// --timeout, which is more than 0.
Result<std::optional<std::chrono::milliseconds>> timeout_option(const Args& args);
/// The file of --rules; without it telemetry::find_alert_rules().
std::filesystem::path alert_rules_file(const Context& context);

}  // namespace gpuwarden::cli
