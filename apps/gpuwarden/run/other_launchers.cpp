// SPDX-License-Identifier: Apache-2.0
#include "run/other_launchers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "hosts/hosts_options.hpp"

namespace gpuwarden::cli {
namespace {

/// An option of torchrun whose default is in PET_<ITS NAME> (torch/distributed/argparse_util.py).
struct TorchrunDefault {
  const char* option;
  bool flag = false;
  bool place = false;  ///< says where nodes meet
};
constexpr auto kTorchrunDefaults = std::to_array<TorchrunDefault>({
    {.option = "nnodes"},
    {.option = "nproc-per-node"},
    {.option = "rdzv-backend"},
    {.option = "rdzv-endpoint", .place = true},
    {.option = "rdzv-id"},
    {.option = "rdzv-conf"},
    {.option = "standalone", .flag = true},
    {.option = "max-restarts"},
    {.option = "monitor-interval"},
    {.option = "start-method"},
    {.option = "event-log-handler"},
    {.option = "role"},
    {.option = "module", .flag = true},
    {.option = "no-python", .flag = true},
    {.option = "run-path", .flag = true},
    {.option = "log-dir"},
    {.option = "redirects"},
    {.option = "tee"},
    {.option = "local-ranks-filter"},
    {.option = "node-rank"},
    {.option = "master-addr", .place = true},
    {.option = "master-port", .place = true},
    {.option = "local-addr"},
    {.option = "logs-specs"},
    {.option = "numa-binding"},
    {.option = "signals-to-handle"},
    {.option = "virtual-local-rank", .flag = true},
    {.option = "duplicate-stdout-filters"},
    {.option = "duplicate-stderr-filters"},
});

std::string variable_of(std::string_view option) {
  std::string name = "PET_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return name;
}

/// The word that would say it; empty: the variable says nothing.
Result<std::string> word_of(const TorchrunDefault& one, const Environment& environment) {
  const auto found = environment.find(variable_of(one.option));
  if (found == environment.end() || found->second.empty()) return "";
  if (!one.flag) return fmt::format("--{}={}", one.option, found->second);
  // torchrun takes a number here, 0 for no.
  const auto number = parse_integer(found->second);
  if (!number)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not 0 or 1", found->first, printable(found->second)));
  return *number == 0 ? "" : fmt::format("--{}", one.option);
}

}  // namespace

Result<void> fall_back_to_torchrun_environment(Context& context) {
  Args& args = context.args;
  if (names_hosts(args) || args.has("slurm") || args.has("end-leftovers")) return {};
  const bool placed =
      args.has("standalone") || args.has("rdzv-endpoint") || args.has("master-addr") || args.has("master-port");
  // As in torchrun: an endpoint goes before the address, and --standalone before both.
  bool no_place = placed;
  Args said;
  for (const TorchrunDefault& one : kTorchrunDefaults) {
    if (one.place && no_place) continue;
    GPUWARDEN_TRY(const std::string word, word_of(one, context.environment));
    if (word.empty()) continue;
    auto parsed = parse_arguments(*context.command, {word});
    if (!parsed) {
      Error error = parsed.error();
      error.message = fmt::format("{}: {}", variable_of(one.option), error.message);
      return std::unexpected(std::move(error));
    }
    if (!args.has("quiet")) {
      for (const std::string& sentence : needless_sentences(*parsed)) warn(sentence);
    }
    no_place = no_place || one.option == std::string_view("rdzv-endpoint");
    said.fall_back_to(*parsed);
  }
  if (placed || args.has("nnodes") || args.has("node-rank")) said.forget("standalone");
  if (said.has("standalone")) {
    for (const char* key : {"rdzv-endpoint", "master-addr", "master-port", "node-rank"}) said.forget(key);
  }
  if (args.has("standalone")) {
    for (const char* key : {"node-rank", "nnodes"}) said.forget(key);
  }
  args.fall_back_to(said);
  return {};
}

Result<std::optional<std::uint32_t>> several_ranks(const Args& args) {
  const std::string text = args.text("nproc-per-node").value_or("");
  if (text.empty() || text == "gpu" || text == "auto" || text == "cpu" || text.contains(':')) return std::nullopt;
  GPUWARDEN_TRY(const auto ranks, count_option(args, "nproc-per-node", 4096));
  return *ranks > 1 ? ranks : std::nullopt;
}

Error refusal_of(const Args& args, const Selection& selection, Error error) {
  const bool too_few = error.code == ErrorCode::unsatisfied || error.code == ErrorCode::unavailable;
  const auto ranks = several_ranks(args);
  const bool said = args.has("num-gpus") || args.has("gpu-ids") || args.has("all") || selection.request.work ||
                    placement::request_from(selection.config).count;
  if (!too_few || said || !ranks || !*ranks || selection.request.count != *ranks) return error;
  const std::string share =
      fmt::format("each of the {0} ranks takes a GPU; on one GPU they share: -n 1 --nproc-per-node {0}", **ranks);
  error.hint = error.hint.empty() ? share : fmt::format("{}; {}", share, error.hint);
  return error;
}

Error naming_torchruns_variable(const Context& context, Error error) {
  const auto typed = parse_arguments(*context.command, context.typed);
  if (!typed || names_hosts(*typed) || typed->has("slurm")) return error;
  for (const TorchrunDefault& one : kTorchrunDefaults) {
    const auto found = context.environment.find(variable_of(one.option));
    const std::string start = fmt::format("--{}: ", one.option);
    if (found == context.environment.end() || typed->has(one.option) || !error.message.starts_with(start) ||
        !error.message.contains(printable(found->second)))
      continue;
    error.message = fmt::format("{}: {}", found->first, error.message.substr(start.size()));
    break;
  }
  return error;
}

Result<void> refuse_deepspeeds_count(const Context& context) {
  static constexpr std::string_view kTyped = "--num_gpus";
  const Args& args = context.args;
  if (args.has("nproc-per-node") || args.has("config") || args.text("num-gpus").value_or("1") == "1") return {};
  // The command's own words are its own.
  const std::size_t own = context.typed.size() - std::min(context.typed.size(), args.rest.size());
  for (std::size_t i = 0; i < own && context.typed[i] != "--"; ++i) {
    const std::string_view word = context.typed[i];
    if (word != kTyped && !(word.starts_with(kTyped) && word.substr(kTyped.size()).starts_with('='))) continue;
    const std::string count = printable(*args.text("num-gpus"));
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--num_gpus {} is a rank for each GPU in DeepSpeed, and one process with all of them here", count),
        fmt::format("write --nproc-per-node {0} for the ranks, -n {0} for one process", count));
  }
  return {};
}

