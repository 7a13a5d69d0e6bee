// SPDX-License-Identifier: Apache-2.0
// Secrets that are known by their shape, wherever they stand.
#include <algorithm>
#include <array>

#include "redact/spans.hpp"

namespace gpuwarden::redact {
namespace {

enum class Body {
  alnum,     ///< letters and digits
  word,      ///< and '_'
  url_safe,  ///< and '-', '_'
  base64,    ///< and '+', '/', '=', '-', '_', '.'
  upper,     ///< capital letters and digits
  hex,
};

/// A prefix that an issuer puts before its tokens. `least` and `most` count what follows it.
struct Shape {
  std::string_view prefix;
  Body body;
  std::size_t least;
  std::size_t most;
  bool must_look_random = false;  ///< the prefix alone could begin an ordinary word
};

constexpr std::size_t kAny = 4096;

/// Shorter values of secret variables could be anything; from the second length on they are no part of other words.
constexpr std::size_t kShortestKnown = 5;
constexpr std::size_t kShortestAnywhere = 8;

// Sources: GitHub's, GitLab's, Slack's, AWS's and Stripe's documentation of their token formats; the lists of known
// prefixes that GitHub's secret scanning publishes (docs.github.com, "Supported secret scanning patterns"). Lengths are
// lower bounds, since issuers lengthen their tokens and never shorten them.
constexpr auto kShapes = std::to_array<Shape>({
    {"hf_", Body::alnum, 20, kAny, true},
    {"api_org_", Body::alnum, 20, kAny, true},
    {"ghp_", Body::alnum, 30, kAny},
    {"gho_", Body::alnum, 30, kAny},
    {"ghu_", Body::alnum, 30, kAny},
    {"ghs_", Body::alnum, 30, kAny},
    {"ghr_", Body::alnum, 30, kAny},
    {"github_pat_", Body::word, 20, kAny},
    {"glpat-", Body::base64, 20, kAny},
    {"gldt-", Body::url_safe, 20, kAny},
    {"glrt-", Body::base64, 20, kAny},
    {"glcbt-", Body::url_safe, 20, kAny},
    {"glptt-", Body::url_safe, 20, kAny},
    {"gloas-", Body::url_safe, 20, kAny},
    {"sk-proj-", Body::url_safe, 20, kAny},
    {"sk-ant-", Body::url_safe, 20, kAny},
    {"sk-svcacct-", Body::url_safe, 20, kAny},
    {"sk-admin-", Body::url_safe, 20, kAny},
    {"sk-None-", Body::url_safe, 20, kAny},
    {"sk-or-", Body::url_safe, 20, kAny},
    {"sk-lf-", Body::url_safe, 20, kAny},
    {"sk-", Body::url_safe, 20, kAny, true},
    {"sess-", Body::alnum, 30, kAny, true},
    {"wandb_v1_", Body::word, 20, kAny},
    {"xoxb-", Body::url_safe, 10, kAny},
    {"xoxp-", Body::url_safe, 10, kAny},
    {"xoxa-", Body::url_safe, 10, kAny},
    {"xoxr-", Body::url_safe, 10, kAny},
    {"xoxs-", Body::url_safe, 10, kAny},
    {"xoxe-", Body::url_safe, 10, kAny},
    {"xoxe.", Body::base64, 10, kAny},
    {"xoxc-", Body::url_safe, 10, kAny},
    {"xoxd-", Body::base64, 10, kAny},
    {"xapp-", Body::url_safe, 10, kAny},
    {"AKIA", Body::upper, 16, 16},
    {"ASIA", Body::upper, 16, 16},
    {"ABIA", Body::upper, 16, 16},
    {"ACCA", Body::upper, 16, 16},
    {"AIza", Body::url_safe, 35, 35},
    {"ya29.", Body::url_safe, 20, kAny},
    {"GOCSPX-", Body::url_safe, 20, kAny},
    {"sk_live_", Body::alnum, 16, kAny},
    {"sk_test_", Body::alnum, 16, kAny},
    {"rk_live_", Body::alnum, 16, kAny},
    {"rk_test_", Body::alnum, 16, kAny},
    {"whsec_", Body::base64, 20, kAny},
    {"npm_", Body::alnum, 36, kAny, true},
    {"pypi-", Body::url_safe, 50, kAny},
    {"dckr_pat_", Body::url_safe, 20, kAny},
    {"dckr_oat_", Body::url_safe, 20, kAny},
    {"nvapi-", Body::url_safe, 40, kAny},
    {"dapi", Body::hex, 32, 34},
    {"dop_v1_", Body::hex, 40, kAny},
    {"doo_v1_", Body::hex, 40, kAny},
    {"r8_", Body::alnum, 36, kAny},
    {"gsk_", Body::alnum, 30, kAny},
    {"pplx-", Body::alnum, 30, kAny},
    {"xai-", Body::alnum, 40, kAny},
    {"tskey-", Body::url_safe, 16, kAny},
    {"hvs.", Body::url_safe, 20, kAny},
    {"hvb.", Body::url_safe, 20, kAny},
    {"SG.", Body::base64, 40, kAny, true},
    {"lin_api_", Body::alnum, 30, kAny},
    {"sntrys_", Body::base64, 30, kAny},
    {"shpat_", Body::hex, 30, kAny},
    {"rpa_", Body::alnum, 40, kAny},
    {"AGE-SECRET-KEY-1", Body::upper, 40, kAny},
});

bool fits(Body body, char c) {
  switch (body) {
    case Body::alnum:
      return is_alnum(c);
    case Body::word:
      return is_word(c);
    case Body::url_safe:
      return is_word(c) || c == '-';
    case Body::base64:
      return is_word(c) || std::string_view("+/=-.").contains(c);
    case Body::upper:
      return is_upper(c) || is_digit(c);
    case Body::hex:
      return is_hex(c);
  }
  return false;
}

std::size_t run_length(std::string_view text, std::size_t at, Body body) {
  std::size_t length = 0;
  while (length < kAny && at + length < text.size() && fits(body, text[at + length])) ++length;
  return length;
}

/// The length of the token that begins at `at`, or 0.
std::size_t token_at(std::string_view text, std::size_t at) {
  for (const Shape& shape : kShapes) {
    if (!text.substr(at).starts_with(shape.prefix)) continue;
    const std::size_t from = at + shape.prefix.size();
    const std::size_t length = run_length(text, from, shape.body);
    if (length < shape.least || length > shape.most) continue;
    if (shape.must_look_random && !looks_random(text.substr(from, length))) continue;
    // "sk-" also begins names of files and packages with many hyphens: those are words, not letters drawn by lot.
    if (shape.prefix == "sk-" && run_length(text, from, Body::alnum) < 16) continue;
    return shape.prefix.size() + length;
  }
  return 0;
}

/// A JSON web token, or JSON in base64 alone ("eyJ" is '{"'): three parts, or one long one.
std::size_t web_token_at(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("eyJ")) return 0;
  std::size_t length = run_length(text, at, Body::url_safe);
  if (length < 16) return 0;
  int parts = 1;
  while (parts < 5 && at_or_end(text, at + length) == '.') {
    const std::size_t part = run_length(text, at + length + 1, Body::url_safe);
    if (part == 0) break;
    length += part + 1;
    ++parts;
  }
  if (parts == 1 && length < 40) return 0;
  while (at_or_end(text, at + length) == '=') ++length;
  return length;
}

/// "123456789:AA...": a Telegram bot's (core.telegram.org/bots, "Obtain Your Bot Token").
std::size_t bot_token_at(std::string_view text, std::size_t at) {
  std::size_t digits = 0;
  while (digits < 11 && is_digit(at_or_end(text, at + digits))) ++digits;
  if (digits < 8 || digits > 10 || !text.substr(at + digits).starts_with(":AA")) return 0;
  const std::size_t body = run_length(text, at + digits + 1, Body::url_safe);
  return body == 35 ? digits + 1 + body : 0;
}

/// The part of a webhook's address that lets anybody post.
std::size_t find_webhook(std::string_view text, std::size_t from, Spans& spans) {
  static constexpr std::array<std::string_view, 4> kHooks{"hooks.slack.com/services/", "discord.com/api/webhooks/",
                                                          "discordapp.com/api/webhooks/",
                                                          "webhook.office.com/webhookb2/"};
  std::size_t next = std::string_view::npos;
  for (const std::string_view hook : kHooks) {
    const std::size_t at = text.find(hook, from);
    if (at >= next) continue;
    next = at;
    const std::size_t begin = at + hook.size();
    std::size_t end = begin;
    while (end < text.size() && (is_word(text[end]) || text[end] == '/' || text[end] == '-' || text[end] == '@')) ++end;
    if (end > begin) spans.push_back({begin, end, Removed::token});
  }
  return next;
}

/// Whether a token may begin here: also behind a line end that another program has escaped ("...\\nhf_...").
bool begins_word(std::string_view text, std::size_t at) {
  const char previous = before(text, at);
  if (!is_word(previous)) return true;
  return at >= 2 && text[at - 2] == '\\' && (previous == 'n' || previous == 'r' || previous == 't');
}

constexpr bool begins_shape(char c) {
  return c == 'e' || is_digit(c) ||
         std::ranges::any_of(kShapes, [c](const Shape& shape) { return shape.prefix[0] == c; });
}

constexpr auto kBegins = [] {
  std::array<bool, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = begins_shape(static_cast<char>(i));
  return table;
}();

}  // namespace

void find_tokens(std::string_view text, Spans& spans) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!kBegins[static_cast<unsigned char>(text[at])] || !begins_word(text, at)) continue;
    std::size_t length = token_at(text, at);
    if (length == 0) length = web_token_at(text, at);
    if (length == 0) length = bot_token_at(text, at);
    if (length == 0) continue;
    spans.push_back({at, at + length, Removed::token});
    at += length - 1;
  }
  for (std::size_t at = find_webhook(text, 0, spans); at != std::string_view::npos;)
    at = find_webhook(text, at + 1, spans);
}

void find_known_values(std::string_view text, std::span<const std::string> known, Spans& spans) {
  for (const std::string& value : known) {
    if (value.size() < kShortestKnown) continue;
    const bool short_one = value.size() < kShortestAnywhere;
    for (std::size_t at = text.find(value); at != std::string_view::npos; at = text.find(value, at + value.size())) {
      const std::size_t end = at + value.size();
      if (short_one && (!begins_word(text, at) || is_word(at_or_end(text, end)))) continue;
      spans.push_back({at, end, Removed::known_value});
    }
  }
}

}  // namespace gpuwarden::redact
