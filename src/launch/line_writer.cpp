// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>

#include "launch/parts.hpp"

namespace gpuwarden::launch {
namespace {

constexpr std::size_t kLongestLine = 65536;

/// A reader that has gone (EPIPE) is no reason to stop the job.
void write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t done = ::write(fd, data.data(), data.size());
    if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (done <= 0) return;
    data.remove_prefix(static_cast<std::size_t>(done));
  }
}

}  // namespace

void LineWriter::add(std::string_view data) {
  if (log_) write_all(log_.get(), data);
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

void LineWriter::emit(std::string_view line, char ending) {
  // Several ranks share the screen: a progress bar's line is finished like any other, or they would overwrite each
  // other.
  if (line.empty() && ending == '\r') return;
  write_all(target_, prefix_ + std::string(line) + (prefix_.empty() ? ending : '\n'));
}

}  // namespace gpuwarden::launch
