// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/redact/redact.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "redact/names.hpp"
#include "redact/secret_names.hpp"
#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

using Json = nlohmann::json;

constexpr std::pair<Removed, std::string_view> kKinds[] = {{Removed::token, "access token"},
                                                           {Removed::private_key, "PEM block"},
                                                           {Removed::url_credentials, "credentials in a URL"},
                                                           {Removed::header, "authorization header"},
                                                           {Removed::named_value, "value of a secret name"},
                                                           {Removed::known_value, "value of a secret variable"},
                                                           {Removed::user, "user name"},
                                                           {Removed::host, "host name"},
                                                           {Removed::ip_address, "IP address"},
                                                           {Removed::mac_address, "MAC address"},
                                                           {Removed::gpu_uuid, "GPU UUID"},
                                                           {Removed::serial, "serial number"},
                                                           {Removed::domain, "domain"}};

void find_secrets(std::string_view text, std::span<const std::string> known, Spans& spans) {
  find_private_keys(text, spans);
  find_known_values(text, known, spans);
  find_tokens(text, spans);
  find_url_credentials(text, spans);
  find_headers(text, spans);
  find_named_values(text, spans);
  find_option_values(text, spans);
  find_settings(text, spans);
}

Spans secrets_in(std::string_view text, std::span<const std::string> known) {
  Spans spans;
  const Plain plain(text, Joint::blank);
  find_secrets(plain.text(), known, spans);
  plain.move_back(spans);
  if (!plain.coloured()) return spans;
  Spans more;
  const Plain joined(text, Joint::nothing);
  find_secrets(joined.text(), known, more);
  joined.move_back(more);
  spans.insert(spans.end(), more.begin(), more.end());
  return spans;
}

/// A whole value that is four numbers is a version, unless its key says that it is an address.
bool may_hold_addresses(std::string_view key, std::string_view value) {
  if (ipv4_at(value, 0) != value.size()) return true;
  const std::string name = to_lower(key);
  static constexpr std::array<std::string_view, 6> kAddressKeys{"addr", "host", "value", "gateway", "server", "master"};
  return name == "ip" || std::ranges::any_of(kAddressKeys, [&](std::string_view part) { return name.contains(part); });
}

}  // namespace

std::string_view to_string(Removed kind) {
  const auto* const found = std::ranges::find(kKinds, kind, &std::pair<Removed, std::string_view>::first);
  return found != std::end(kKinds) ? found->second : "?";
}

Redacted redact_secrets(std::string_view text, std::span<const std::string> known) {
  Redacted result;
  result.text = replace(text, secrets_in(text, known), result.removed);
  return result;
}

Redactor::Redactor(std::vector<std::string> known, const Identities* identities)
    : known_(std::move(known)), names_(identities != nullptr ? std::make_unique<Names>(*identities) : nullptr) {}
Redactor::Redactor(Redactor&&) noexcept = default;
Redactor& Redactor::operator=(Redactor&&) noexcept = default;
Redactor::~Redactor() = default;

bool Redactor::anonymizes() const { return names_ != nullptr; }

void Redactor::learn(std::string_view text) {
  if (names_) names_->learn(Plain(text, Joint::blank).text());
}

void Redactor::add_names(std::string_view text, bool addresses, Spans& spans) {
  if (!names_) return;
  const Plain plain(text, Joint::blank);
  Spans found;
  names_->find(plain.text(), addresses, found);
  plain.move_back(found);
  spans.insert(spans.end(), found.begin(), found.end());
}

std::string Redactor::redact(std::string_view text, Removals& removed) {
  Spans spans = secrets_in(text, known_);
  add_names(text, true, spans);
  return replace(text, std::move(spans), removed);
}

namespace {

/// Walks a document with the key each value stands under.
template <class Visit>
void walk(Json& value, const std::string& key, const Visit& visit) {
  if (value.is_string()) {
    visit(key, value);
  } else if (value.is_array()) {
    for (Json& element : value) walk(element, key, visit);
  } else if (value.is_object()) {
    // {"name": "HF_TOKEN", "value": "..."}: the name is another member.
    const auto name = value.find("name");
    const bool named = name != value.end() && name->is_string() && value.contains("value");
    const std::string given = named ? name->get<std::string>() : std::string();
    for (auto& [member, inner] : value.items()) walk(inner, named && member == "value" ? given : member, visit);
  }
}

}  // namespace

void Redactor::redact(Json& document, Removals& removed) {
  walk(document, "", [&](const std::string& key, Json& value) {
    const auto& text = value.get_ref<const std::string&>();
    Spans spans;
    if (is_secret_value(key, text)) spans.push_back({0, text.size(), Removed::named_value});
    if (const auto whole = names_ ? names_->whole(key, text) : std::nullopt) spans.push_back(*whole);
    if (spans.empty()) {
      spans = secrets_in(text, known_);
      add_names(text, may_hold_addresses(key, text), spans);
    }
    if (!spans.empty()) value = replace(text, std::move(spans), removed);
  });
}

}  // namespace gpuwarden::redact
