// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files (version 3), whole but for tensors' contents, which are zeros.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::testing {

class GgufFile {
 public:
  explicit GgufFile(std::string_view architecture) : architecture_(architecture) {
    text("general.architecture", architecture);
  }

  /// A key of the architecture's own: "block_count".
  GgufFile& own(std::string_view key, std::uint32_t value) {
    return number(architecture_ + "." + std::string(key), value);
  }
  GgufFile& own(std::string_view key, const std::vector<std::uint32_t>& values) {
    begin(architecture_ + "." + std::string(key), kArray);
    put<std::uint32_t>(keys_, kUint32);
    put<std::uint64_t>(keys_, values.size());
    for (const std::uint32_t value : values) put(keys_, value);
    return *this;
  }
  GgufFile& number(std::string_view key, std::uint32_t value) {
    begin(key, kUint32);
    put(keys_, value);
    return *this;
  }
  /// A key of the architecture's own that is NaN.
  GgufFile& not_a_number(std::string_view key) {
    begin(architecture_ + "." + std::string(key), kFloat32);
    put(keys_, std::numeric_limits<float>::quiet_NaN());
    return *this;
  }
  GgufFile& text(std::string_view key, std::string_view value) {
    begin(key, kText);
    put_text(keys_, value);
    return *this;
  }
  GgufFile& texts(std::string_view key, std::size_t count) {
    begin(key, kArray);
    put<std::uint32_t>(keys_, kText);
    put<std::uint64_t>(keys_, count);
    for (std::size_t i = 0; i < count; ++i) put_text(keys_, "word" + std::to_string(i));
    return *this;
  }
  /// `sizes` has the row's length first; `bytes` are those of its data.
  GgufFile& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                   std::uint64_t bytes) {
    put_text(tensors_, name);
    put(tensors_, static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) put(tensors_, size);
    put(tensors_, type);
    put(tensors_, data_);
    data_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    ++tensor_count_;
    return *this;
  }

  /// Without the tensors' data, which have data_bytes().
  std::string head() const {
    std::string file = "GGUF";
    put<std::uint32_t>(file, 3);
    put<std::uint64_t>(file, tensor_count_);
    put<std::uint64_t>(file, key_count_);
    file += keys_ + tensors_;
    file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
    return file;
  }
  std::uint64_t data_bytes() const { return data_; }
  std::string whole() const { return head() + std::string(data_, '\0'); }

 private:
  static constexpr std::uint32_t kUint32 = 4;
  static constexpr std::uint32_t kFloat32 = 6;
  static constexpr std::uint32_t kText = 8;
  static constexpr std::uint32_t kArray = 9;
  static constexpr std::uint64_t kAlignment = 32;

  template <class T>
  static void put(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_text(std::string& to, std::string_view text) {
    put<std::uint64_t>(to, text.size());
    to += text;
  }
  void begin(std::string_view key, std::uint32_t type) {
    put_text(keys_, key);
    put(keys_, type);
    ++key_count_;
  }

  std::string architecture_;
  std::string keys_;
  std::string tensors_;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t data_ = 0;
};

}  // namespace gpuwarden::testing