Result<std::optional<std::vector<std::uint32_t>>> shown_ranks_option(const Args& args) {
  const auto text = args.text("local-ranks-filter");
  if (!text) return std::nullopt;
  std::vector<std::uint32_t> ranks;
  for (const std::string_view part : split(*text, ',')) {
    const auto rank = parse_integer(trim(part));
    if (!rank || *rank < 0 || *rank > 65535)
      return fail(ErrorCode::invalid_argument, fmt::format("--local-ranks-filter: '{}' is not a rank", printable(part)),
                  "LOCAL_RANKs with commas between: 0,2");
    ranks.push_back(static_cast<std::uint32_t>(*rank));
  }
  return ranks;
}

namespace {

/// What torchrun's c10d and static backends read beside the two times (torch/distributed/elastic/rendezvous:
/// dynamic_rendezvous.py, c10d_rendezvous_backend.py, static_tcp_rendezvous.py of PyTorch 2.13).
constexpr auto kNeedlessInConf = std::to_array<std::string_view>(
    {"close_timeout", "heartbeat_timeout", "keep_alive_interval", "keep_alive_max_attempt", "read_timeout", "timeout",
     "is_host", "store_type", "use_libuv", "rank"});

/// Of a key that is none of the times. Fails with invalid_argument where one of them, or of torchrun's, was meant.
Result<std::string> needless_key(const std::string& key) {
  if (std::ranges::find(kNeedlessInConf, key) != kNeedlessInConf.end())
    return fmt::format("--rdzv-conf: {} is not needed: nodes agree without torchrun's store", key);
  std::vector<std::string> known(kNeedlessInConf.begin(), kNeedlessInConf.end());
  known.insert(known.begin(), {"join_timeout", "last_call_timeout"});
  const std::string close = closest_match(key, known);
  if (close.empty())
    return fmt::format("--rdzv-conf: {} is not known and means nothing here; join_timeout and last_call_timeout do",
                       printable(key));
  return fail(ErrorCode::invalid_argument, fmt::format("--rdzv-conf: unknown key '{}'", printable(key)),
              fmt::format("did you mean {}?", close));
}

}  // namespace

Result<RendezvousTimes> rendezvous_times(const Args& args) {
  RendezvousTimes times;
  const auto text = args.text("rdzv-conf");
  if (!text || text->empty()) return times;
  for (const std::string_view part : split(*text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key(trim(part.substr(0, equals)));
    if (equals == std::string_view::npos || key.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("--rdzv-conf: '{}' is not KEY=VALUE", printable(part)),
                  "for example join_timeout=600,last_call_timeout=10");
    if (key != "join_timeout" && key != "last_call_timeout") {
      GPUWARDEN_TRY(std::string sentence, needless_key(key));
      times.needless.push_back(std::move(sentence));
      continue;
    }
    const auto seconds = parse_number(trim(part.substr(equals + 1)));
    if (!seconds || *seconds <= 0 || *seconds > 1e9)
      return fail(ErrorCode::invalid_argument, fmt::format("--rdzv-conf: {} '{}' is not a number of seconds", key,
                                                           printable(part.substr(equals + 1))));
    (key == "join_timeout" ? times.join : times.last_call) =
        std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
  }
  return times;
}

}  // namespace gpuwarden::cli
