// SPDX-License-Identifier: Apache-2.0
// The values of the wire as JSON, both ways from one list of their fields.
#include <fmt/format.h>

#include <limits>
#include <type_traits>

#include "hosts/message.hpp"

namespace gpuwarden::hosts {
namespace {

Json value_json(const std::string& text) { return text; }
Json value_json(bool flag) { return flag; }
Json value_json(const Uuid& uuid) { return uuid.value; }
Json value_json(std::chrono::milliseconds time) { return time.count(); }
Json value_json(const Environment& variables) { return variables; }
template <class T>
  requires std::is_integral_v<T>
Json value_json(T number) {
  return number;
}
template <class T>
Json value_json(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(value_json(value));
  return list;
}
template <class T>
Json value_json(const std::optional<T>& value) {
  return value ? value_json(*value) : Json();
}

bool read_value(const Json& json, std::string& text) {
  if (!json.is_string()) return false;
  text = json.get<std::string>();
  return true;
}
bool read_value(const Json& json, bool& flag) {
  if (!json.is_boolean()) return false;
  flag = json.get<bool>();
  return true;
}
bool read_value(const Json& json, Uuid& uuid) { return read_value(json, uuid.value); }
template <class T>
  requires std::is_integral_v<T>
bool read_value(const Json& json, T& number) {
  if (!json.is_number_integer()) return false;
  const auto value = json.get<std::int64_t>();
  if (value < std::numeric_limits<T>::min() || value > std::int64_t{std::numeric_limits<T>::max()}) return false;
  number = static_cast<T>(value);
  return true;
}
bool read_value(const Json& json, std::chrono::milliseconds& time) {
  if (!json.is_number_integer()) return false;
  time = std::chrono::milliseconds(json.get<std::int64_t>());
  return true;
}
bool read_value(const Json& json, Environment& variables) {
  if (!json.is_object()) return false;
  for (const auto& [name, value] : json.items()) {
    if (!read_value(value, variables[name])) return false;
  }
  return true;
}
template <class T>
bool read_value(const Json& json, std::vector<T>& values) {
  if (!json.is_array()) return false;
  for (const Json& entry : json) {
    T value{};
    if (!read_value(entry, value)) return false;
    values.push_back(std::move(value));
  }
  return true;
}
template <class T>
bool read_value(const Json& json, std::optional<T>& value) {
  return json.is_null() || read_value(json, value.emplace());
}

/// Each value's fields, once for both directions.
template <class Fields>
void fields(Order& order, Fields& with) {
  with("run_id", order.run_id);
  with("nodes", order.nodes);
  with("options", order.options);
  with("command", order.command);
  with("environment", order.environment);
  with("folder", order.folder);
  with("needs_folder", order.needs_folder);
  with("without", order.without);
}
template <class Fields>
void fields(Held& held, Fields& with) {
  with("gpus", held.gpus);
  with("name", held.name);
  with("ranks", held.ranks);
  with("simulated", held.simulated);
}
template <class Fields>
void fields(Meeting& meeting, Fields& with) {
  with("port", meeting.port);
  with("addresses", meeting.addresses);
  with("word", meeting.word);
}
template <class Fields>
void fields(Reach& reach, Fields& with) {
  with("address", reach.address);
  with("problem", reach.problem);
}
template <class Fields>
void fields(Start& start, Fields& with) {
  with("node", start.node);
  with("nodes", start.nodes);
  with("first_rank", start.first_rank);
  with("world_size", start.world_size);
  with("address", start.address);
  with("port", start.port);
  with("job", start.job);
  with("restart_count", start.restart_count);
  with("max_restarts", start.max_restarts);
  with("arguments", start.arguments);
  with("changes", start.changes);
  with("time_left_ms", start.time_left);
  with("time_ends_job", start.time_ends_job);
  with("time_signal", start.time_signal);
  with("time_signal_before_ms", start.time_signal_before);
}
template <class Fields>
void fields(Done& done, Fields& with) {
  with("exit_code", done.exit_code);
  with("first_failure", done.first_failure);
  with("wall_ms", done.wall_time);
  with("interrupted", done.interrupted);
  with("restart", done.restart);
  with("why", done.why);
  with("gpus_at_fault", done.gpus_at_fault);
  with("remedy", done.remedy);
  with("text", done.text);
  with("report", done.report);
}

template <class T>
Json written(const T& value) {
  Json json = Json::object();
  T copy = value;
  const auto write = [&](const char* key, const auto& field) { json[key] = value_json(field); };
  fields(copy, write);
  return json;
}

template <class T>
Result<T> read_back(const Json& json) {
  T value;
  const char* wrong = nullptr;
  const auto read = [&](const char* key, auto& field) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (wrong == nullptr && (found == json.end() || !read_value(*found, field))) wrong = key;
  };
  fields(value, read);
  if (wrong != nullptr) return fail(ErrorCode::corrupt, fmt::format("a message without a proper '{}'", wrong));
  return value;
}

}  // namespace

Json to_json(const Order& order) { return written(order); }
Json to_json(const Held& held) { return written(held); }
Json to_json(const Meeting& meeting) { return written(meeting); }
Json to_json(const Reach& reach) { return written(reach); }
Json to_json(const Start& start) { return written(start); }
Json to_json(const Done& done) { return written(done); }

Result<Order> order_from_json(const Json& json) { return read_back<Order>(json); }
Result<Held> held_from_json(const Json& json) { return read_back<Held>(json); }
Result<Meeting> meeting_from_json(const Json& json) { return read_back<Meeting>(json); }
Result<Reach> reach_from_json(const Json& json) { return read_back<Reach>(json); }
Result<Start> start_from_json(const Json& json) { return read_back<Start>(json); }
Result<Done> done_from_json(const Json& json) { return read_back<Done>(json); }

Error error_from_json(const Json& json) {
  Error error{ErrorCode::failed, text_in(json, "message"), text_in(json, "hint")};
  for (int i = 0; i <= static_cast<int>(ErrorCode::failed); ++i) {
    if (to_string(static_cast<ErrorCode>(i)) == text_in(json, "code")) error.code = static_cast<ErrorCode>(i);
  }
  return error;
}

}  // namespace gpuwarden::hosts
