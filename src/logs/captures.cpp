// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/captures.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/bundle/bundle.hpp"
#include "gpuwarden/logs/recognise.hpp"

namespace gpuwarden::logs {
namespace {

/// A pipe, as in --from <(ssh node nvidia-smi), is read until its writer ends.
Result<std::string> read_file_or_pipe(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_fifo(file, ignored)) return read_file(file);
  const UniqueFd pipe(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pipe) return std::unexpected(error_from_errno(errno, "cannot read " + file));
  return read_descriptor(pipe.get(), file);
}

Result<NamedText> read_one(const std::string& file) {
  const std::string name = file == "-" ? "standard input" : file;
  GPUWARDEN_TRY(std::string bytes, file == "-" ? read_descriptor(STDIN_FILENO, name) : read_file_or_pipe(file));
  GPUWARDEN_TRY(std::string text, bundle::capture_text(std::move(bytes), name));
  return NamedText{name, std::move(text)};
}

void add_part(capture::Capture& whole, capture::Capture part) {
  if (whole.parts.empty())
    whole = std::move(part);
  else
    capture::add_capture(whole, std::move(part));
}

}  // namespace

Result<std::vector<NamedText>> read_texts(const std::vector<std::string>& files) {
  std::vector<NamedText> texts;
  for (const std::string& file : files) {
    GPUWARDEN_TRY(NamedText text, read_one(file));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<capture::Capture> join_captures(const std::vector<NamedText>& texts) {
  capture::Capture whole;
  for (const NamedText& file : texts) {
    auto part = capture::read_capture(file.text, file.name);
    if (!part)
      return std::unexpected(part.error().code == ErrorCode::corrupt ? without_facts(file.text, file.name)
                                                                     : part.error());
    add_part(whole, std::move(*part));
  }
  return whole;
}

Result<capture::Capture> read_captures(const std::vector<std::string>& files) {
  GPUWARDEN_TRY(const auto texts, read_texts(files));
  return join_captures(texts);
}

}  // namespace gpuwarden::logs
