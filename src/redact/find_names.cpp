// SPDX-License-Identifier: Apache-2.0
// Finds the names that names.cpp has learned, and those that tell themselves: mail, UUIDs, addresses.
#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "redact/name_places.hpp"
#include "redact/names.hpp"

namespace gpuwarden::redact {

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

}  // namespace gpuwarden::redact
