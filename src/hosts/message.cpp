// SPDX-License-Identifier: Apache-2.0
#include "hosts/message.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::hosts {
namespace {

Error not_a_message(std::string_view line) {
  constexpr std::size_t kShown = 80;
  return {ErrorCode::corrupt, fmt::format("'{}' is not a message of gpuwarden's", printable(line.substr(0, kShown))),
          "does a start file of the shell there print something?"};
}

}  // namespace

std::string encode(std::string_view type, Json head, std::string_view body) {
  head["type"] = type;
  if (!body.empty()) head["bytes"] = body.size();
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  text += body;
  return text;
}

void MessageReader::tidy() {
  constexpr std::size_t kWorthMoving = 65536;
  if (at_ < kWorthMoving && at_ < kept_.size()) return;
  kept_.erase(0, at_);
  searched_ -= std::min(searched_, at_);
  at_ = 0;
}

std::optional<std::string> MessageReader::next_line() {
  const std::size_t end = kept_.find('\n', std::max(at_, searched_));
  searched_ = kept_.size();
  if (end == std::string::npos) return std::nullopt;
  std::string line = kept_.substr(at_, end - at_);
  at_ = searched_ = end + 1;
  tidy();
  return line;
}

Result<std::optional<Message>> MessageReader::next() {
  if (!begun_) {
    const auto line = next_line();
    if (!line && kept_.size() - at_ > kLongestLine) return std::unexpected(not_a_message(kept_.substr(at_, 80)));
    if (!line) return std::nullopt;
    Message message;
    message.head = Json::parse(*line, nullptr, false);
    message.type = text_in(message.head, "type");
    if (message.type.empty()) return std::unexpected(not_a_message(*line));
    const std::int64_t bytes = number_in(message.head, "bytes").value_or(0);
    if (bytes < 0 || bytes > static_cast<std::int64_t>(kLongestBody)) return std::unexpected(not_a_message(*line));
    missing_ = static_cast<std::size_t>(bytes);
    begun_ = std::move(message);
  }
  if (kept_.size() - at_ < missing_) return std::nullopt;
  begun_->body = kept_.substr(at_, missing_);
  at_ += missing_;
  searched_ = at_;
  tidy();
  auto whole = std::move(*begun_);
  begun_.reset();
  return whole;
}

std::optional<std::int64_t> number_in(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

std::string text_in(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() || !found->is_string() ? "" : found->get<std::string>();
}

}  // namespace gpuwarden::hosts
