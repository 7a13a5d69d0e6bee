// SPDX-License-Identifier: Apache-2.0
// Small PyTorch snapshots, as JSON and as pickles of every protocol.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpuwarden::testing {

using Json = nlohmann::json;

inline Json event(const std::string& action, std::uint64_t address, std::uint64_t size, std::uint64_t stream = 0,
                  std::int64_t time_us = 1'700'000'000'000'000) {
  return {{"action", action},
          {"addr", address},
          {"size", size},
          {"stream", stream},
          {"time_us", time_us},
          {"compile_context", "N/A"},
          {"frames", {{{"filename", "train.py"}, {"line", 7}, {"name", "step"}}}}};
}

/// Vectors, because Json{one} is a copy of `one`, no list.
inline Json snapshot(const std::vector<Json>& events, const std::vector<Json>& segments = {}) {
  return {{"segments", Json(segments)},
          {"device_traces", Json::array({Json(events)})},
          {"allocator_settings", {{"max_split_size", -1}, {"threshold", 0.5}, {"expandable", false}, {"x", nullptr}}}};
}

inline Json segment(std::uint64_t address, std::uint64_t size, Json blocks, unsigned device = 0) {
  return {{"device", device}, {"address", address}, {"total_size", size}, {"stream", 0}, {"blocks", std::move(blocks)}};
}

inline Json block(std::uint64_t size, std::uint64_t requested, const std::string& state) {
  return {{"size", size}, {"requested_size", requested}, {"state", state}, {"frames", Json::array()}};
}

/// Writes values as Python does: protocol 0 in lines of text, 2 with numbered memos, 4 and 5 with MEMOIZE.
class PickleWriter {
 public:
  explicit PickleWriter(int protocol) : protocol_(protocol) {}

  std::string write(const Json& value) {
    if (protocol_ >= 2) out_ += '\x80', out_ += static_cast<char>(protocol_);
    add(value);
    return out_ + '.';
  }

 private:
  void little(std::uint64_t number, int width) {
    for (int i = 0; i < width; ++i) out_ += static_cast<char>(number >> (8 * i));
  }
  void keep() {
    const std::size_t index = memos_++;
    if (protocol_ >= 4)
      out_ += '\x94';
    else if (protocol_ == 0)
      out_ += "p" + std::to_string(index) + "\n";
    else
      out_ += 'r', little(index, 4);
  }
  void text(const std::string& word) {
    if (const auto known = words_.find(word); known != words_.end()) {
      if (protocol_ == 0)
        out_ += "g" + std::to_string(known->second) + "\n";
      else
        out_ += 'j', little(known->second, 4);
      return;
    }
    if (protocol_ == 0)
      out_ += "V" + word + "\n";
    else if (protocol_ >= 4)
      out_ += '\x8c', little(word.size(), 1), out_ += word;
    else
      out_ += 'X', little(word.size(), 4), out_ += word;
    words_[word] = memos_;
    keep();
  }
  void number(std::int64_t value) {
    if (protocol_ == 0)
      out_ += "L" + std::to_string(value) + "L\n";
    else if (value >= 0 && value < 256)
      out_ += 'K', little(static_cast<std::uint64_t>(value), 1);
    else if (value >= INT32_MIN && value <= INT32_MAX)
      out_ += 'J', little(static_cast<std::uint64_t>(value), 4);
    else
      out_ += '\x8a', little(8, 1), little(static_cast<std::uint64_t>(value), 8);
  }
  void list(const Json& value) {
    out_ += protocol_ == 0 ? "(l" : "]";
    keep();
    if (protocol_ >= 2) out_ += '(';
    for (const Json& item : value) {
      add(item);
      if (protocol_ == 0) out_ += 'a';
    }
    if (protocol_ >= 2) out_ += 'e';
  }
  void dictionary(const Json& value) {
    out_ += protocol_ == 0 ? "(d" : "}";
    keep();
    if (protocol_ >= 2) out_ += '(';
    for (const auto& [key, item] : value.items()) {
      text(key);
      add(item);
      if (protocol_ == 0) out_ += 's';
    }
    if (protocol_ >= 2) out_ += 'u';
  }
  void add(const Json& value) {
    if (value.is_object()) return dictionary(value);
    if (value.is_array()) return list(value);
    if (value.is_string()) return text(value.get<std::string>());
    if (value.is_number_integer()) return number(value.get<std::int64_t>());
    if (value.is_number_float())
      out_ += protocol_ == 0 ? "F0.5\n" : std::string("G\x3f\xe0\0\0\0\0\0\0", 9);
    else if (value.is_boolean())
      out_ += protocol_ == 0 ? "I00\n" : "\x89";
    else
      out_ += 'N';
  }

  int protocol_;
  std::string out_;
  std::size_t memos_ = 0;
  std::map<std::string, std::size_t> words_;
};

inline std::string pickle(const Json& value, int protocol) { return PickleWriter(protocol).write(value); }

}  // namespace gpuwarden::testing
