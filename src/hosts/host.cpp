// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::hosts {
namespace {

constexpr std::int64_t kMostGpus = 4096;
constexpr std::string_view kSlots = "slots=";

std::unexpected<Error> wrong(std::string what, std::string hint = "HOST or HOST:GPUS, for example a,b:4") {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
}

bool is_name(std::string_view name) {
  constexpr std::string_view kMarks = "._-@:%+";
  return !name.empty() && name[0] != '-' && name[0] != '.' && std::ranges::all_of(name, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kMarks.contains(c);
  });
}

Result<std::uint32_t> count_of(std::string_view text, std::string_view host) {
  const auto count = parse_integer(text);
  if (count && *count > 0 && *count <= kMostGpus) return static_cast<std::uint32_t>(*count);
  return wrong(fmt::format("'{}' is not a number of GPUs of host '{}'", printable(text), printable(host)));
}

Result<Host> parse_host(std::string_view word) {
  Host host;
  std::string_view name = word;
  std::string_view count;
  if (word.starts_with('[')) {
    const std::size_t end = word.find(']');
    if (end == std::string_view::npos) return wrong(fmt::format("'{}' has no closing ']'", printable(word)));
    name = word.substr(1, end - 1);
    count = word.substr(end + 1);
    if (!count.empty() && count[0] != ':') return wrong(fmt::format("'{}' is not a host", printable(word)));
  } else if (std::ranges::count(word, ':') == 1) {  // more are an address of IPv6
    name = word.substr(0, word.find(':'));
    count = word.substr(name.size());
  }
  if (!is_name(name)) return wrong(fmt::format("'{}' is not a host", printable(word)));
  host.name = name;
  if (!count.empty()) {
    GPUWARDEN_TRY(host.gpus, count_of(count.substr(1), name));
  }
  return host;
}

Result<void> add(Host host, std::vector<Host>& hosts) {
  if (std::ranges::find(hosts, host.name, &Host::name) != hosts.end())
    return wrong(fmt::format("host '{}' is listed twice", host.name), "each host once, with the number of its GPUs");
  hosts.push_back(std::move(host));
  return {};
}

Result<Host> parse_line(std::string_view line) {
  const auto words = split_words(line);
  GPUWARDEN_TRY(Host host, parse_host(words[0]));
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!words[i].starts_with(kSlots) || host.gpus)
      return wrong(fmt::format("'{}' is unexpected", printable(words[i])), "HOST, HOST:GPUS or HOST slots=GPUS");
    GPUWARDEN_TRY(host.gpus, count_of(words[i].substr(kSlots.size()), host.name));
  }
  return host;
}

}  // namespace

Result<std::vector<Host>> parse_hosts(std::span<const std::string> words) {
  std::vector<Host> hosts;
  for (const std::string& word : words) {
    GPUWARDEN_TRY(Host host, parse_host(word));
    GPUWARDEN_CHECK(add(std::move(host), hosts));
  }
  if (hosts.empty()) return wrong("no host is given");
  return hosts;
}

Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view name) {
  std::vector<Host> hosts;
  int number = 0;
  for (const std::string_view whole : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(whole.substr(0, whole.find('#')));
    if (line.empty()) continue;
    auto host = parse_line(line);
    const auto added = host ? add(std::move(*host), hosts) : std::unexpected(std::move(host).error());
    if (!added)
      return wrong(fmt::format("{}:{}: {}", printable(name), number, added.error().message), added.error().hint);
  }
  if (hosts.empty()) return wrong(fmt::format("{} lists no host", printable(name)));
  return hosts;
}

Result<Environment> parse_variables(const std::vector<std::string>& words, const Environment& own) {
  Environment variables;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto here = own.find(name);
    if (name.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' has no name", printable(word)), "--env NAME=VALUE");
    if (equals == std::string::npos && here == own.end())
      return fail(ErrorCode::invalid_argument, fmt::format("{} is not set here", printable(name)),
                  "--env NAME=VALUE sets it");
    variables[name] = equals == std::string::npos ? here->second : word.substr(equals + 1);
  }
  return variables;
}

}  // namespace gpuwarden::hosts
