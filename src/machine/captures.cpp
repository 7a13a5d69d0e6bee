// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/captures.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/bundle/bundle.hpp"

namespace gpuwarden::machine {
namespace {

/// A pipe, as in --from <(ssh node nvidia-smi), is read until its writer ends.
Result<std::string> read_file_or_pipe(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_fifo(file, ignored)) return read_file(file);
  const UniqueFd pipe(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pipe) return std::unexpected(error_from_errno(errno, "cannot read " + file));
  return read_descriptor(pipe.get(), file);
}

Result<capture::Capture> read_one(const std::string& file) {
  const std::string name = file == "-" ? "standard input" : file;
  GPUWARDEN_TRY(std::string bytes, file == "-" ? read_descriptor(STDIN_FILENO, name) : read_file_or_pipe(file));
  GPUWARDEN_TRY(const std::string text, bundle::capture_text(std::move(bytes), name));
  return capture::read_capture(text, name);
}

}  // namespace

Result<capture::Capture> read_captures(const std::vector<std::string>& files) {
  capture::Capture whole;
  for (const std::string& file : files) {
    GPUWARDEN_TRY(capture::Capture part, read_one(file));
    if (whole.parts.empty())
      whole = std::move(part);
    else
      capture::add_capture(whole, std::move(part));
  }
  return whole;
}

}  // namespace gpuwarden::machine
