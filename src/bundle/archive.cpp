// SPDX-License-Identifier: Apache-2.0
#include "bundle/archive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "gpuwarden/base/libarchive.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::bundle {
namespace {

namespace la = libarchive;
using Reader = std::unique_ptr<archive, int (*)(archive*)>;
using Writer = std::unique_ptr<archive, int (*)(archive*)>;
using Entry = std::unique_ptr<archive_entry, void (*)(archive_entry*)>;

std::string said_by(archive* archive) {
  const char* text = la::archive_error_string(archive);
  return text != nullptr ? printable(text) : "the data ends too early";
}

constexpr std::string_view kGzip = "\x1f\x8b";  // RFC 1952, 2.3.1

la_ssize_t append(archive* /*archive*/, void* target, const void* bytes, std::size_t length) {
  static_cast<std::string*>(target)->append(static_cast<const char*>(bytes), length);
  return static_cast<la_ssize_t>(length);
}

bool add(archive* writer, const ArchiveEntry& file, std::chrono::system_clock::time_point time) {
  const Entry entry(la::archive_entry_new(), la::archive_entry_free);
  la::archive_entry_set_pathname(entry.get(), file.name.c_str());
  la::archive_entry_set_size(entry.get(), static_cast<la_int64_t>(file.content.size()));
  la::archive_entry_set_filetype(entry.get(), AE_IFREG);
  la::archive_entry_set_perm(entry.get(), 0600);
  la::archive_entry_set_mtime(entry.get(), std::chrono::system_clock::to_time_t(time), 0);
  return la::archive_write_header(writer, entry.get()) == ARCHIVE_OK &&
         la::archive_write_data(writer, file.content.data(), file.content.size()) ==
             static_cast<la_ssize_t>(file.content.size());
}

std::unexpected<Error> refuse(std::string_view name, const std::string& why) {
  return fail(ErrorCode::corrupt, fmt::format("{} cannot be read as an archive: {}", printable(name), why));
}

/// Names that stay inside the folder they are unpacked in, on any system.
bool is_safe_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name.starts_with('/') || printable(name) != name) return false;
  if (name.find_first_of("\\:") != std::string_view::npos) return false;
  const auto parts = split(name, '/');
  return std::ranges::none_of(parts, [](std::string_view part) { return part == ".."; });
}

/// Why this entry is none of a bundle; empty where it may be.
std::string objection(archive_entry* entry, const ArchiveLimits& limits) {
  const char* name = la::archive_entry_pathname(entry);
  if (name == nullptr || !is_safe_name(name))
    return fmt::format("it holds the path '{}', which leads elsewhere", printable(name != nullptr ? name : ""));
  const auto type = la::archive_entry_filetype(entry);
  const bool link = la::archive_entry_hardlink(entry) != nullptr || la::archive_entry_symlink(entry) != nullptr;
  if (link || (type != AE_IFREG && type != AE_IFDIR)) return fmt::format("'{}' is neither a file nor a folder", name);
  if (la::archive_entry_size(entry) > static_cast<la_int64_t>(limits.entry_bytes))
    return fmt::format("'{}' is larger than {}", name, format_size(Bytes(limits.entry_bytes)));
  return {};
}

/// The data of the entry at hand.
Result<std::string> data_of(archive* reader, std::string_view name, std::size_t room) {
  std::string content;
  std::array<char, 65536> block{};
  for (;;) {
    const la_ssize_t got = la::archive_read_data(reader, block.data(), block.size());
    if (got < 0) return refuse(name, said_by(reader));
    if (got == 0) return content;
    content.append(block.data(), static_cast<std::size_t>(got));
    if (content.size() > room) return refuse(name, fmt::format("it unpacks to more than {}", format_size(Bytes(room))));
  }
}

Result<Reader> open(std::string_view bytes, std::string_view name, int (*format)(archive*)) {
  GPUWARDEN_CHECK(la::open());
  Reader reader(la::archive_read_new(), la::archive_read_free);
  la::archive_read_support_filter_gzip(reader.get());
  format(reader.get());
  if (la::archive_read_open_memory(reader.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    return refuse(name, said_by(reader.get()));
  return reader;
}

}  // namespace

Result<std::string> pack(const std::vector<ArchiveEntry>& entries, std::chrono::system_clock::time_point time) {
  GPUWARDEN_CHECK(la::open());
  std::string bytes;
  const Writer writer(la::archive_write_new(), la::archive_write_free);
  la::archive_write_set_format_pax_restricted(writer.get());
  la::archive_write_add_filter_gzip(writer.get());
  // Padding is for tapes.
  la::archive_write_set_bytes_in_last_block(writer.get(), 1);
  // The archive's own time is in its manifest.
  la::archive_write_set_options(writer.get(), "gzip:!timestamp");
  bool fine = la::archive_write_open(writer.get(), &bytes, nullptr, append, nullptr) == ARCHIVE_OK;
  for (const ArchiveEntry& entry : entries) fine = fine && add(writer.get(), entry, time);
  fine = fine && la::archive_write_close(writer.get()) == ARCHIVE_OK;
  if (!fine) return fail(ErrorCode::failed, "the archive cannot be made: " + said_by(writer.get()));
  return bytes;
}

bool is_archive(std::string_view bytes) {
  constexpr std::size_t kMagic = 257;  // POSIX.1-2001, ustar header
  return bytes.starts_with(kGzip) || (bytes.size() > kMagic + 5 && bytes.substr(kMagic, 5) == "ustar");
}

Result<std::vector<ArchiveEntry>> unpack(std::string_view bytes, std::string_view name, const ArchiveLimits& limits) {
  GPUWARDEN_TRY(const Reader reader, open(bytes, name, la::archive_read_support_format_tar));
  std::vector<ArchiveEntry> entries;
  std::set<std::string> names;
  std::size_t room = limits.all_bytes;
  for (;;) {
    archive_entry* entry = nullptr;
    const int status = la::archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF) return entries;
    if (status != ARCHIVE_OK) return refuse(name, said_by(reader.get()));
    if (const std::string why = objection(entry, limits); !why.empty()) return refuse(name, why);
    if (names.size() == limits.entries) return refuse(name, fmt::format("it holds more than {} files", limits.entries));
    const std::string path = la::archive_entry_pathname(entry);
    if (!names.insert(path).second) return refuse(name, fmt::format("it holds '{}' twice", path));
    if (la::archive_entry_filetype(entry) == AE_IFDIR) continue;
    GPUWARDEN_TRY(std::string content, data_of(reader.get(), name, std::min(room, limits.entry_bytes)));
    room -= content.size();
    entries.push_back({path, std::move(content)});
  }
}

Result<std::string> unzip(std::string_view bytes, std::string_view name, const ArchiveLimits& limits) {
  if (!bytes.starts_with(kGzip)) return refuse(name, "it is not gzipped");
  GPUWARDEN_TRY(const Reader reader, open(bytes, name, la::archive_read_support_format_raw));
  archive_entry* entry = nullptr;
  if (la::archive_read_next_header(reader.get(), &entry) != ARCHIVE_OK) return refuse(name, said_by(reader.get()));
  return data_of(reader.get(), name, limits.entry_bytes);
}

}  // namespace gpuwarden::bundle
