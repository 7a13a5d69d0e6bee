// SPDX-License-Identifier: Apache-2.0
#include "redact/secret_names.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

using Words = std::vector<std::string>;

constexpr std::array<std::string_view, 25> kSecretWords{
    "dbpass",        "dbpwd",         "userpass",      "hftoken",      "ghtoken", "rootpass",     "password",
    "passwd",        "passphrase",    "passcode",      "secret",       "apikey",  "accesskey",    "secretkey",
    "privatekey",    "authtoken",     "accesstoken",   "refreshtoken", "idtoken", "sessiontoken", "clientsecret",
    "identitytoken", "registrytoken", "encryptionkey", "sshpass"};
/// What makes a "key" a secret one.
constexpr std::array<std::string_view, 26> kSecretKeys{
    "tls",     "rsa",        "jwt",     "vault",        "api",    "access",  "secret",  "private", "auth",
    "account", "encryption", "encrypt", "signing",      "master", "shared",  "storage", "ssh",     "app",
    "license", "service",    "hmac",    "subscription", "aes",    "session", "wandb",   "client"};
/// What names end with that are written together: "PGPASSWORD", "dbpassword".
constexpr std::array<std::string_view, 5> kSecretEndings{"password", "passwd", "passphrase", "apikey", "secretkey"};
/// And what ends so without a secret: "NOPASSWD: ALL" of sudo.
constexpr std::array<std::string_view, 2> kNoSecrets{"nopasswd", "nopassword"};
/// In front of a "pass" or "pwd" in small letters; a "forward_pass" is something else.
constexpr std::array<std::string_view, 26> kPassOwners{
    "db",   "database", "user",  "become", "ssh",  "sudo", "admin",   "root",    "mysql",
    "pg",   "postgres", "redis", "smtp",   "mail", "ldap", "login",   "ftp",     "auth",
    "http", "proxy",    "mongo", "vault",  "key",  "cert", "account", "rabbitmq"};
/// Behind these a "token" is a piece of text.
constexpr std::array<std::string_view, 34> kTextTokens{
    "pad",    "eos",    "bos",     "unk",        "sep",   "cls",    "mask",   "eot",    "next",
    "image",  "stop",   "special", "per",        "max",   "min",    "new",    "first",  "last",
    "prompt", "start",  "end",     "decoder",    "audio", "video",  "begin",  "prefix", "suffix",
    "middle", "target", "total",   "unexpected", "input", "output", "invalid"};
/// Behind these it lets somebody in.
constexpr std::array<std::string_view, 27> kAccessTokens{
    "api",   "access", "auth", "bearer", "refresh",     "session",      "csrf",     "xsrf",     "security",
    "hf",    "hub",    "gh",   "github", "gitlab",      "slack",        "wandb",    "bot",      "user",
    "login", "deploy", "join", "node",   "huggingface", "registration", "personal", "identity", "secret"};
/// What may follow without making it something else.
constexpr std::array<std::string_view, 11> kForms{"base", "data", "value", "base64", "b64", "string",
                                                  "str",  "raw",  "plain", "hash",   "enc"};

/// "HFToken", "hf_token", "hf-token", "hf.token": the words, in lower case.
Words words_of(std::string_view name) {
  Words words(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool after_lower = i > 0 && (is_lower(name[i - 1]) || is_digit(name[i - 1]));
    const bool before_lower = i > 0 && is_upper(name[i - 1]) && i + 1 < name.size() && is_lower(name[i + 1]);
    const bool starts = !is_alnum(c) || (is_upper(c) && (after_lower || before_lower));
    if (starts && !words.back().empty()) words.emplace_back();
    if (is_alnum(c)) words.back() += is_upper(c) ? static_cast<char>(c + 32) : c;
  }
  if (words.back().empty()) words.pop_back();
  const auto is_number = [](const std::string& word) { return std::ranges::all_of(word, is_digit); };
  while (words.size() > 1 && (is_number(words.back()) || is_among(kForms, words.back()))) words.pop_back();
  return words;
}

bool is_all_upper(std::string_view name) {
  return std::ranges::none_of(name, is_lower) && std::ranges::any_of(name, is_upper);
}

Secrecy of_token(std::string_view previous, std::string_view name) {
  if (is_among(kTextTokens, previous)) return Secrecy::none;
  if (is_among(kAccessTokens, previous)) return Secrecy::certain;
  return is_all_upper(name) && !previous.empty() ? Secrecy::certain : Secrecy::likely;
}

}  // namespace

