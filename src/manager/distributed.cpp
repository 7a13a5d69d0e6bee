// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/distributed.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/rank_environment.hpp"

namespace gpuwarden::manager {
namespace {

constexpr std::array<const char*, 4> kNeeded{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

std::optional<std::string> value(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
}

Result<std::uint32_t> number(const Environment& environment, const char* name, std::int64_t low, std::int64_t high) {
  const std::string text = value(environment, name).value_or("");
  const auto parsed = parse_integer(text);
  if (parsed && *parsed >= low && *parsed <= high) return static_cast<std::uint32_t>(*parsed);
  return fail(ErrorCode::invalid_argument, fmt::format("{}={} is not valid", name, printable(text)),
              fmt::format("{} must be a number from {} to {}", name, low, high));
}

/// RANK and the like, as a launcher sets them.
Result<void> read_launched(const Environment& environment, DistributedSetup& setup) {
  setup.launched = true;
  GPUWARDEN_TRY(setup.world_size, number(environment, "WORLD_SIZE", 1, 1 << 20));
  GPUWARDEN_TRY(setup.rank, number(environment, "RANK", 0, static_cast<std::int64_t>(setup.world_size) - 1));
  setup.local_rank = setup.rank;
  if (value(environment, "LOCAL_RANK")) {
    GPUWARDEN_TRY(setup.local_rank, number(environment, "LOCAL_RANK", 0, setup.rank));
  }
  GPUWARDEN_TRY(const std::uint32_t port, number(environment, "MASTER_PORT", 1, 65535));
  setup.master_port = static_cast<std::uint16_t>(port);
  setup.master_address = environment.at("MASTER_ADDR");
  return {};
}

/// One process that nobody launched.
Result<void> make_alone(const Environment& environment, DistributedSetup& setup) {
  GPUWARDEN_TRY(setup.master_port, launch::find_free_port());
  launch::JobSpec spec;
  spec.run_id = launch::make_run_id();
  setup.master_address = spec.master_address;
  for (const auto& [name, text] : launch::rank_environment(spec, 0, setup.master_port)) {
    const bool of_others = name.starts_with("CUDA_") || name.starts_with("GPUWARDEN_");
    if (!of_others && !environment.contains(name)) setup.variables[name] = text;
  }
  return {};
}

}  // namespace

nlohmann::json to_json(const DistributedSetup& setup) {
  return {{"backend", setup.backend},
          {"rank", setup.rank},
          {"local_rank", setup.local_rank},
          {"world_size", setup.world_size},
          {"master_address", setup.master_address},
          {"master_port", setup.master_port},
          {"launched", setup.launched},
          {"device", to_json(setup.device)},
          {"variables", setup.variables},
          {"notes", setup.notes}};
}

Result<DistributedSetup> set_up_distributed(const GpuConfig& config, const Environment& environment,
                                            const std::vector<Device>& devices) {
  std::vector<std::string> missing;
  for (const char* const name : kNeeded) {
    if (!value(environment, name)) missing.emplace_back(name);
  }
  DistributedSetup setup;
  setup.backend = config.distributed_backend;
  if (missing.empty()) {
    GPUWARDEN_CHECK(read_launched(environment, setup));
  } else if (missing.size() == kNeeded.size()) {
    GPUWARDEN_CHECK(make_alone(environment, setup));
  } else {
    return fail(ErrorCode::invalid_argument,
                fmt::format("only some of the launcher's variables are set: {} missing", join(missing, ", ")),
                "start the program with gpuwarden run, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  }
  if (devices.empty()) {
    if (setup.backend == "nccl")
      setup.notes.emplace_back("nccl needs GPUs and there is none: gloo is used, on the CPU");
    setup.backend = "gloo";
    return setup;
  }
  // A launcher that shows each rank its own GPU alone: all of them use the first.
  const std::size_t at = devices.size() == 1 ? 0 : setup.local_rank;
  if (at >= devices.size())
    return fail(ErrorCode::unsatisfied,
                fmt::format("LOCAL_RANK={} has no GPU: {} can be used", setup.local_rank, devices.size()),
                "start as many ranks on this machine as it has GPUs");
  setup.device = devices[at];
  return setup;
}

}  // namespace gpuwarden::manager
