// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/run_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/time_limit.hpp"
#include "gpuwarden/machine/fleets.hpp"
#include "gpuwarden/slurm/words.hpp"

namespace gpuwarden::jobs {
namespace {

using std::chrono::milliseconds;

constexpr auto kRunNames = std::to_array<ValueName>({
    {"nproc-per-node", ValueKind::count},
    {"one-gpu-per-rank", ValueKind::flag},
    {"module", ValueKind::flag},
    {"run-path", ValueKind::flag},
    {"no-python", ValueKind::flag},
    {"numa-binding", ValueKind::text},
    {"role", ValueKind::text},
    {"standalone", ValueKind::flag},
    {"nnodes", ValueKind::count},
    {"node-rank", ValueKind::count},
    {"master-addr", ValueKind::text},
    {"master-port", ValueKind::count},
    {"rdzv-endpoint", ValueKind::text},
    {"rdzv-id", ValueKind::text},
    {"rdzv-backend", ValueKind::text},
    {"rdzv-conf", ValueKind::text},
    {"log-dir", ValueKind::text},
    {"redirects", ValueKind::count},
    {"tee", ValueKind::count},
    {"local-ranks-filter", ValueKind::count},
    {"grace", ValueKind::duration},
    {"max-restarts", ValueKind::count},
    {"heal", ValueKind::flag},
    {"restart-delay", ValueKind::duration},
    {"restart-arg", ValueKind::list},
    {"hang-timeout", ValueKind::duration},
    {"straggler", ValueKind::text},
    {"checkpoint", ValueKind::text},
    {"probation", ValueKind::duration},
    {"time-limit", ValueKind::duration},
    {"signal", ValueKind::text},
    {"cpu-fallback", ValueKind::flag},
    {"status", ValueKind::text},
    {"record", ValueKind::text},
    {"sample-period", ValueKind::duration},
    {"sim-load", ValueKind::text},
});

/// "2h", or Slurm's forms with a colon: 30:00, 2:00:00, 1-12:00:00. A bare number is minutes in Slurm and seconds
/// elsewhere: which is meant must be said.
Result<std::optional<milliseconds>> own_limit(const NamedValues& values) {
  const auto text = values.text("time-limit");
  if (!text) return std::nullopt;
  if (text->contains(':')) {
    const auto time = slurm::parse_time(*text);
    if (time && *time <= std::chrono::days(3650)) return milliseconds(*time);
    return values.refuse(fmt::format("--time-limit: '{}' is not a time", printable(*text)),
                         "2h, 90m, or as in Slurm 30:00, 2:00:00, 1-12:00:00");
  }
  if (parse_number(*text))
    return values.refuse(fmt::format("--time-limit: {} has no unit", printable(*text)),
                         fmt::format("write {0}s or {0}m (Slurm's {0} is minutes), or 0:30:00", printable(*text)));
  return duration_option(values, "time-limit");
}

}  // namespace

std::span<const ValueName> run_names() { return kRunNames; }

Result<launch::TimeLimit> time_limit_from(const NamedValues& values, const Environment& environment,
                                          const Clock& clock) {
  GPUWARDEN_TRY(const auto early, read_option(values, "signal", launch::parse_early_signal));
  const launch::TimeLimit limit = early.value_or(launch::TimeLimit{});
  GPUWARDEN_TRY(const auto own, own_limit(values));
  const auto slurm = launch::left_by_slurm(environment, clock.wall_now());
  if (limit.signal != 0 && !own && !slurm)
    return values.refuse("--signal requires --time-limit", "or a Slurm job, whose end is known");
  if (own && own->count() == 0) return values.refuse("--time-limit must be greater than 0");
  if (own && limit.signal != 0 && limit.before >= *own)
    return values.refuse(fmt::format("--signal: {} before the end is before the job begins: its time limit is {}",
                                     format_duration(limit.before), format_duration(*own)));
  return launch::with_end(limit, own, slurm, clock.now());
}

Result<launch::RestartPolicy> restart_policy_from(const NamedValues& values) {
  launch::RestartPolicy policy;
  GPUWARDEN_TRY(const auto restarts, count_option(values, "max-restarts", 1000000));
  policy.max_restarts = restarts.value_or(0);
  policy.heal = values.has("heal");
  GPUWARDEN_TRY(const auto pause, duration_option(values, "restart-delay"));
  policy.first_pause = pause.value_or(policy.first_pause);
  policy.restart_arguments = values.all("restart-arg");
  for (const char* name : {"heal", "restart-delay", "restart-arg"}) {
    if (values.has(name) && !values.has("max-restarts"))
      return values.refuse(fmt::format("--{} needs --max-restarts", name), "how often the job may be started again");
  }
  return policy;
}

Result<launch::RunOptions> run_options_from(const NamedValues& values) {
  launch::RunOptions options;
  GPUWARDEN_TRY(const auto period, duration_option(values, "sample-period"));
  if (period) options.sample_period = std::max(*period, milliseconds(10));
  GPUWARDEN_TRY(const auto hang, duration_option(values, "hang-timeout"));
  if (hang && *hang < std::chrono::seconds(1))
    return values.refuse("--hang-timeout: at least a second is needed to look twice");
  options.hang_timeout = hang.value_or(options.hang_timeout);
  GPUWARDEN_TRY(const auto load, read_option(values, "sim-load", machine::parse_load));
  options.load = load.value_or(options.load);
  GPUWARDEN_CHECK(check_outputs(values));
  return options;
}

Result<launch::StreamChoice> streams_from(const NamedValues& values, const std::string& name) {
  GPUWARDEN_TRY(auto streams, read_option(values, name, launch::StreamChoice::parse));
  return std::move(streams).value_or(launch::StreamChoice{});
}

Result<void> check_outputs(const NamedValues& values) {
  for (const char* name : {"report", "post-mortem"}) {
    const auto file = values.text(name);
    if (file && !can_write_output(*file))
      return values.refuse(fmt::format("--{}: cannot write {}", name, printable(*file)));
  }
  return {};
}

Result<std::optional<std::uint32_t>> several_ranks(const NamedValues& values) {
  const std::string text = values.text("nproc-per-node").value_or("");
  if (text.empty() || text == "gpu" || text == "auto" || text == "cpu" || text.contains(':')) return std::nullopt;
  GPUWARDEN_TRY(const auto ranks, count_option(values, "nproc-per-node", 4096));
  return *ranks > 1 ? ranks : std::nullopt;
}

}  // namespace gpuwarden::jobs
