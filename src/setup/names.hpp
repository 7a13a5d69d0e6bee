// SPDX-License-Identifier: Apache-2.0
// The stand-ins of one bundle: the same name gets the same one, whichever text it stands in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "setup/spans.hpp"

namespace gpuwarden::setup {

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
  const std::map<std::string, std::string, std::less<>>& all() const { return known_; }

 private:
  Format format_;
  std::map<std::string, std::string, std::less<>> known_;
};

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
  void learn_line(std::string_view line);
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

/// The length of an address at `at`, or 0. A version number ("9.1.0.70") is none where its neighbours tell.
std::size_t ipv4_at(std::string_view text, std::size_t at);
std::size_t ipv6_at(std::string_view text, std::size_t at);
std::size_t mac_at(std::string_view text, std::size_t at);
/// Addresses that every machine has: loopback, any, broadcast, netmasks.
bool is_common_address(std::string_view address);

}  // namespace gpuwarden::setup
