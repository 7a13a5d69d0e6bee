// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/unpack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>

#include "gpuwarden/base/compression.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/libarchive.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::logs {
namespace {

namespace la = libarchive;
using Reader = std::unique_ptr<archive, int (*)(archive*)>;

constexpr std::size_t kMostMembers = 10'000;

std::string said_by(archive* archive) {
  const char* text = la::archive_error_string(archive);
  return text != nullptr ? printable(text) : "the data ends too early";
}

/// Takes files out of one archive, one after another.
class Unpacker {
 public:
  Unpacker(std::string_view bytes, const std::string& name)
      : name_(printable(name)), reader_(la::archive_read_new(), la::archive_read_free) {
    for (int (*const filter)(archive*) : std::initializer_list<int (*)(archive*)>{
             la::archive_read_support_filter_gzip, la::archive_read_support_filter_xz,
             la::archive_read_support_filter_bzip2, la::archive_read_support_filter_zstd,
             la::archive_read_support_filter_lz4, la::archive_read_support_filter_compress})
      filter(reader_.get());
    la::archive_read_support_format_tar(reader_.get());
    la::archive_read_support_format_raw(reader_.get());
    open_ = la::archive_read_open_memory(reader_.get(), bytes.data(), bytes.size()) == ARCHIVE_OK;
    if (!open_) give_up("cannot be unpacked", said_by(reader_.get()));
  }

  Unpacking all() {
    archive_entry* entry = nullptr;
    while (open_) {
      const int status = la::archive_read_next_header(reader_.get(), &entry);
      if (status == ARCHIVE_EOF) break;
      if (status < ARCHIVE_WARN) {
        give_up(unpacking_.files.empty() ? "cannot be unpacked" : "was read only in part", said_by(reader_.get()));
        break;
      }
      open_ = take(entry);
    }
    return std::move(unpacking_);
  }

 private:
  void give_up(std::string_view what, const std::string& why) {
    unpacking_.problem = Error{ErrorCode::corrupt, fmt::format("{} {}: {}", name_, what, why),
                               "unpack it by hand, and name what was in it"};
  }

  bool take(archive_entry* entry) {
    const bool lone = la::archive_format(reader_.get()) == ARCHIVE_FORMAT_RAW;
    // Where no filter knows the bytes, they would come out as they are.
    if (lone && la::archive_filter_count(reader_.get()) < 2) {
      give_up("cannot be unpacked", "its start is damaged");
      return false;
    }
    if (!lone && la::archive_entry_filetype(entry) != AE_IFREG) return true;
    if (unpacking_.files.size() == kMostMembers) {
      give_up("was read only in part", fmt::format("it holds more than {} files", kMostMembers));
      return false;
    }
    const char* path = lone ? nullptr : la::archive_entry_pathname(entry);
    unpacking_.files.push_back({path == nullptr ? "" : path, ""});
    return fill(unpacking_.files.back());
  }

  bool fill(Unpacked& file) {
    std::array<char, 65536> block{};
    for (;;) {
      const la_ssize_t got = la::archive_read_data(reader_.get(), block.data(), block.size());
      if (got == 0) return true;
      if (got < 0) {
        const bool nothing = file.bytes.empty();
        if (nothing) unpacking_.files.pop_back();
        give_up(unpacking_.files.empty() ? "cannot be unpacked" : "was read only in part", said_by(reader_.get()));
        return false;
      }
      file.bytes.append(block.data(), static_cast<std::size_t>(got));
      room_ -= std::min(room_, static_cast<std::size_t>(got));
      if (room_ > 0) continue;
      unpacking_ = {};
      unpacking_.problem =
          Error{ErrorCode::invalid_argument,
                fmt::format("{} is larger than {} when unpacked", name_, format_size(Bytes(kDefaultFileCap))),
                "unpack it first, and name what was in it"};
      return false;
    }
  }

  std::string name_;
  Reader reader_;
  bool open_ = false;
  std::size_t room_ = kDefaultFileCap + 1;
  Unpacking unpacking_;
};

}  // namespace

Unpacking unpack(std::string_view bytes, const std::string& name) {
  if (auto opened = la::open(); !opened) return {.files = {}, .problem = std::move(opened).error()};
  return Unpacker(bytes, name).all();
}

Result<std::string> unpack_one(std::string bytes, const std::string& name) {
  if (compression_of(bytes).empty()) return bytes;
  Unpacking unpacked = unpack(bytes, name);
  if (unpacked.problem) return std::unexpected(*std::move(unpacked.problem));
  if (unpacked.files.size() != 1)
    return fail(ErrorCode::invalid_argument, fmt::format("{} holds {} files, not one", name, unpacked.files.size()),
                "unpack it, and name the one that is meant");
  return std::move(unpacked.files[0].bytes);
}

}  // namespace gpuwarden::logs
