// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "launch/parts.hpp"

namespace gpuwarden::launch {
namespace {

/// Where the kernel's own choice of ports begins.
std::uint16_t ephemeral_start() {
  const auto range = read_line("/proc/sys/net/ipv4/ip_local_port_range");
  const auto words = range ? split_words(*range) : std::vector<std::string_view>{};
  const auto first = words.empty() ? std::nullopt : parse_integer(words[0]);
  return static_cast<std::uint16_t>(first && *first > 20000 && *first < 65000 ? *first : 32768);
}

bool is_free(std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Result<std::uint16_t> find_free_port() {
  const std::uint16_t end = ephemeral_start();
  const std::uint16_t begin = 15000;
  std::random_device random;
  const std::uint32_t span = end - begin;
  std::uint32_t at = random() % span;
  for (std::uint32_t i = 0; i < span; ++i, at = (at + 1) % span) {
    const auto port = static_cast<std::uint16_t>(begin + at);
    if (is_free(port)) return port;
  }
  return fail(ErrorCode::unavailable, "no free port for MASTER_PORT was found", "name one with --master-port");
}

Environment rank_environment(const JobSpec& spec, std::uint32_t local_rank, std::uint16_t port) {
  Environment env = spec.environment;
  for (const auto& [name, value] : spec.extra_environment) env[name] = value;
  const std::uint32_t rank = spec.node_rank * spec.ranks + local_rank;
  const std::uint32_t world = spec.nodes * spec.ranks;
  env["RANK"] = env["ROLE_RANK"] = std::to_string(rank);
  env["WORLD_SIZE"] = env["ROLE_WORLD_SIZE"] = std::to_string(world);
  env["LOCAL_RANK"] = std::to_string(spec.one_device_per_rank ? 0 : local_rank);
  env["LOCAL_WORLD_SIZE"] = std::to_string(spec.ranks);
  env["GROUP_RANK"] = std::to_string(spec.node_rank);
  env["GROUP_WORLD_SIZE"] = std::to_string(spec.nodes);
  env["ROLE_NAME"] = "default";
  env["MASTER_ADDR"] = spec.master_address;
  env["MASTER_PORT"] = std::to_string(port);
  env["TORCHELASTIC_RUN_ID"] = spec.run_id;
  env["TORCHELASTIC_RESTART_COUNT"] = "0";
  env["TORCHELASTIC_MAX_RESTARTS"] = "0";
  env.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (spec.ranks > 1) env.try_emplace("OMP_NUM_THREADS", "1");
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
