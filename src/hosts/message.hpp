// SPDX-License-Identifier: Apache-2.0
// Messages on the wire: a line of JSON each, behind some of them bytes as they are.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/hosts/values.hpp"

namespace gpuwarden::hosts {

using Json = nlohmann::json;

struct Message {
  std::string type;
  Json head;
  std::string body;  ///< bytes of a program's output: need not be text
};

/// {"type": type, ...head} in a line; with `body` its length is told and the bytes follow.
std::string encode(std::string_view type, Json head = Json::object(), std::string_view body = {});

/// Puts messages together again from pieces of any size. Bounded: a line of kLongestLine, a body of kLongestBody.
class MessageReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{64} << 20U;
  static constexpr std::size_t kLongestBody = std::size_t{1} << 20U;
  void add(std::string_view bytes) { kept_ += bytes; }
  /// The next whole message; nothing: more has to come. Fails with corrupt.
  Result<std::optional<Message>> next();
  /// The next whole line, which is no message yet: what stands before the first one.
  std::optional<std::string> next_line();
  /// Whether what comes next looks like a message.
  bool at_message() const { return at_ < kept_.size() && kept_[at_] == '{'; }

 private:
  void tidy();
  std::string kept_;
  std::size_t at_ = 0;
  std::size_t searched_ = 0;  ///< so far no end of a line was found
  std::optional<Message> begun_;
  std::size_t missing_ = 0;  ///< of its body
};

Json to_json(const Order& order);
Json to_json(const Held& held);
Json to_json(const Meeting& meeting);
Json to_json(const Reach& reach);
Json to_json(const Start& start);
Json to_json(const Done& done);
/// Read back what to_json wrote; fail with corrupt, naming the key.
Result<Order> order_from_json(const Json& json);
Result<Held> held_from_json(const Json& json);
Result<Meeting> meeting_from_json(const Json& json);
Result<Reach> reach_from_json(const Json& json);
Result<Start> start_from_json(const Json& json);
Result<Done> done_from_json(const Json& json);
/// {"code", "message", "hint"}, as facts::to_json(Error) writes it.
Error error_from_json(const Json& json);

/// A whole number of a message; empty where there is none.
std::optional<std::int64_t> number_in(const Json& json, const char* key);
std::string text_in(const Json& json, const char* key);

}  // namespace gpuwarden::hosts