Secrecy secrecy_of(std::string_view name) {
  if (name.size() > 128) return Secrecy::none;
  const Words words = words_of(name);
  if (words.empty()) return Secrecy::none;
  const std::string& last = words.back();
  const std::string_view previous = words.size() > 1 ? std::string_view(words[words.size() - 2]) : "";
  const std::string_view third = words.size() > 2 ? std::string_view(words[words.size() - 3]) : "";
  if (is_among(kNoSecrets, last)) return Secrecy::none;
  if (is_among(kSecretWords, last)) return Secrecy::certain;
  if (std::ranges::any_of(kSecretEndings, [&](std::string_view ending) { return last.ends_with(ending); }))
    return Secrecy::certain;
  if (last == "key" && is_among(kSecretKeys, previous)) return Secrecy::certain;
  // AWS_ACCESS_KEY_ID
  if (last == "id" && previous == "key" && third == "access") return Secrecy::certain;
  if (last == "token") return of_token(previous, name);
  if (last == "credential" || last == "credentials") return Secrecy::certain;
  if ((last == "pass" || last == "pwd") && !previous.empty() && previous != "old" &&
      (is_all_upper(name) || is_among(kPassOwners, previous)))
    return Secrecy::certain;
  if (last == "key" && is_all_upper(name) && !previous.empty()) return Secrecy::likely;
  if (last == "auth" || last == "cookie" || last == "pwd" || last == "pat" || last == "dsn") return Secrecy::likely;
  return Secrecy::none;
}

bool is_placeholder(std::string_view value) {
  static constexpr std::array<std::string_view, 25> kNothing{
      "",         "null",    "none",   "nil",   "true",      "false",    "yes",  "no",     "on",
      "off",      "0",       "1",      "unset", "undefined", "redacted", "str",  "string", "required",
      "optional", "missing", "(null)", "(null", "(none)",    "(none",    "empty"};
  if (value.size() <= 9 && is_among(kNothing, to_lower(value))) return true;
  if (value.starts_with('$') || value.starts_with("{{") || value.starts_with("%(") || value.starts_with('<'))
    return true;
  if (value.starts_with(kRemoved) || value.starts_with("[removed")) return true;
  return std::ranges::all_of(value, [](char c) { return c == '*' || c == 'x' || c == 'X' || c == '.' || c == '-'; });
}

bool is_path(std::string_view value) {
  if (!value.starts_with('/') && !value.starts_with("~/") && !value.starts_with("./")) return false;
  static constexpr std::array<std::string_view, 12> kFolders{"home", "etc", "run", "var",  "root",    "usr",
                                                             "opt",  "tmp", "mnt", "data", "secrets", "Users"};
  // Base64 may begin with a slash too; a path has a known first folder, or a dot somewhere.
  const auto parts = split(value, '/');
  return value.contains('.') || (parts.size() > 2 && is_among(kFolders, parts[1]));
}

bool is_login_in_base64(std::string_view value) {
  while (value.ends_with('=')) value.remove_suffix(1);
  if (value.size() < 4 || value.size() > 4096) return false;
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned bits = 0;
  unsigned count = 0;
  bool colon = false;
  for (const char c : value) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return false;
    bits = (bits << 6U | static_cast<unsigned>(digit)) & 0xFFFFU;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    const unsigned byte = (bits >> count) & 0xFFU;
    if (byte < 0x20 || byte == 0x7F) return false;
    colon = colon || byte == ':';
  }
  return colon;
}

bool is_secret_value(std::string_view name, std::string_view value) {
  const Secrecy secrecy = secrecy_of(name);
  if (secrecy == Secrecy::none || is_placeholder(value) || is_path(value)) return false;
  return secrecy == Secrecy::certain || looks_random(value) ||
         (to_lower(name).ends_with("auth") && is_login_in_base64(value));
}

bool is_secret_name(std::string_view name) { return secrecy_of(name) == Secrecy::certain; }

std::vector<std::string> secret_values(const Environment& environment) {
  std::vector<std::string> values;
  for (const auto& [name, value] : environment) {
    if (is_secret_value(name, value)) values.push_back(value);
  }
  return values;
}

}  // namespace gpuwarden::redact
