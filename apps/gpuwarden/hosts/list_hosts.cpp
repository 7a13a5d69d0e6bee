// SPDX-License-Identifier: Apache-2.0
#include "hosts/list_hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/cluster/json.hpp"
#include "gpuwarden/cluster/trouble.hpp"
#include "gpuwarden/hosts/look.hpp"
#include "gpuwarden/jobs/on_hosts.hpp"
#include "options.hpp"
#include "render/gpu_table.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

/// What is not each host's to heed.
constexpr auto kOwnOfList =
    std::to_array<std::string_view>({"hosts", "hostfile", "ssh", "remote-program", "json", "color"});

Result<void> check_list_of_hosts(const Args& args) {
  const char* const given = args.has("hosts") ? "hosts" : "hostfile";
  for (const char* option : {"gpu", "processes", "watch", "count", "format", "fields", "from"}) {
    if (args.has(option))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} and --{} cannot be used together", given, option),
                  "gpuwarden top --peers shows many machines live");
  }
  return {};
}

}  // namespace

Result<int> list_hosts(const Context& context, const Style& style) {
  GPUWARDEN_CHECK(check_list_of_hosts(context.args));
  hosts::LookRequest request;
  GPUWARDEN_TRY(request.hosts, jobs::hosts_from(context.args));
  GPUWARDEN_TRY(request.ssh, jobs::ssh_from(context.args, context.environment));
  GPUWARDEN_TRY(const auto timeout, duration_option(context.args, "timeout"));
  if (timeout) request.patience += *timeout;
  request.version = GPUWARDEN_VERSION;
  request.options = option_words(context, kOwnOfList);
  const auto links = hosts::start_links();
  GPUWARDEN_TRY(const auto nodes, hosts::look(request, *links, system_clock()));
  if (context.args.has("json"))
    print_json(cluster::to_json(nodes));
  else
    fmt::print("{}", hosts_table(nodes, style));
  if (std::ranges::any_of(nodes, [](const cluster::Node& node) { return node.problem.has_value(); }))
    return kUnavailable;
  return std::ranges::any_of(nodes, cluster::has_gpu_in_trouble) ? kNo : kFine;
}

}  // namespace gpuwarden::cli
