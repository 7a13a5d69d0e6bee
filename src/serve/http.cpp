// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/json_text.hpp"

namespace gpuwarden::serve {
namespace {

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// Undoes %-escapes, and '+' for a blank in queries.
Result<std::string> decode(std::string_view text, bool plus_is_blank) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
      const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
      if (!high || !low) return fail(ErrorCode::invalid_argument, "the request has a broken %-escape");
      c = static_cast<char>(*high * 16 + *low);
      i += 2;
    } else if (c == '+' && plus_is_blank) {
      c = ' ';
    }
    if (is_control(c)) return fail(ErrorCode::invalid_argument, "the request has a control character in its target");
    decoded.push_back(c);
  }
  return decoded;
}

struct Reason {
  int status;
  std::string_view words;
};
constexpr auto kReasons = std::to_array<Reason>({
    {200, "OK"},
    {204, "No Content"},
    {303, "See Other"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {409, "Conflict"},
    {421, "Misdirected Request"},
    {429, "Too Many Requests"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
});

/// "2026-11-23T13:04:05Z", with or without a fraction.
std::optional<std::chrono::system_clock::time_point> utc_from(std::string_view text) {
  if (text.size() < 20 || text.back() != 'Z' || text[4] != '-' || text[7] != '-' || text[10] != 'T' ||
      text[13] != ':' || text[16] != ':')
    return std::nullopt;
  const auto year = parse_integer(text.substr(0, 4));
  const auto month = parse_integer(text.substr(5, 2));
  const auto day = parse_integer(text.substr(8, 2));
  const auto hour = parse_integer(text.substr(11, 2));
  const auto minute = parse_integer(text.substr(14, 2));
  const auto second = parse_number(text.substr(17, text.size() - 18));
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *year < 1970 || *year > 2100 || *year > 2100 || *hour < 0 || *hour > 23 || *minute < 0 ||
      *minute > 59 || *second < 0 || *second >= 61)
    return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
         std::chrono::milliseconds(std::llround(*second * 1000));
}

}  // namespace

std::string_view to_string(Method method) {
  return method == Method::get ? "GET" : method == Method::post ? "POST" : "another method";
}

Result<Fields> parse_query(std::string_view text) {
  Fields fields;
  if (text.empty()) return fields;
  for (const std::string_view piece : split(text, '&')) {
    if (piece.empty()) continue;
    const std::size_t equals = piece.find('=');
    GPUWARDEN_TRY(std::string name, decode(piece.substr(0, equals), true));
    GPUWARDEN_TRY(std::string value,
                  decode(equals == std::string_view::npos ? std::string_view() : piece.substr(equals + 1), true));
    fields.emplace_back(std::move(name), std::move(value));
  }
  return fields;
}

Result<Target> parse_target(std::string_view text) {
  if (text.size() > kLongestTarget)
    return fail(ErrorCode::invalid_argument,
                fmt::format("the request's target is longer than {} bytes", kLongestTarget));
  if (!text.starts_with('/')) return fail(ErrorCode::invalid_argument, "the request's target is not a path");
  text = text.substr(0, text.find('#'));
  const std::size_t mark = text.find('?');
  Target target;
  GPUWARDEN_TRY(target.path, decode(text.substr(0, mark), false));
  if (mark != std::string_view::npos) {
    GPUWARDEN_TRY(target.query, parse_query(text.substr(mark + 1)));
  }
  for (const std::string_view part : split(target.path, '/')) {
    if (part == "..") return fail(ErrorCode::invalid_argument, "the request's path goes up");
  }
  return target;
}

std::string_view Request::header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &std::pair<std::string, std::string>::first);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<std::string> Request::parameter(std::string_view name) const {
  const auto found = std::ranges::find(query, name, &std::pair<std::string, std::string>::first);
  return found == query.end() ? std::nullopt : std::optional(found->second);
}

std::string_view reason_of(int status) {
  const auto* const found = std::ranges::find(kReasons, status, &Reason::status);
  return found == kReasons.end() ? "Unknown" : found->words;
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 400;
    case ErrorCode::permission_denied:
      return 403;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::unsatisfied:
      return 409;
    case ErrorCode::unavailable:
    case ErrorCode::interrupted:
      return 503;
    case ErrorCode::timed_out:
      return 504;
    case ErrorCode::corrupt:
    case ErrorCode::failed:
      return 500;
  }
  return 500;
}

Response text_answer(int status, std::string text) {
  Response response;
  response.status = status;
  response.body = std::move(text);
  return response;
}

Response json_answer(const nlohmann::json& document, int status) {
  Response response;
  response.status = status;
  response.type = "application/json";
  response.body = facts::json_line(document);
  return response;
}

Response error_answer(const Error& error, std::optional<int> status) {
  return json_answer(facts::document({{"error", facts::to_json(error)}}), status.value_or(status_of(error.code)));
}

Result<std::chrono::system_clock::time_point> parse_moment(std::string_view text,
                                                           std::chrono::system_clock::time_point now) {
  constexpr double kMostSeconds = 4e9;
  if (text == "now") return now;
  if (text.starts_with('-')) {
    GPUWARDEN_TRY(const auto before, parse_duration(text.substr(1)));
    return now - before;
  }
  if (const auto moment = utc_from(text)) return *moment;
  if (const auto seconds = parse_number(text); seconds && *seconds >= 0 && *seconds <= kMostSeconds) {
    return std::chrono::system_clock::time_point(std::chrono::milliseconds(std::llround(*seconds * 1000)));
  }
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a time", printable(text)),
              "seconds since 1970, 2026-11-23T13:04:05Z, or a time before now such as -15m");
}

}  // namespace gpuwarden::serve
