// SPDX-License-Identifier: Apache-2.0
#include "hosts/hosts_text.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/healing/judgement.hpp"
#include "render/gpu_table.hpp"

namespace gpuwarden::cli {
namespace {

std::string place_text(const hosts::Held& held) {
  if (held.gpus.empty()) return "the CPU";
  std::string gpus;
  for (const std::uint32_t gpu : held.gpus) gpus += fmt::format("{}{}", gpus.empty() ? "" : ", ", gpu);
  return fmt::format("GPU {} ({})", gpus, printable(short_name(held.name)));
}

/// Each line of a host's own text behind `indent` blanks, safe to print.
std::string indented(std::string_view text, std::size_t indent) {
  std::string result;
  for (const std::string_view line : split(text, '\n')) {
    if (!trim(line).empty()) result += std::string(indent, ' ') + printable(line) + "\n";
  }
  return result;
}

std::string first_text(const hosts::HostsTry& one) {
  if (!one.failed_host) return "";
  const hosts::HostEnd& host = one.hosts[*one.failed_host];
  if (!host.lost.empty() && !host.done) return "";  // said below
  return one.failed_rank ? fmt::format("  rank {} on {} failed first\n", *one.failed_rank, host.host.name)
                         : fmt::format("  {} failed first\n", host.host.name);
}

std::string host_text(const hosts::HostEnd& end) {
  if (!end.done) return fmt::format("  {}: {}\n", end.host.name, printable(end.lost));
  return fmt::format("  {}: exit code {}\n", end.host.name, end.done->exit_code) + indented(end.done->text, 2);
}

}  // namespace

std::string hosts_start_text(const std::vector<hosts::HostEnd>& hosts, const hosts::Start& first) {
  const bool simulated = !hosts.empty() && hosts[0].held.simulated;
  std::string text = fmt::format("gpuwarden: {}{} on {}, run {}\n", simulated ? "[simulated] " : "",
                                 first.world_size == 1 ? "1 rank" : fmt::format("{} ranks", first.world_size),
                                 hosts.size() == 1 ? "1 host" : fmt::format("{} hosts", hosts.size()), first.job);
  for (const hosts::HostEnd& host : hosts)
    text +=
        fmt::format("  {}: {} on {}\n", host.host.name,
                    host.held.ranks == 1 ? "1 rank" : fmt::format("{} ranks", host.held.ranks), place_text(host.held));
  return text;
}

std::string hosts_try_text(const hosts::HostsTry& one) {
  std::string text = fmt::format("\ngpuwarden: try {} ended with exit code {} after {}: {}\n", one.number + 1,
                                 one.exit_code, format_duration(one.wall_time), printable(one.decision));
  text += first_text(one);
  if (!one.restarts) return text;
  text +=
      fmt::format("  starting again on the same hosts in {:.1f} s", std::chrono::duration<double>(one.pause).count());
  for (const auto& [name, value] : one.changes)
    text += fmt::format(", with {}={}", name,
                        value == healing::kInterface ? "(each host's own interface)" : printable(value));
  return text + "\n";
}

std::string hosts_report_text(const hosts::HostsReport& report) {
  const hosts::HostsTry& last = report.last;
  const bool simulated = !last.hosts.empty() && last.hosts[0].held.simulated;
  std::string text =
      fmt::format("\ngpuwarden: {}{} after {}, exit code {}\n", simulated ? "[simulated figures] " : "",
                  last.exit_code == 0 ? "finished" : "ended", format_duration(last.wall_time), last.exit_code);
  text += first_text(last);
  for (const hosts::HostEnd& host : last.hosts) text += host_text(host);
  return text;
}

}  // namespace gpuwarden::cli
