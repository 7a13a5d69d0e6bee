// SPDX-License-Identifier: Apache-2.0
// A record's fields as bare bytes, in the order of its description (archive.hpp): a hundredth of JSON's time, between
// two processes of one program. Nobody else's bytes are read: there are no names, and no versions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "facts/archive.hpp"

namespace gpuwarden::facts {

template <class T>
inline constexpr bool kIsTimePoint = std::is_same_v<T, std::chrono::system_clock::time_point>;
template <class T>
concept NamedValue = std::is_same_v<T, Uuid> || std::is_same_v<T, GpuIndex> || std::is_same_v<T, Pid> || kIsQuantity<T>;

class PackWriter {
 public:
  static constexpr bool kReads = false;
  explicit PackWriter(std::string& bytes) : bytes_(bytes) {}

  template <class T>
  void field(std::string_view, const T& value) {
    put(value);
  }

 private:
  template <class T>
  void put_raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  template <class T>
  void put(const T& value) {
    if constexpr (NamedValue<T>) {
      put(value.value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      put_raw(value);
    } else if constexpr (kIsTimePoint<T>) {
      put_raw(value.time_since_epoch().count());
    } else if constexpr (std::is_same_v<T, std::string>) {
      put_raw(static_cast<std::uint32_t>(value.size()));
      bytes_.append(value);
    } else if constexpr (kIsVector<T>) {
      put_raw(static_cast<std::uint32_t>(value.size()));
      for (const auto& entry : value) put(entry);
    } else if constexpr (requires { value.has_value(); }) {
      put_raw(value.has_value());
      if (value) put(*value);
    } else {
      describe(*this, const_cast<T&>(value));  // describe() takes a mutable record for the readers' sake
    }
  }

  std::string& bytes_;
};

/// Reads what a PackWriter has put. Bytes that are no such record leave good() false.
class PackReader {
 public:
  static constexpr bool kReads = true;
  explicit PackReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  void field(std::string_view, T& value) {
    get(value);
  }
  /// Everything was there, and nothing is left.
  bool good() const { return good_ && bytes_.empty(); }

 private:
  template <class T>
  void get_raw(T& value) {
    good_ = good_ && bytes_.size() >= sizeof value;
    if (!good_) return;
    bytes_.copy(reinterpret_cast<char*>(&value), sizeof value);
    bytes_.remove_prefix(sizeof value);
  }

  /// A number of bytes or entries, each of which takes at least one byte.
  std::uint32_t get_size() {
    std::uint32_t size = 0;
    get_raw(size);
    good_ = good_ && size <= bytes_.size();
    return good_ ? size : 0;
  }

  bool get_flag() {
    std::uint8_t flag = 0;
    get_raw(flag);
    good_ = good_ && flag <= 1;
    return good_ && flag == 1;
  }

  template <class T>
  void get(T& value) {
    if constexpr (NamedValue<T>) {
      get(value.value);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = get_flag();
    } else if constexpr (std::is_arithmetic_v<T>) {
      get_raw(value);
    } else if constexpr (std::is_enum_v<T>) {
      get_raw(value);
      good_ = good_ && to_string(value) != "?";
    } else if constexpr (kIsTimePoint<T>) {
      typename T::rep count = 0;
      get_raw(count);
      value = T(typename T::duration(count));
    } else if constexpr (std::is_same_v<T, std::string>) {
      const std::uint32_t size = get_size();
      value.assign(bytes_.substr(0, size));
      bytes_.remove_prefix(size);
    } else if constexpr (kIsVector<T>) {
      value.clear();
      for (std::uint32_t left = get_size(); left > 0 && good_; --left) get(value.emplace_back());
    } else if constexpr (requires { value.has_value(); }) {
      value.reset();
      if (get_flag()) get(value.emplace());
    } else {
      describe(*this, value);
    }
  }

  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace gpuwarden::facts
