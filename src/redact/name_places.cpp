// SPDX-License-Identifier: Apache-2.0
#include "redact/name_places.hpp"

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

/// Accounts and machines of this name are everywhere: they tell nothing, and their names are ordinary words.
constexpr auto kCommonNames = std::to_array<std::string_view>(
    {"root",      "nobody",    "daemon",    "bin",     "sys",       "sync",   "mail",     "systemd", "ubuntu",
     "debian",    "admin",     "user",      "users",   "test",      "guest",  "gpu",      "cuda",    "nvidia",
     "python",    "python3",   "torch",     "data",    "docker",    "slurm",  "ray",      "jovyan",  "work",
     "vagrant",   "ec2-user",  "azureuser", "runner",  "default",   "none",   "linux",    "local",   "host",
     "localhost", "home",      "shared",    "public",  "kernel",    "model",  "models",   "train",   "gdm",
     "username",  "hostname",  "node",      "worker",  "all",       "null",   "true",     "false",   "unknown",
     "other",     "app",       "build",     "busy",    "available", "lost",   "disabled", "conda",   "miniconda3",
     "git",       "anaconda3", "spack",     "com",     "org",       "net",    "edu",      "gov",     "internal",
     "lan",       "example",   "cluster",   "compute", "server",    "str",    "string",   "self",    "args",
     "config",    "socket",    "optional",  "memory",  "cpu",       "device", "pinned"});

bool is_name_character(char c) { return is_word(c) || c == '-' || c == '.'; }

}  // namespace

bool is_telling(std::string_view name) {
  return name.size() >= 3 && std::ranges::any_of(name, is_letter) &&
         std::ranges::find(kCommonNames, to_lower(name)) == kCommonNames.end();
}

std::string_view name_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && end - at < 64 && is_name_character(text[end])) ++end;
  while (end > at && (text[end - 1] == '.' || text[end - 1] == '-')) --end;
  return text.substr(at, end - at);
}

std::string_view name_before(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && at - begin < 64 && (is_name_character(text[begin - 1]) || text[begin - 1] == '+')) --begin;
  return text.substr(begin, at - begin);
}

bool is_dotted_number(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return is_digit(c) || c == '.'; });
}

std::string_view serial_in(std::string_view line) {
  for (std::size_t at = 0; at + 6 < line.size(); ++at) {
    if (!has_at(line, at, "serial")) continue;
    const std::size_t separator = line.find_first_of(":=>", at);
    if (separator == std::string_view::npos || separator - at > 40) return {};
    const std::string_view value = trim(line.substr(separator + 1, line.find('<', separator) - separator - 1));
    const std::string_view name = name_at(value, 0);
    return name.size() >= 6 && std::ranges::count_if(name, is_digit) >= 4 ? name : std::string_view{};
  }
  return {};
}

std::string_view host_in(std::string_view line) {
  const bool typical = line.starts_with("Linux ") || (line.size() > 20 && line[3] == ' ' && line[9] == ':');
  if (!typical) return {};
  const auto words = split_words(line.substr(0, 160));
  if (words.size() >= 4 && words[0] == "Linux" && words[2].contains('.') && is_digit(words[2][0])) return words[1];
  if (words.size() < 5 || words[0].size() != 3 || words[2].size() < 8 || words[2][2] != ':' || words[2][5] != ':')
    return {};
  const std::string_view speaker = words[4];
  return speaker == "kernel:" || speaker.contains("]:") || speaker == "systemd:" ? words[3] : std::string_view{};
}

}  // namespace gpuwarden::redact
