// SPDX-License-Identifier: Apache-2.0
// What people write for torchrun, as it reads it (PyTorch 2.13: torch/distributed/run.py, argparse_util.py and
// elastic/rendezvous). Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::launch {

/// What an environment says of an option of torchrun's: PET_NNODES=2 is --nnodes=2, PET_STANDALONE=1 --standalone.
struct TorchrunDefault {
  std::string_view option;  ///< "nnodes"
  std::string variable;     ///< "PET_NNODES"
  std::string value;        ///< empty for a flag
  bool place = false;       ///< says where nodes meet: --rdzv-endpoint goes before --master-addr and --master-port

  /// "--nnodes=2", "--standalone"
  std::string word() const;
};
/// Those that say something, the endpoint before address and port. Fails with invalid_argument for a flag that is no
/// whole number (0: not set).
Result<std::vector<TorchrunDefault>> torchrun_defaults(const Environment& environment);

/// Those of them that count behind what was given by the same names: as in torchrun an endpoint goes before address and
/// port, and "standalone" before all three and before the nodes.
std::vector<TorchrunDefault> which_count(std::vector<TorchrunDefault> defaults, const NamedValues& given);

/// Where nodes meet.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;  ///< 0: any
  bool operator==(const Endpoint&) const = default;
};
/// "HOST", "HOST:PORT", "[::1]:PORT" of --rdzv-endpoint; without a port torchrun's own, 29400. Fails with
/// invalid_argument.
Result<Endpoint> parse_rendezvous_endpoint(std::string_view text);

/// How long nodes wait for each other (--rdzv-conf).
struct RendezvousTimes {
  std::optional<std::chrono::milliseconds> join;       ///< join_timeout: for all nodes to come
  std::optional<std::chrono::milliseconds> last_call;  ///< last_call_timeout: for more than the least
  std::vector<std::string> needless;  ///< a sentence for each key that means nothing without torchrun's store
};
/// "join_timeout=600,last_call_timeout=10", in seconds. Fails with invalid_argument for what is no KEY=VALUE, and for a
/// key that is nearly one.
Result<RendezvousTimes> parse_rendezvous_times(std::string_view text);

/// "0,2" of --local-ranks-filter: LOCAL_RANKs. Fails with invalid_argument.
Result<std::vector<std::uint32_t>> parse_local_ranks(std::string_view text);

}  // namespace gpuwarden::launch
