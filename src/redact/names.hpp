// SPDX-License-Identifier: Apache-2.0
// The stand-ins of one bundle: the same name gets the same one, whichever text it stands in.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "redact/spans.hpp"

namespace gpuwarden::redact {

/// Stand-ins of one kind, numbered in the order in which names are first met.
class StandIns {
 public:
  using Format = std::string (*)(std::size_t number);
  explicit StandIns(Format format) : format_(format) {}

  /// The name's stand-in, a new one where it has none.
  const std::string& of(std::string_view name);
  /// That of the only known name with this beginning.
  std::optional<std::string> of_beginning(std::string_view beginning) const;
  bool knows(std::string_view name) const { return known_.contains(name); }

  /// Takes a name, where it begins, and its stand-in.
  using Visit = std::function<void(std::string_view name, std::size_t at, const std::string& stand_in)>;
  /// The known names that begin with the word text[at, end) and end with a word. One look-up for most words, however
  /// many names there are.
  void find_at(std::string_view text, std::size_t at, std::size_t end, const Visit& visit) const;
  /// The known names that begin or end with a letter beyond ASCII, which no look-up of words finds.
  void find_odd(std::string_view text, const Visit& visit) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };
  Format format_;
  std::map<std::string, std::string, std::less<>> known_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> words_;  ///< first word -> most words of a name
  std::vector<std::string> odd_;
};

/// Where the next word begins, and where the one at `at` ends.
std::size_t next_word(std::string_view text, std::size_t at);
std::size_t end_of_word(std::string_view text, std::size_t at);

/// What the names of a bundle are.
class Redactor::Names {
 public:
  explicit Names(const Identities& identities);
  void learn(std::string_view text);
  void find(std::string_view text, bool addresses, Spans& spans);
  /// For values whose key says what they are: "user", "host", "serial". Empty for other keys.
  std::optional<Span> whole(std::string_view key, std::string_view value);

 private:
  void add_user(std::string_view name);
  void add_host(std::string_view name);
  void add_serial(std::string_view name);
  void learn_paths(std::string_view text, std::string_view folder);
  void learn_prompts(std::string_view text);
  void learn_assignment(std::string_view line, std::size_t separator);
  void learn_line(std::string_view line);
  void learn_lists(std::string_view text);
  void learn_cloud_hosts(std::string_view text);
  void find_lists(std::string_view text, Spans& spans);
  void find_words(std::string_view text, Spans& spans);
  void find_paths(std::string_view text, std::string_view folder, Spans& spans);
  void find_speakers(std::string_view text, Spans& spans);
  void find_mail(std::string_view text, Spans& spans);
  std::optional<std::string> uuid_stand_in_of(const std::string& name, bool ends_word);
  void find_uuids(std::string_view text, std::string_view type, Spans& spans);
  void find_addresses(std::string_view text, Spans& spans);

  StandIns users_;
  StandIns hosts_;
  StandIns domains_;
  StandIns serials_;
  StandIns uuids_;
  StandIns ips_;
  StandIns macs_;
  std::map<std::string, std::string> homes_;  ///< home folder -> what stands for it
};

/// A list of hosts as Slurm writes it, "gpu-[17-20,22]": its place, and the hosts it means as far as they are few.
struct HostList {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<std::string> hosts;
};
/// Nothing where it is an array's slice, as far as that can be told.
std::optional<HostList> host_list_at(std::string_view text, std::size_t bracket);

/// The length of an address at `at`, or 0. A version number ("9.1.0.70") is none where its neighbours tell.
std::size_t ipv4_at(std::string_view text, std::size_t at);
std::size_t ipv6_at(std::string_view text, std::size_t at);
std::size_t mac_at(std::string_view text, std::size_t at);
/// Addresses that every machine has: loopback, any, broadcast, netmasks.
bool is_common_address(std::string_view address);

}  // namespace gpuwarden::redact
