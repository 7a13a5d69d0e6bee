// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>

#include "gpuwarden/base/text.hpp"
#include "launch/parts.hpp"

namespace gpuwarden::launch {
namespace {

/// What torchrun's agent sets beside the ranks' numbers.
void add_elastic(const JobSpec& spec, std::uint32_t rank, Environment& env) {
  env["TORCHELASTIC_RUN_ID"] = spec.rendezvous_id.empty() ? spec.run_id : spec.rendezvous_id;
  env["GPUWARDEN_RESTART_COUNT"] = std::to_string(spec.restart_count);
  env["TORCHELASTIC_RESTART_COUNT"] = std::to_string(spec.counted_restarts.value_or(spec.restart_count));
  env["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(spec.max_restarts);
  // Rank 0 makes the store itself; "True" would have it wait for an agent's.
  env["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  env.erase("TORCHELASTIC_ERROR_FILE");  // of a job around this one
  if (spec.log_directory) env["TORCHELASTIC_ERROR_FILE"] = error_file(*spec.log_directory, rank).string();
  // PyTorch before 2.2 knows the second name alone.
  env.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  env.try_emplace("NCCL_ASYNC_ERROR_HANDLING", "1");
  // torchrun's default since PyTorch 2.8; these signals are passed on, and others.
  env.try_emplace("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
}

}  // namespace

std::filesystem::path error_file(const std::filesystem::path& folder, std::uint32_t rank) {
  return std::filesystem::absolute(folder) / fmt::format("rank-{}.error.json", rank);
}

Result<StreamChoice> StreamChoice::parse(std::string_view text) {
  const auto refuse = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' names no streams", printable(text)),
                "1: standard output, 2: standard error, 3: both; for single ranks 0:3,12:1");
  };
  const auto bits = [](std::string_view digit) -> std::optional<std::uint8_t> {
    if (digit.size() != 1 || digit[0] < '0' || digit[0] > '3') return std::nullopt;
    return static_cast<std::uint8_t>(digit[0] - '0');
  };
  StreamChoice choice;
  for (const auto part : split(text, ',')) {
    const auto colon = part.find(':');
    const auto streams = bits(colon == std::string_view::npos ? part : part.substr(colon + 1));
    if (!streams) return refuse();
    if (colon == std::string_view::npos) {
      choice.everywhere = *streams;
      continue;
    }
    std::uint32_t rank = 0;
    const auto [end, error] = std::from_chars(part.begin(), part.begin() + colon, rank);
    if (error != std::errc() || end != part.begin() + colon) return refuse();
    choice.by_rank[rank] = *streams;
  }
  return choice;
}

std::uint8_t StreamChoice::of(std::uint32_t local_rank) const {
  const auto found = by_rank.find(local_rank);
  return found == by_rank.end() ? everywhere : found->second;
}

std::uint32_t first_rank_of(const JobSpec& spec) { return spec.first_rank.value_or(spec.node_rank * spec.ranks); }

Environment rank_environment(const JobSpec& spec, std::uint32_t local_rank, std::uint16_t port) {
  Environment env = spec.environment;
  for (const auto& [name, value] : spec.extra_environment) env[name] = value;
  const std::uint32_t rank = first_rank_of(spec) + local_rank;
  const std::uint32_t world = spec.world_size.value_or(spec.nodes * spec.ranks);
  env["RANK"] = env["ROLE_RANK"] = std::to_string(rank);
  env["WORLD_SIZE"] = env["ROLE_WORLD_SIZE"] = std::to_string(world);
  env["LOCAL_RANK"] = std::to_string(spec.one_device_per_rank ? 0 : local_rank);
  env["LOCAL_WORLD_SIZE"] = std::to_string(spec.ranks);
  env["GROUP_RANK"] = std::to_string(spec.node_rank);
  env["GROUP_WORLD_SIZE"] = std::to_string(spec.nodes);
  env["ROLE_NAME"] = spec.role;
  env["MASTER_ADDR"] = spec.master_address;
  env["MASTER_PORT"] = std::to_string(port);
  add_elastic(spec, rank, env);
  if (spec.ranks > 1) env.try_emplace("OMP_NUM_THREADS", std::to_string(spec.threads.value_or(1)));
  std::string devices = spec.visible_devices;
  if (spec.one_device_per_rank && !devices.empty()) {
    const auto all = split(spec.visible_devices, ',');
    devices = all[local_rank % all.size()];
  }
  env["CUDA_VISIBLE_DEVICES"] = devices;
  env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  env["GPUWARDEN_RUN_ID"] = spec.run_id;
  return env;
}

}  // namespace gpuwarden::launch
