// SPDX-License-Identifier: Apache-2.0
#include "serve/encoding.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::serve {
namespace {

/// Shorter texts go in one packet anyhow.
constexpr std::size_t kWorthIt = 1400;
/// Metrics shrink to a twentieth at the lowest level already, in a third of the usual level's time.
constexpr int kQuickly = Z_BEST_SPEED;
constexpr int kGzipFormat = 16;

std::string in_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped.push_back(c);
    }
  }
  return escaped;
}

bool is_text(std::string_view type) { return type.starts_with("text/") || type.starts_with("application/"); }

/// The q of one entry ("gzip;q=0.5"); 1 where there is none.
double weight_of(std::string_view entry) {
  const std::size_t at = entry.find(';');
  const std::string_view parameter = at == std::string_view::npos ? "" : trim(entry.substr(at + 1));
  if (!parameter.starts_with("q=")) return 1;
  return parse_number(trim(parameter.substr(2))).value_or(0);
}

}  // namespace

bool takes_gzip(std::string_view accept_encoding) {
  bool any = false;
  for (const std::string_view entry : split(accept_encoding, ',')) {
    const std::string name = to_lower(trim(entry.substr(0, entry.find(';'))));
    if (name == "gzip" || name == "x-gzip") return weight_of(entry) > 0;
    if (name == "*") any = weight_of(entry) > 0;
  }
  return any;
}

std::string gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, kQuickly, Z_DEFLATED, MAX_WBITS + kGzipFormat, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string packed(deflateBound(&stream, text.size()), '\0');
  // zlib does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(whole ? stream.total_out : 0);
  deflateEnd(&stream);
  return packed;
}

void compress(Response& response, const Request& request) {
  if (response.stream || !is_text(response.type)) return;
  response.headers.emplace_back("Vary", "Accept-Encoding");
  const bool packed =
      std::ranges::any_of(response.headers, [](const auto& h) { return h.first == "Content-Encoding"; });
  if (packed || response.body.size() < kWorthIt || !takes_gzip(request.header("accept-encoding"))) return;
  std::string body = gzip(response.body);
  if (body.empty()) return;
  response.body = std::move(body);
  response.headers.emplace_back("Content-Encoding", "gzip");
}

void make_readable(Response& response, const Request& request) {
  const bool for_people = request.header("accept").find("text/html") != std::string_view::npos;
  if (response.status < 400 || !for_people || request.path.starts_with("/api/")) return;
  const auto json = nlohmann::json::parse(response.body, nullptr, false);
  if (!json.is_object() || !json.contains("error")) return;
  const auto text_at = [&](const char* key) { return in_html(json["error"].value(key, "")); };
  const std::string title = fmt::format("{} {}", response.status, reason_of(response.status));
  response.type = "text/html; charset=utf-8";
  response.body = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}: gpuwarden</title></head>\n"
      "<body><h1>{0}</h1><p>{1}</p><p>{2}</p><p><a href=\"/\">to the overview</a></p></body></html>\n",
      title, text_at("message"), text_at("hint"));
}

}  // namespace gpuwarden::serve
