// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/read.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/bundle/bundle.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/logs/unpack.hpp"
#include "logs/text_kind.hpp"

namespace gpuwarden::logs {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20U;
/// Reports of a machine stand in texts that people write and paste; in larger ones they are not looked for, nor beyond
/// so much of all texts together.
constexpr std::size_t kLargestReport = std::size_t{16} << 20U;
constexpr std::size_t kMostReported = std::size_t{64} << 20U;

/// A full piece, or less at the end; empty behind it. Fails with errno.
std::expected<std::string_view, int> read_piece(int fd, std::string& buffer) {
  std::size_t size = 0;
  while (size < buffer.size()) {
    const ssize_t got = ::read(fd, buffer.data() + size, buffer.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  return std::string_view(buffer).substr(0, size);
}

/// All files into one reading.
class Logbook {
 public:
  void read(const LogFile& file) {
    const std::string name = file.path == "-" ? "standard input" : file.path;
    const UniqueFd opened(file.path == "-" ? -1 : ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    const int fd = file.path == "-" ? STDIN_FILENO : opened.get();
    const auto first = fd < 0 ? std::unexpected(errno) : first_piece(opened.get(), fd);
    if (!first) return problem(error_from_errno(first.error(), fmt::format("cannot read {}", printable(name))));
    const Beginning beginning = look_at(*first);
    switch (beginning.content) {
      case Content::packed:
        return read_packed(file, name, fd, std::string(*first));
      case Content::zip:
        if (!file.named) return skip(name);
        return problem({ErrorCode::invalid_argument, fmt::format("{} is a zip archive", printable(name)),
                        "unpack it, and name the folder"});
      case Content::binary:
        if (!file.named) return skip(name);
        break;
      case Content::text:
        break;
    }
    read_text(file, name, fd, *first);
  }

  Logs finish() { return std::move(logs_); }

 private:
  void problem(Error error) { logs_.problems.push_back(std::move(error)); }

  void skip(const std::string& name) {
    logs_.skipped.push_back({ErrorCode::invalid_argument, fmt::format("{} holds no text", printable(name)), ""});
  }

  /// The first that holds more than NULs. Holes are jumped over where the file system knows of them.
  std::expected<std::string_view, int> first_piece(int file, int fd) {
    if (file >= 0) (void)::lseek(file, 0, SEEK_DATA);
    for (;;) {
      const auto piece = read_piece(fd, buffer_);
      if (!piece || piece->empty() || piece->find_first_not_of('\0') != std::string_view::npos) return piece;
    }
  }

  void read_text(const LogFile& file, const std::string& name, int fd, std::string_view piece) {
    const Beginning beginning = look_at(piece);
    // What is small is read as a whole; what is not goes through the reader piece by piece.
    std::optional<diagnosis::LogReader> reader;
    std::string text(beginning.mark);
    piece.remove_prefix(beginning.skip);
    while (!piece.empty()) {
      if (!reader && text.size() + piece.size() > kLargestReport) {
        reader.emplace(name);
        reader->feed(text);
        std::string().swap(text);
      }
      if (reader)
        reader->feed(piece);
      else
        text.append(piece);
      const auto next = read_piece(fd, buffer_);
      if (!next) problem(error_from_errno(next.error(), fmt::format("cannot read {} to its end", printable(name))));
      piece = next.value_or(std::string_view{});
    }
    add(file, name, reader ? reader->finish() : diagnosis::read_log(text, name), beginning.content != Content::binary);
    if (!reader) look_for_machine(text, name);
  }

  void read_packed(const LogFile& file, const std::string& name, int fd, std::string bytes) {
    while (bytes.size() <= kDefaultFileCap) {
      const auto next = read_piece(fd, buffer_);
      if (!next) return problem(error_from_errno(next.error(), fmt::format("cannot read {}", printable(name))));
      if (next->empty()) break;
      bytes.append(*next);
    }
    if (const auto bundle = bundle::parse_bundle(bytes, name)) return read_bundle(*bundle, name);
    Unpacking unpacked = unpack(bytes, name);
    if (unpacked.problem) problem(std::move(*unpacked.problem));
    for (const Unpacked& one : unpacked.files) {
      if (one.name.empty())
        read_whole(file, name, one.bytes);
      else if (may_be_log(one.name))
        read_whole({.path = "", .rank = rank_of(one.name), .named = false}, name + ":" + one.name, one.bytes);
    }
  }

  /// A bundle's snapshot is the machine; everything else in it that is no document may be a log.
  void read_bundle(const bundle::Bundle& bundle, const std::string& name) {
    for (const bundle::BundleFile& file : bundle.files) {
      const std::string inside = name + ":" + file.name;
      if (file.name == bundle::kSnapshotFile) look_for_machine(file.text, inside);
      if (!file.name.ends_with(".json")) read_whole({.path = inside, .rank = rank_of(file.name)}, inside, file.text);
    }
  }

  void read_whole(const LogFile& file, const std::string& name, std::string_view bytes) {
    const Beginning beginning = look_at(bytes);
    if (!file.named && beginning.content != Content::text) return skip(name);
    const std::string text = std::string(beginning.mark).append(bytes.substr(beginning.skip));
    add(file, name, diagnosis::read_log(text, name), beginning.content == Content::text);
    if (text.size() <= kLargestReport) look_for_machine(text, name);
  }

  void add(const LogFile& file, const std::string& name, diagnosis::Reading reading, bool is_text) {
    // What a line says of its rank is surer than the name of its file.
    for (diagnosis::Event& event : reading.events) {
      if (!event.rank) event.rank = file.rank;
    }
    logs_.files.push_back({name, file.rank, reading.lines, reading.bytes, is_text});
    if (logs_.files.size() == 1)
      logs_.reading = std::move(reading);
    else
      diagnosis::add_reading(logs_.reading, std::move(reading));
  }

  void look_for_machine(std::string_view text, const std::string& name) {
    reported_ += text.size();
    if (reported_ > kMostReported) return;
    auto capture = capture::read_capture(text, name);
    if (!capture) return;  // most logs tell nothing of their machine
    if (logs_.machine)
      capture::add_capture(*logs_.machine, std::move(*capture));
    else
      logs_.machine = std::move(*capture);
  }

  Logs logs_;
  std::string buffer_ = std::string(kPiece, '\0');
  std::size_t reported_ = 0;
};

/// "box/a.bin holds no text", "a.bin holds no text, b.bin holds no text, and 7 more".
std::string named(const std::vector<Error>& skipped) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(kNamed, skipped.size()); ++i) parts.push_back(skipped[i].message);
  if (skipped.size() > kNamed) parts.push_back(fmt::format("and {} more", skipped.size() - kNamed));
  return join(parts, ", ");
}

}  // namespace

Logs read_logs(const LogFiles& files) {
  Logbook logbook;
  for (const LogFile& file : files.files) logbook.read(file);
  return logbook.finish();
}

std::vector<std::string> remarks_on(const Logs& logs) {
  std::vector<std::string> remarks;
  for (const LogRead& file : logs.files) {
    if (file.bytes == 0) remarks.push_back(fmt::format("{} is empty", printable(file.name)));
    if (!file.text) remarks.push_back(fmt::format("{} does not look like text", printable(file.name)));
  }
  if (!logs.files.empty() && !logs.skipped.empty()) remarks.push_back("not read: " + named(logs.skipped));
  return remarks;
}

std::optional<Error> nothing_read(const Logs& logs) {
  if (!logs.files.empty() || logs.skipped.empty()) return std::nullopt;
  return Error{ErrorCode::invalid_argument, "there is nothing to read: " + named(logs.skipped),
               "name a file to have it read whatever it is"};
}

}  // namespace gpuwarden::logs
