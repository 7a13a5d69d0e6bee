// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/torchrun_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::launch {
namespace {

/// An option of torchrun whose default is in PET_<ITS NAME> (torch/distributed/argparse_util.py).
struct TorchrunOption {
  std::string_view name;
  bool flag = false;
  bool place = false;
};
constexpr auto kTorchrunOptions = std::to_array<TorchrunOption>({
    {.name = "nnodes"},
    {.name = "nproc-per-node"},
    {.name = "rdzv-backend"},
    {.name = "rdzv-endpoint", .place = true},
    {.name = "rdzv-id"},
    {.name = "rdzv-conf"},
    {.name = "standalone", .flag = true},
    {.name = "max-restarts"},
    {.name = "monitor-interval"},
    {.name = "start-method"},
    {.name = "event-log-handler"},
    {.name = "role"},
    {.name = "module", .flag = true},
    {.name = "no-python", .flag = true},
    {.name = "run-path", .flag = true},
    {.name = "log-dir"},
    {.name = "redirects"},
    {.name = "tee"},
    {.name = "local-ranks-filter"},
    {.name = "node-rank"},
    {.name = "master-addr", .place = true},
    {.name = "master-port", .place = true},
    {.name = "local-addr"},
    {.name = "logs-specs"},
    {.name = "numa-binding"},
    {.name = "signals-to-handle"},
    {.name = "virtual-local-rank", .flag = true},
    {.name = "duplicate-stdout-filters"},
    {.name = "duplicate-stderr-filters"},
});

/// torchrun's own default for the nodes' meeting place.
constexpr std::uint16_t kRendezvousPort = 29400;

std::string variable_of(std::string_view option) {
  std::string name = "PET_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return name;
}

/// What torchrun's c10d and static backends read beside the two times (torch/distributed/elastic/rendezvous:
/// dynamic_rendezvous.py, c10d_rendezvous_backend.py, static_tcp_rendezvous.py of PyTorch 2.13).
constexpr auto kNeedlessInConf = std::to_array<std::string_view>(
    {"close_timeout", "heartbeat_timeout", "keep_alive_interval", "keep_alive_max_attempt", "read_timeout", "timeout",
     "is_host", "store_type", "use_libuv", "rank"});

/// Of a key that is none of the times. Fails with invalid_argument where one of them, or of torchrun's, was meant.
Result<std::string> needless_key(const std::string& key) {
  if (std::ranges::find(kNeedlessInConf, key) != kNeedlessInConf.end())
    return fmt::format("{} is not needed: nodes agree without torchrun's store", key);
  std::vector<std::string> known(kNeedlessInConf.begin(), kNeedlessInConf.end());
  known.insert(known.begin(), {"join_timeout", "last_call_timeout"});
  const std::string close = closest_match(key, known);
  if (close.empty())
    return fmt::format("{} is not known and means nothing here; join_timeout and last_call_timeout do", printable(key));
  return fail(ErrorCode::invalid_argument, fmt::format("unknown key '{}'", printable(key)),
              fmt::format("did you mean {}?", close));
}

}  // namespace

std::string TorchrunDefault::word() const {
  return value.empty() ? fmt::format("--{}", option) : fmt::format("--{}={}", option, value);
}

Result<std::vector<TorchrunDefault>> torchrun_defaults(const Environment& environment) {
  std::vector<TorchrunDefault> defaults;
  for (const TorchrunOption& one : kTorchrunOptions) {
    const auto found = environment.find(variable_of(one.name));
    if (found == environment.end() || found->second.empty()) continue;
    TorchrunDefault said{.option = one.name, .variable = found->first, .value = {}, .place = one.place};
    if (!one.flag) {
      said.value = found->second;
    } else {
      const auto number = parse_integer(found->second);
      if (!number)
        return fail(ErrorCode::invalid_argument,
                    fmt::format("{}: '{}' is not 0 or 1", found->first, printable(found->second)));
      if (*number == 0) continue;
    }
    defaults.push_back(std::move(said));
  }
  return defaults;
}

std::vector<TorchrunDefault> which_count(std::vector<TorchrunDefault> defaults, const NamedValues& given) {
  const auto is_said = [&](std::string_view option) {
    return std::ranges::find(defaults, option, &TorchrunDefault::option) != defaults.end();
  };
  const bool alone = given.has("standalone");
  const bool placed = alone || given.has("rdzv-endpoint") || given.has("master-addr") || given.has("master-port");
  const bool alone_by_default = is_said("standalone") && !placed && !given.has("nnodes") && !given.has("node-rank");
  const bool has_endpoint = is_said("rdzv-endpoint");
  std::erase_if(defaults, [&](const TorchrunDefault& one) {
    if (one.option == "standalone") return !alone_by_default;
    if (one.place) return placed || alone_by_default || (has_endpoint && one.option != "rdzv-endpoint");
    if (one.option == "node-rank") return alone || alone_by_default;
    return one.option == "nnodes" && alone;
  });
  return defaults;
}

Result<Endpoint> parse_rendezvous_endpoint(std::string_view text) {
  // "[::1]:29400" has colons of its own.
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string_view::npos && text.find(']', colon) == std::string_view::npos;
  const std::string_view host = text.substr(0, has_port ? colon : std::string_view::npos);
  const auto port = has_port ? parse_integer(text.substr(colon + 1)) : kRendezvousPort;
  if (host.empty() || !port || *port < 0 || *port > 65535)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not HOST or HOST:PORT", printable(text)));
  return Endpoint{std::string(host), static_cast<std::uint16_t>(*port)};
}

Result<RendezvousTimes> parse_rendezvous_times(std::string_view text) {
  RendezvousTimes times;
  if (text.empty()) return times;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key(trim(part.substr(0, equals)));
    if (equals == std::string_view::npos || key.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not KEY=VALUE", printable(part)),
                  "for example join_timeout=600,last_call_timeout=10");
    if (key != "join_timeout" && key != "last_call_timeout") {
      GPUWARDEN_TRY(std::string sentence, needless_key(key));
      times.needless.push_back(std::move(sentence));
      continue;
    }
    const auto seconds = parse_number(trim(part.substr(equals + 1)));
    if (!seconds || *seconds <= 0 || *seconds > 1e9)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} '{}' is not a number of seconds", key, printable(part.substr(equals + 1))));
    (key == "join_timeout" ? times.join : times.last_call) =
        std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
  }
  return times;
}

Result<std::vector<std::uint32_t>> parse_local_ranks(std::string_view text) {
  std::vector<std::uint32_t> ranks;
  for (const std::string_view part : split(text, ',')) {
    const auto rank = parse_integer(trim(part));
    if (!rank || *rank < 0 || *rank > 65535)
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a rank", printable(part)),
                  "LOCAL_RANKs with commas between: 0,2");
    ranks.push_back(static_cast<std::uint32_t>(*rank));
  }
  return ranks;
}

}  // namespace gpuwarden::launch
