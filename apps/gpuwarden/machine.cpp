// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/overlays.hpp"
#include "gpuwarden/logs/captures.hpp"
#include "gpuwarden/logs/recognise.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;

Result<void> choose_probe(const Args& args, bool simulated, machine::Options& options) {
  const auto wanted = args.text("probe");
  if (!wanted) return {};
  const auto found = probe::probe_choice_from(*wanted);
  if (!found)
    return fail(ErrorCode::invalid_argument, fmt::format("--probe: unknown probe '{}'", printable(*wanted)),
                "auto, nvml or nvidia-smi");
  if (simulated && *found == probe::ProbeChoice::nvidia_smi)
    return fail(ErrorCode::invalid_argument, "--probe nvidia-smi and --simulate cannot be given together",
                "nvidia-smi shows this machine's GPUs; gpuwarden sim exec runs it in front of a simulated fleet");
  options.probe = *found;
  return {};
}

/// --from FILE...
Result<machine::Source> captured(const Args& args) {
  if (args.has("simulate"))
    return fail(ErrorCode::invalid_argument, "--from and --simulate cannot be given together",
                "--simulate FILE makes a simulated fleet of a capture, --from FILE only looks at it");
  const auto files = args.list("from");
  GPUWARDEN_TRY(capture::Capture capture, read_captures(files));
  return machine::Captured{std::move(capture.snapshot), files.empty() || files[0] == "-" ? "standard input" : files[0]};
}

Result<machine::Source> source_of(const Context& context) {
  if (context.args.has("from")) return captured(context.args);
  if (const auto spec = context.args.text("simulate")) return machine::Simulated{*spec};
  const auto variable = context.environment.find("GPUWARDEN_SIMULATE");
  if (variable != context.environment.end() && !variable->second.empty()) return machine::Simulated{variable->second};
  return machine::Real{};
}

std::vector<fs::path> overlays_of(const Context& context) {
  std::vector<fs::path> files = knowledge::overlay_files(context.environment);
  for (const std::string& file : context.args.all("knowledge")) files.emplace_back(file);
  return files;
}

}  // namespace

Result<Machine> open_machine(const Context& context) {
  const Args& args = context.args;
  std::error_code ignored;
  if (const auto root = args.text("root"); root && !fs::is_directory(*root, ignored))
    return fail(ErrorCode::invalid_argument, fmt::format("--root: '{}' is not a directory", printable(*root)),
                "name the folder below which the other system's etc, usr and lib lie");
  GPUWARDEN_TRY(machine::Source source, source_of(context));
  machine::Options options = machine::options_from(context.environment);
  options.overlays = overlays_of(context);
  options.wake = args.has("wake");
  if (!std::holds_alternative<machine::Captured>(source)) {
    GPUWARDEN_TRY(const auto timeout, timeout_option(args));
    if (timeout) options.timeout = *timeout;
    GPUWARDEN_CHECK(choose_probe(args, std::holds_alternative<machine::Simulated>(source), options));
  }
  return Machine::open(std::move(source), std::move(options));
}

Result<Patient> open_patient(const Context& context) {
  const auto files = context.args.list("from");
  if (files.empty() || context.args.has("simulate")) {
    GPUWARDEN_TRY(Machine machine, open_machine(context));
    return Patient{std::move(machine), {}};
  }
  GPUWARDEN_TRY(const auto texts, logs::read_texts(files));
  GPUWARDEN_TRY(auto known, logs::recognise_all(texts));
  for (const std::string& warning : known.facts.warnings) warn(printable(warning));
  machine::Options options = machine::options_from(context.environment);
  options.overlays = overlays_of(context);
  GPUWARDEN_TRY(Machine machine, Machine::open(machine::Captured{std::move(known.facts.snapshot), texts.front().name},
                                               std::move(options)));
  return Patient{std::move(machine), std::move(known.told)};
}

Result<Machine> open_fleet(const Context& context, const std::string& spec) {
  return Machine::open(machine::Simulated{spec}, machine::options_from(context.environment));
}

Result<knowledge::Knowledge> open_knowledge(const Context& context) {
  return knowledge::read_knowledge(overlays_of(context));
}

fs::path lease_directory(const Context& context) {
  const fs::path given = machine::options_from(context.environment).lease_directory;
  return given.empty() ? lease::StoreOptions{}.directory : given;
}

Result<capture::Capture> read_captures(const std::vector<std::string>& files) {
  auto whole = logs::read_captures(files);
  if (!whole) return whole;
  for (const std::string& warning : whole->warnings) warn(printable(warning));
  return whole;
}

std::chrono::milliseconds probe_deadline(const Context& context) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  const auto timeout = duration_option(context.args, "timeout");
  return timeout && *timeout ? std::min(**timeout, kLongest) : std::chrono::milliseconds(0);
}

machine::SurveyOptions survey_options(const Context& context) {
  std::error_code ignored;
  return {.root = context.args.text("root").value_or("/"),
          .software = !context.args.has("no-environment"),
          .start_pythons = context.args.has("ask-pythons"),
          .working_directory = fs::current_path(ignored),
          .deadline = probe_deadline(context)};
}

facts::Snapshot read_everything(const Context& context, const Machine& machine, const probe::ReadRequest& request) {
  return machine.survey(survey_options(context), request);
}

Result<bool> is_watched(const Args& args) {
  if (args.has("count") && !args.has("watch"))
    return fail(ErrorCode::invalid_argument, "--count requires --watch", "--watch --count 3 shows it three times");
  return args.has("watch");
}

Result<int> show_again_and_again(const Context& context, const Machine& machine,
                                 const std::function<Result<int>()>& show) {
  GPUWARDEN_TRY(const auto given, duration_option(context.args, "watch"));
  GPUWARDEN_TRY(const auto count, count_option(context.args, "count", ~0U));
  const std::chrono::milliseconds period = given.value_or(std::chrono::seconds(1));
  if (period.count() == 0) return fail(ErrorCode::invalid_argument, "--watch: the interval must be greater than 0");
  if (machine.captured())
    return fail(ErrorCode::invalid_argument, "--watch and --from cannot be used together", "a capture does not change");
  const StopOnSignals signals;
  for (std::uint32_t shown = 0;;) {
    GPUWARDEN_TRY(const int code, show());
    std::fflush(stdout);
    if (++shown == count || std::ferror(stdout) != 0) return code;
    if (!system_clock().sleep_for(period, signals.token())) return code;
  }
}

}  // namespace gpuwarden::cli
