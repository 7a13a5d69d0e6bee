// SPDX-License-Identifier: Apache-2.0
#include "setup/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::setup {
namespace {

/// Accounts and machines of this name are everywhere: they tell nothing, and their names are ordinary words.
constexpr auto kCommonNames = std::to_array<std::string_view>(
    {"root",      "nobody",    "daemon",    "bin",     "sys",       "sync",  "mail",     "systemd", "ubuntu",
     "debian",    "admin",     "user",      "users",   "test",      "guest", "gpu",      "cuda",    "nvidia",
     "python",    "python3",   "torch",     "data",    "docker",    "slurm", "ray",      "jovyan",  "work",
     "vagrant",   "ec2-user",  "azureuser", "runner",  "default",   "none",  "linux",    "local",   "host",
     "localhost", "home",      "shared",    "public",  "kernel",    "model", "models",   "train",   "gdm",
     "username",  "hostname",  "node",      "worker",  "all",       "null",  "true",     "false",   "unknown",
     "other",     "app",       "build",     "busy",    "available", "lost",  "disabled", "conda",   "miniconda3",
     "git",       "anaconda3", "spack",     "com",     "org",       "net",   "edu",      "gov",     "internal",
     "lan",       "example",   "cluster",   "compute", "server",    "str",   "string",   "self",    "args",
     "config",    "socket",    "optional"});

constexpr std::array<std::string_view, 4> kHomeFolders{"/home/", "/Users/", "/users/", "\\Users\\"};

constexpr std::array<std::string_view, 6> kUserVariables{"USER",      "LOGNAME",        "USERNAME",
                                                         "SUDO_USER", "SLURM_JOB_USER", "JUPYTERHUB_USER"};
/// In small letters, before a ':' or a '=': "hostname: node-a12", "NodeName=gpu17".
constexpr std::array<std::string_view, 5> kHostKeys{"hostname", "nodename", "node_name", "host_name", "nodehostname"};
constexpr std::array<std::string_view, 9> kHostVariables{"HOSTNAME",          "HOST",        "SLURMD_NODENAME",
                                                         "SLURM_SUBMIT_HOST", "MASTER_ADDR", "COMPUTERNAME",
                                                         "NODE_NAME",         "NODENAME",    "RAY_HEAD_NODE"};

std::string user_stand_in(std::size_t n) { return fmt::format("user-{}", n); }
std::string host_stand_in(std::size_t n) { return fmt::format("host-{}", n); }
std::string domain_stand_in(std::size_t n) { return fmt::format("domain-{}.example", n); }
std::string serial_stand_in(std::size_t n) { return fmt::format("serial-{}", n); }
std::string ip_stand_in(std::size_t n) { return fmt::format("ip-{}", n); }
std::string mac_stand_in(std::size_t n) { return fmt::format("mac-{}", n); }
/// Of a UUID's own form, so that what reads UUIDs reads this one; the number stands first, for abbreviations.
std::string uuid_stand_in(std::size_t n) { return fmt::format("{:08x}-0000-0000-0000-000000000000", n); }

bool is_name_character(char c) { return is_word(c) || c == '-' || c == '.'; }

/// A name that may be replaced wherever it stands as a word.
bool is_telling(std::string_view name) {
  return name.size() >= 3 && std::ranges::any_of(name, is_letter) &&
         std::ranges::find(kCommonNames, to_lower(name)) == kCommonNames.end();
}

/// The name that begins at `at`.
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

/// The serial number that a line tells ("Serial Number : 132...", "<serial>132...</serial>"), or an empty one.
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

/// "Nov 20 10:00:00 node7 kernel: ..." and "Linux node7 6.1.0-18-amd64 #1 SMP": the machine's name.
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

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

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
  if (!user && !is_among(kHostVariables, name) && !is_among(kHostKeys, to_lower(name))) return;
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
  else if (!user)
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

/// A list has a stand-in of its own: how many hosts it means is no secret, but their numbers are names.
void Redactor::Names::find_lists(std::string_view text, Spans& spans) {
  for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at + 1)) {
    const auto list = host_list_at(text, at);
    if (list)
      spans.push_back(
          {list->begin, list->end, Removed::host, hosts_.of(text.substr(list->begin, list->end - list->begin))});
  }
}

