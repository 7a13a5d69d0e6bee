// SPDX-License-Identifier: Apache-2.0
#include "redact/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "redact/name_places.hpp"
#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

constexpr std::array<std::string_view, 6> kUserVariables{"USER",      "LOGNAME",        "USERNAME",
                                                         "SUDO_USER", "SLURM_JOB_USER", "JUPYTERHUB_USER"};
/// In small letters, before a ':' or a '=': "hostname: node-a12", "NodeName=gpu17".
constexpr std::array<std::string_view, 5> kHostKeys{"hostname", "nodename", "node_name", "host_name", "nodehostname"};
constexpr std::array<std::string_view, 9> kHostVariables{"HOSTNAME",          "HOST",        "SLURMD_NODENAME",
                                                         "SLURM_SUBMIT_HOST", "MASTER_ADDR", "COMPUTERNAME",
                                                         "NODE_NAME",         "NODENAME",    "RAY_HEAD_NODE"};

/// "host" is an ordinary word, too ("host: copying", host=cfg.address): its value counts where it is quoted, is all of
/// the line behind the key that begins it, or has what names of machines have and words have not.
bool names_host(std::string_view line, std::string_view key, std::size_t begin, std::string_view value) {
  const std::string_view behind = line.substr(begin + value.size());
  const std::string_view label = value.substr(0, value.find('.'));
  // RFC 1123, 2.1: letters, digits and hyphens.
  if (label.contains('_') || value.contains("linux")) return false;
  const bool is_quoted = is_quote(before(line, begin)) && is_quote(at_or_end(behind, 0));
  const bool is_line = trim(line).data() == key.data() && trim(behind).empty();
  const bool is_prose = !behind.empty() && is_blank(behind.front()) && !trim(behind).empty();
  const bool is_odd = std::ranges::any_of(label, [](char c) { return is_digit(c) || c == '-'; });
  return is_quoted || is_line || (is_odd && !is_prose && is_letter(at_or_end(label, 0)));
}

std::string user_stand_in(std::size_t n) { return fmt::format("user-{}", n); }
std::string host_stand_in(std::size_t n) { return fmt::format("host-{}", n); }
std::string domain_stand_in(std::size_t n) { return fmt::format("domain-{}.example", n); }
std::string serial_stand_in(std::size_t n) { return fmt::format("serial-{}", n); }
std::string ip_stand_in(std::size_t n) { return fmt::format("ip-{}", n); }
std::string mac_stand_in(std::size_t n) { return fmt::format("mac-{}", n); }
/// Of a UUID's own form, so that what reads UUIDs reads this one; the number stands first, for abbreviations.
std::string uuid_stand_in(std::size_t n) { return fmt::format("{:08x}-0000-0000-0000-000000000000", n); }

}  // namespace

Redactor::Names::Names(const Identities& identities)
    : users_(user_stand_in),
      hosts_(host_stand_in),
      domains_(domain_stand_in),
      serials_(serial_stand_in),
      uuids_(uuid_stand_in),
      ips_(ip_stand_in),
      macs_(mac_stand_in) {
  for (const std::string& user : identities.users) add_user(user);
  for (const std::string& host : identities.hosts) add_host(host);
  for (const std::string& domain : identities.domains) {
    if (domain.contains('.')) domains_.of(domain);
  }
  for (const std::string& serial : identities.serials) serials_.of(serial);
  for (const std::string& home : identities.homes) {
    if (home.size() > 4 && home != "/root" && home.find('/', 1) != std::string::npos)
      homes_.emplace(home, "/home/" + users_.of(home.substr(home.rfind('/') + 1)));
  }
  for (const std::string& uuid : identities.uuids) {
    const std::string name = to_lower(uuid);
    uuids_.of(name.starts_with("gpu-") || name.starts_with("mig-") ? name.substr(4) : name);
  }
}

void Redactor::Names::add_user(std::string_view name) {
  if (is_telling(name) || (!name.empty() && std::ranges::any_of(name, is_letter) && name.size() < 3)) users_.of(name);
}

void Redactor::Names::add_host(std::string_view name) {
  if (is_dotted_number(name)) return;
  const std::string_view label = name.substr(0, name.find('.'));
  if (is_telling(label)) hosts_.of(label);
  if (label.size() + 1 < name.size()) domains_.of(name.substr(label.size() + 1));
}

void Redactor::Names::add_serial(std::string_view name) {
  if (!name.empty()) serials_.of(name);
}

