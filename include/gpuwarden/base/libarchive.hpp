// SPDX-License-Identifier: Apache-2.0
// libarchive, opened when it is first needed: it brings fifteen libraries (libxml2 and ICU among them), and most
// commands never see an archive. The functions have libarchive's own names and types:
//   namespace la = gpuwarden::libarchive;  if (auto opened = la::open(); !opened) ...;  la::archive_read_new();
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::libarchive {

/// Opens the library; fails with unavailable where it is not installed or lacks a function. Threads may call it.
Result<void> open();
/// The function of this name, or nullptr.
void* function(const char* name);

template <std::size_t Size>
struct Name {
  std::array<char, Size> text{};
  consteval Name(const char (&name)[Size]) { std::copy_n(name, Size, text.begin()); }  // NOLINT: a literal's type
};

/// Calls the function, or converts to a pointer that does. Without the library: nullptr, or ARCHIVE_FATAL.
template <Name Text, class Function>
struct Call;
template <Name Text, class Value, class... Arguments>
struct Call<Text, Value (*)(Arguments...)> {
  static Value call(Arguments... arguments) {
    static const auto kFunction = reinterpret_cast<Value (*)(Arguments...)>(function(Text.text.data()));
    if (kFunction != nullptr) return kFunction(arguments...);
    if constexpr (std::is_integral_v<Value>) return static_cast<Value>(ARCHIVE_FATAL);
    if constexpr (std::is_pointer_v<Value>) return nullptr;
  }
  Value operator()(Arguments... arguments) const { return call(arguments...); }
  constexpr operator decltype (&call)() const { return &call; }  // NOLINT: stands for the function
};

// The names are libarchive's own.
// NOLINTBEGIN(readability-identifier-naming)
#define GPUWARDEN_ARCHIVE_FUNCTION(name) inline constexpr Call<#name, decltype(&::name)> name{};
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_filetype)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_free)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_hardlink)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_new)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_pathname)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_set_filetype)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_set_mtime)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_set_pathname)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_set_perm)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_set_size)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_size)
GPUWARDEN_ARCHIVE_FUNCTION(archive_entry_symlink)
GPUWARDEN_ARCHIVE_FUNCTION(archive_error_string)
GPUWARDEN_ARCHIVE_FUNCTION(archive_filter_count)
GPUWARDEN_ARCHIVE_FUNCTION(archive_format)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_data)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_free)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_new)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_next_header)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_open_memory)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_support_filter_bzip2)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_support_filter_compress)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_support_filter_gzip)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_support_filter_lz4)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_support_filter_xz)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_support_filter_zstd)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_support_format_raw)
GPUWARDEN_ARCHIVE_FUNCTION(archive_read_support_format_tar)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_add_filter_gzip)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_close)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_data)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_free)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_header)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_new)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_open)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_set_bytes_in_last_block)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_set_format_pax_restricted)
GPUWARDEN_ARCHIVE_FUNCTION(archive_write_set_options)
#undef GPUWARDEN_ARCHIVE_FUNCTION
// NOLINTEND(readability-identifier-naming)

}  // namespace gpuwarden::libarchive