/// Known names as words of their own: one pass over the text, whatever their number.
void Redactor::Names::find_words(std::string_view text, Spans& spans) {
  struct Kind {
    const StandIns* names;
    Removed kind;
  };
  const std::array<Kind, 4> kinds{
      {{&domains_, Removed::domain}, {&hosts_, Removed::host}, {&users_, Removed::user}, {&serials_, Removed::serial}}};
  for (const Kind& kind : kinds) {
    const StandIns::Visit add = [&](std::string_view name, std::size_t at, const std::string& stand_in) {
      // A serial number may be all digits: no word, but long enough to be nothing else.
      const bool serial = kind.kind == Removed::serial && name.size() >= 6;
      if (serial || is_telling(name)) spans.push_back({at, at + name.size(), kind.kind, stand_in});
    };
    for (std::size_t at = next_word(text, 0); at < text.size();) {
      const std::size_t end = end_of_word(text, at);
      kind.names->find_at(text, at, end, add);
      at = next_word(text, end);
    }
    kind.names->find_odd(text, add);
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

void Redactor::Names::find_paths(std::string_view text, std::string_view folder, Spans& spans) {
  for (std::size_t at = text.find(folder); at != std::string_view::npos; at = text.find(folder, at + 1)) {
    const std::size_t begin = at + folder.size();
    const std::string_view name = name_at(text, begin);
    if (!name.empty() && users_.knows(name))
      spans.push_back({begin, begin + name.size(), Removed::user, users_.of(name)});
  }
}

/// Addresses of mail: "jane.doe@lab.example.org" tells who and where.
void Redactor::Names::find_mail(std::string_view text, Spans& spans) {
  for (std::size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    const std::string_view user = name_before(text, at);
    const std::string_view domain = name_at(text, at + 1);
    const std::size_t begin = at - user.size();
    if (user.empty() || domain.empty() || user == "git" || before(text, begin) == '/') continue;
    const std::string_view top = domain.substr(domain.rfind('.') + 1);
    const bool mail = domain.contains('.') && top.size() >= 2 && std::ranges::all_of(top, is_letter);
    if (!mail && !hosts_.knows(domain) && !users_.knows(user)) continue;
    if (is_telling(user) || users_.knows(user)) spans.push_back({begin, at, Removed::user, users_.of(user)});
    if (mail) spans.push_back({at + 1, at + 1 + domain.size(), Removed::domain, domains_.of(domain)});
  }
}

/// What stands for a UUID, or for a beginning of one as CUDA_VISIBLE_DEVICES takes it.
std::optional<std::string> Redactor::Names::uuid_stand_in_of(const std::string& name, bool ends_word) {
  if (uuids_.knows(name)) return uuids_.of(name);
  if (auto known = name.size() >= 2 ? uuids_.of_beginning(name) : std::nullopt) return known;
  const bool hex = name.size() >= 8 && std::ranges::all_of(name, [](char c) { return is_hex(c) || c == '-'; });
  return hex && ends_word ? std::optional(uuids_.of(name)) : std::nullopt;
}

/// "GPU-xxxxxxxx-...", "MIG-...".
void Redactor::Names::find_uuids(std::string_view text, std::string_view type, Spans& spans) {
  for (std::size_t at = text.find(type); at != std::string_view::npos; at = text.find(type, at + type.size())) {
    const std::size_t begin = at + type.size();
    std::size_t end = begin;
    while (end < text.size() && end - begin < 40 && (is_alnum(text[end]) || text[end] == '-')) ++end;
    while (end > begin && text[end - 1] == '-') --end;
    const std::string name = to_lower(text.substr(begin, end - begin));
    if (const auto stand_in = uuid_stand_in_of(name, !is_word(at_or_end(text, end))))
      spans.push_back({begin, end, Removed::gpu_uuid, *stand_in});
  }
}

void Redactor::Names::find_addresses(std::string_view text, Spans& spans) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((!is_hex(text[at]) && text[at] != ':') || is_word(before(text, at))) continue;
    const std::size_t mac = mac_at(text, at);
    const std::size_t ip = mac > 0 ? 0 : std::max(ipv4_at(text, at), ipv6_at(text, at));
    const std::size_t length = std::max(mac, ip);
    if (length == 0) continue;
    const std::string address = to_lower(text.substr(at, length));
    if (!is_common_address(address))
      spans.push_back({at, at + length, mac > 0 ? Removed::mac_address : Removed::ip_address,
                       mac > 0 ? macs_.of(address) : ips_.of(address)});
    at += length - 1;
  }
}

/// Where a line's place says that a word is the machine's name, however short or common it is ("vm").
void Redactor::Names::find_speakers(std::string_view text, Spans& spans) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view host = host_in(text.substr(begin, end - begin));
    if (!host.empty() && host != "localhost") {
      const auto at = static_cast<std::size_t>(host.data() - text.data());
      spans.push_back({at, at + host.size(), Removed::host, hosts_.of(host.substr(0, host.find('.')))});
    }
    begin = end + 1;
  }
}

void Redactor::Names::find(std::string_view text, bool addresses, Spans& spans) {
  find_speakers(text, spans);
  for (const auto& [home, stand_in] : homes_) {
    for (std::size_t at = text.find(home); at != std::string_view::npos; at = text.find(home, at + home.size())) {
      if (!is_word(at_or_end(text, at + home.size()))) spans.push_back({at, at + home.size(), Removed::user, stand_in});
    }
  }
  for (const std::string_view folder : kHomeFolders) find_paths(text, folder, spans);
  find_mail(text, spans);
  find_lists(text, spans);
  find_words(text, spans);
  for (const std::string_view type : {"GPU-", "MIG-"}) find_uuids(text, type, spans);
  if (addresses) find_addresses(text, spans);
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

}  // namespace gpuwarden::setup