void Redactor::Names::learn_paths(std::string_view text, std::string_view folder) {
  for (std::size_t at = text.find(folder); at != std::string_view::npos; at = text.find(folder, at + 1))
    add_user(name_at(text, at + folder.size()));
}

/// "jane@node7:~$ ": who works where.
void Redactor::Names::learn_prompts(std::string_view text) {
  for (std::size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    const std::string_view user = name_before(text, at);
    const std::string_view host = name_at(text, at + 1);
    const std::size_t end = at + 1 + host.size();
    const char place = at_or_end(text, end + 1);
    const bool prompt = at_or_end(text, end) == ':' && (place == '~' || place == '/');
    if (!prompt || user.empty() || host.empty() || user == "git" || before(text, at - user.size()) == '/') continue;
    add_user(user);
    add_host(host);
  }
}

void Redactor::Names::learn_line(std::string_view line) {
  add_serial(serial_in(line));
  if (const auto host = host_in(line); !host.empty()) add_host(host);
  for (std::size_t at = line.find_first_of("=:"); at != std::string_view::npos; at = line.find_first_of("=:", at + 1))
    learn_assignment(line, at);
}

/// "HOSTNAME=box9", "hostname: node-a12", in JSON and YAML too.
void Redactor::Names::learn_assignment(std::string_view line, std::size_t separator) {
  std::size_t end = separator;
  while (end > 0 && separator - end < 4 &&
         (is_blank(line[end - 1]) || is_quote(line[end - 1]) || line[end - 1] == '\\'))
    --end;
  const std::string_view name = name_before(line, end);
  const bool user = is_among(kUserVariables, name);
  const bool sure_host = is_among(kHostVariables, name) || is_among(kHostKeys, to_lower(name));
  if (!user && !sure_host && to_lower(name) != "host") return;
  std::size_t begin = separator + 1;
  while (is_blank(at_or_end(line, begin)) || is_quote(at_or_end(line, begin)) || at_or_end(line, begin) == '\\')
    ++begin;
  const std::string_view value = name_at(line, begin);
  const std::string_view behind = line.substr(begin + value.size());
  if (behind.starts_with("://") || behind.starts_with('(') || behind.starts_with('[')) return;
  // "USER: process exited" is prose; "USER: jane" ends with the name.
  const bool prose = line[separator] == ':' && !behind.empty() && is_blank(behind.front()) && !trim(behind).empty();
  if (user && !prose)
    add_user(value);
  else if (sure_host || (!user && names_host(line, name, begin, value)))
    add_host(value);
}

/// "ip-10-1-2-3.ec2.internal": a machine's address in its name (docs.aws.amazon.com, "Amazon EC2 instance hostnames").
void Redactor::Names::learn_cloud_hosts(std::string_view text) {
  for (std::size_t at = text.find("ip-"); at != std::string_view::npos; at = text.find("ip-", at + 3)) {
    if (is_word(before(text, at))) continue;
    const std::string_view name = name_at(text, at);
    const auto parts = split(name.substr(0, name.find('.')), '-');
    const auto is_part = [](std::string_view part) {
      return !part.empty() && part.size() <= 3 && std::ranges::all_of(part, is_digit);
    };
    if (parts.size() == 5 && std::all_of(parts.begin() + 1, parts.end(), is_part)) add_host(name);
  }
}

void Redactor::Names::learn_lists(std::string_view text) {
  for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at + 1)) {
    const auto list = host_list_at(text, at);
    if (!list) continue;
    for (const std::string& host : list->hosts) add_host(host);
  }
}

void Redactor::Names::learn(std::string_view text) {
  for (const std::string_view folder : kHomeFolders) learn_paths(text, folder);
  learn_prompts(text);
  learn_cloud_hosts(text);
  learn_lists(text);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    learn_line(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::optional<Span> Redactor::Names::whole(std::string_view key, std::string_view value) {
  if (value.empty()) return std::nullopt;
  const auto span = [&](Removed kind, StandIns& names) { return Span{0, value.size(), kind, names.of(value)}; };
  if (key == "serial") return span(Removed::serial, serials_);
  const bool user = key == "user" || is_among(kUserVariables, key);
  if (user && value != "root" && !std::ranges::all_of(value, is_digit)) return span(Removed::user, users_);
  const bool host = key == "host" || key == "hostname" || is_among(kHostVariables, key);
  if (!host || value == "localhost" || is_dotted_number(value)) return std::nullopt;
  return span(Removed::host, hosts_);
}

}  // namespace gpuwarden::redact
