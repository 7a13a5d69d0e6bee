// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/output.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace gpuwarden::launch {
namespace {

constexpr std::size_t kLongestLine = 65536;
/// A pipe that can be written to takes this much without waiting (PIPE_BUF).
constexpr std::size_t kBlock = 4096;

bool can_write(int fd) {
  pollfd poll{fd, POLLOUT, 0};
  return ::poll(&poll, 1, 0) == 1;
}

/// What is written at once: whole lines, where they fit.
std::size_t next_block(std::string_view kept) {
  if (kept.size() <= kBlock) return kept.size();
  const std::size_t end = kept.substr(0, kBlock).rfind('\n');
  return end == std::string_view::npos ? kBlock : end + 1;
}

bool is_device(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 && S_ISCHR(info.st_mode);
}

}  // namespace

void Outlet::write(std::string_view text) {
  if (fd_ < 0 || reader_gone_ || terminal_gone_ || error_) return;
  kept_ += text;
  // Small lines are gathered into blocks by the caller's pump().
  if (kept_.size() - at_ >= kBlock) pump();
}

void Outlet::pump() {
  while (waiting() && can_write(fd_)) {
    const std::string_view kept = std::string_view(kept_).substr(at_);
    const ssize_t done = ::write(fd_, kept.data(), next_block(kept));
    if (done > 0)
      at_ += static_cast<std::size_t>(done);
    else if (done < 0 && errno == EAGAIN)
      break;
    else if (done == 0 || errno != EINTR)
      note_failure(done == 0 ? EIO : errno);
  }
  if (waiting()) return;
  kept_.clear();
  at_ = 0;
}

void Outlet::note_failure(int error) {
  kept_.clear();
  at_ = 0;
  if (error == EPIPE)
    reader_gone_ = true;
  else if (error == EIO && is_device(fd_))
    terminal_gone_ = true;  // SIGHUP says what is to become of the job
  else
    error_ = error;
}

void LineWriter::add(std::string_view data) {
  keep(data);
  if (passes_through_) return target_->write(data);
  while (!data.empty()) {
    // Progress bars end their lines with a carriage return only.
    const std::size_t end = data.find_first_of("\n\r");
    if (end == std::string_view::npos) {
      line_ += data;
      if (line_.size() >= kLongestLine) flush();
      return;
    }
    line_ += data.substr(0, end);
    const bool both = data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n';
    emit(line_, both ? '\n' : data[end]);
    line_.clear();
    data.remove_prefix(end + (both ? 2 : 1));
  }
}

void LineWriter::flush() {
  if (line_.empty()) return;
  emit(line_, '\n');
  line_.clear();
}

std::string LineWriter::end() const { return end_.size() <= kMostKept ? end_ : end_.substr(end_.size() - kMostKept); }

void LineWriter::keep(std::string_view data) {
  if (keeps_end_) {
    end_ += data;
    if (end_.size() > 2 * kMostKept) end_.erase(0, end_.size() - kMostKept);
  }
  while (log_ && !data.empty()) {
    const ssize_t done = ::write(log_.get(), data.data(), data.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      log_error_ = done < 0 ? errno : EIO;
      log_.reset();
      return;
    }
    data.remove_prefix(static_cast<std::size_t>(done));
  }
}

std::optional<int> LineWriter::close_log() {
  // Network file systems say only now that there was no room.
  if (log_ && ::close(log_.release()) != 0 && errno != EINTR) log_error_ = errno;
  return log_error_;
}

void LineWriter::emit(std::string_view line, char ending) {
  // Several ranks share the screen: a progress bar's line is finished like any other, or they would overwrite each
  // other.
  if (line.empty() && ending == '\r') return;
  target_->write(prefix_ + std::string(line) + (prefix_.empty() ? ending : '\n'));
}

}  // namespace gpuwarden::launch
