// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/capture/kernel_log.hpp"

#include <algorithm>

#include "capture/lines.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

/// The text between `left` and `right` after `from`; nothing where either is missing.
std::optional<std::string_view> between(std::string_view text, std::string_view left, std::string_view right) {
  const std::size_t begin = text.find(left);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = text.find(right, begin + left.size());
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(begin + left.size(), end - begin - left.size());
}

std::optional<Pid> pid_of(std::string_view text) {
  const auto word = between(text, "pid=", ",");
  if (!word) return std::nullopt;
  std::string_view digits = *word;
  if (digits.starts_with('\'') && digits.ends_with('\'') && digits.size() > 1)
    digits = digits.substr(1, digits.size() - 2);
  const auto pid = parse_integer(digits);
  return pid && *pid > 0 && *pid <= INT32_MAX ? std::optional(Pid{static_cast<std::int32_t>(*pid)}) : std::nullopt;
}

/// "Xid (PCI:0000:9b:00): 119, pid=..., text" from the "Xid" or "SXid" on. The comma behind the code proves that no
/// digit is missing; without a text, the line's end does.
std::optional<facts::KernelFault> fault_of(const Line& line) {
  const std::string_view text = line.text;
  const std::size_t at = text.find("Xid (");
  if (at == std::string_view::npos) return std::nullopt;
  facts::KernelFault fault;
  fault.kind = at > 0 && text[at - 1] == 'S' ? "sxid" : "xid";
  const std::string_view rest = text.substr(at);
  const auto place = between(rest, "(", ")");
  const std::size_t colon = rest.find("):");
  if (!place || colon == std::string_view::npos) return std::nullopt;
  const std::string_view behind = trim(rest.substr(colon + 2));
  const std::size_t digits = std::min(behind.find_first_not_of("0123456789"), behind.size());
  const auto code = parse_integer(behind.substr(0, digits));
  const bool complete = digits < behind.size() || line.ended;
  if (!code || *code < 0 || *code > 1'000'000 || !complete) return std::nullopt;
  fault.code = static_cast<std::uint32_t>(*code);
  // Before driver 319 or so the place stood without "PCI:".
  const std::string_view bus = place->starts_with("PCI:") ? place->substr(4) : *place;
  if (bus.contains(':')) fault.pci_bus_id = printable(bus);
  std::string_view words = trim(behind.substr(digits));
  if (words.starts_with(',')) words = trim(words.substr(1));
  fault.text = printable(words);
  fault.pid = pid_of(words);
  fault.line = line.number;
  return fault;
}

/// The word behind `label`, without a full stop or comma at its end.
std::optional<std::string> version_after(std::string_view text, std::string_view label) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  const auto words = split_words(text.substr(at + label.size()));
  if (words.empty()) return std::nullopt;
  std::string_view word = words[0];
  while (word.ends_with('.') || word.ends_with(',')) word.remove_suffix(1);
  return printable(word);
}

void read_board(std::string_view text, KernelLog& log) {
  if (const auto place = between(text, "GPU at PCI:", ": GPU-")) {
    const std::size_t uuid = text.find("GPU-");
    log.boards.push_back({printable(*place), printable(trim(text.substr(uuid))), {}});
  }
  const std::size_t serial = text.find("GPU Board Serial Number:");
  if (serial != std::string_view::npos && !log.boards.empty())
    log.boards.back().serial = printable(trim(text.substr(serial + 24)));
}

/// "nvidia-nvswitch1: SXid": the device's name.
std::optional<std::string> switch_of(std::string_view text) {
  const std::size_t at = text.find("nvidia-nvswitch");
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", at + 15), text.size());
  return std::string(text.substr(at, end - at));
}

/// The name before " kernel: " in syslog's and journalctl's lines, or before the bar of parallel shells.
std::optional<std::string> host_of(std::string_view text) {
  const std::size_t kernel = text.find(" kernel:");
  const std::size_t bar = text.find(" | ");
  const auto words = split_words(text.substr(0, kernel != std::string_view::npos ? kernel : bar));
  if (words.empty() || (kernel == std::string_view::npos && (bar == std::string_view::npos || words.size() != 1)))
    return std::nullopt;
  const std::string_view name = words.back();
  const bool plain = name.find_first_of("[]:,;()") == std::string_view::npos;
  return plain ? std::optional(printable(name)) : std::nullopt;
}

}  // namespace

bool is_kernel_line(std::string_view line) {
  return line.contains("NVRM:") || line.contains("nvidia-nvswitch") || line.contains("Xid (PCI:");
}

KernelLog read_kernel_log(std::string_view text) {
  KernelLog log;
  for (const Line& line : lines_of(text)) {
    if (!is_kernel_line(line.text)) continue;
    // A parallel shell's prefix names the host; a rank's number does not.
    const bool by_name = !line.speaker.empty() && parse_integer(line.speaker) == std::nullopt;
    if (log.host.empty()) log.host = host_of(line.text).value_or(by_name ? printable(line.speaker) : "");
    if (auto fault = fault_of(line)) {
      const auto name = fault->kind == "sxid" ? switch_of(line.text) : std::nullopt;
      if (name && std::ranges::find(log.nvswitches, *name) == log.nvswitches.end()) log.nvswitches.push_back(*name);
      log.faults.push_back(std::move(*fault));
      continue;
    }
    if (!log.client_version) log.client_version = version_after(line.text, "client has the version");
    if (!log.module_version) log.module_version = version_after(line.text, "kernel module has the version");
    read_board(line.text, log);
  }
  return log;
}

}  // namespace gpuwarden::capture
