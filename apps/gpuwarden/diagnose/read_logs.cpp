// SPDX-License-Identifier: Apache-2.0
#include "diagnose/read_logs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/setup/bundle.hpp"

namespace gpuwarden::cli {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20U;
/// Reports of a machine stand in texts that people write and paste; in larger ones they are not looked for, nor beyond
/// so much of all texts together.
constexpr std::size_t kLargestReport = std::size_t{16} << 20U;
constexpr std::size_t kMostReported = std::size_t{64} << 20U;

/// Text of PowerShell, which is UTF-16 with a mark, is none.
bool is_binary(std::string_view beginning) {
  constexpr std::size_t kLooksAt = 4096;
  return !beginning.starts_with("\xFF\xFE") && !beginning.starts_with("\xFE\xFF") &&
         beginning.substr(0, kLooksAt).contains('\0');
}

bool is_zipped(std::string_view beginning) { return beginning.starts_with("\x1f\x8b"); }

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
    const auto first = fd < 0 ? std::unexpected(errno) : read_piece(fd, buffer_);
    if (!first) return problem(error_from_errno(first.error(), fmt::format("cannot read {}", printable(name))));
    if (is_zipped(*first)) return read_zipped(file, name, fd, std::string(*first));
    if (!file.named && is_binary(*first)) return;
    read_text(file, name, fd, *first);
  }

  Logs finish() { return std::move(logs_); }

 private:
  void problem(Error error) { logs_.problems.push_back(std::move(error)); }

  void read_text(const LogFile& file, const std::string& name, int fd, std::string_view piece) {
    diagnosis::LogReader reader(name);
    std::string text;
    bool small = true;
    while (!piece.empty()) {
      reader.feed(piece);
      small = small && text.size() + piece.size() <= kLargestReport;
      if (small)
        text.append(piece);
      else
        std::string().swap(text);
      const auto next = read_piece(fd, buffer_);
      if (!next) problem(error_from_errno(next.error(), fmt::format("cannot read {} to its end", printable(name))));
      piece = next.value_or(std::string_view{});
    }
    add(file, name, reader.finish());
    if (small) look_for_machine(text, name);
  }

  void read_zipped(const LogFile& file, const std::string& name, int fd, std::string bytes) {
    while (bytes.size() <= kDefaultFileCap) {
      const auto next = read_piece(fd, buffer_);
      if (!next) return problem(error_from_errno(next.error(), fmt::format("cannot read {}", printable(name))));
      if (next->empty()) break;
      bytes.append(*next);
    }
    if (const auto bundle = setup::parse_bundle(bytes, name)) return read_bundle(*bundle, name);
    auto text = setup::capture_text(std::move(bytes), name);
    if (!text) {
      text.error().hint = "unpack it first, and name what was in it";
      return problem(std::move(text.error()));
    }
    read_whole(file, name, *text);
  }

  /// A bundle's snapshot is the machine; everything else in it that is no document may be a log.
  void read_bundle(const setup::Bundle& bundle, const std::string& name) {
    for (const setup::BundleFile& file : bundle.files) {
      const std::string inside = name + ":" + file.name;
      if (file.name == setup::kSnapshotFile) look_for_machine(file.text, inside);
      if (!file.name.ends_with(".json")) read_whole({.path = inside, .rank = rank_of(file.name)}, inside, file.text);
    }
  }

  void read_whole(const LogFile& file, const std::string& name, std::string_view text) {
    add(file, name, diagnosis::read_log(text, name));
    if (text.size() <= kLargestReport) look_for_machine(text, name);
  }

  void add(const LogFile& file, const std::string& name, diagnosis::Reading reading) {
    // What a line says of its rank is surer than the name of its file.
    for (diagnosis::Event& event : reading.events) {
      if (!event.rank) event.rank = file.rank;
    }
    logs_.files.push_back({name, file.rank, reading.lines, reading.bytes});
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

}  // namespace

Logs read_logs(const LogFiles& files) {
  Logbook logbook;
  for (const LogFile& file : files.files) logbook.read(file);
  return logbook.finish();
}

}  // namespace gpuwarden::cli
