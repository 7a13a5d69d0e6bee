// SPDX-License-Identifier: Apache-2.0
#include "memory/trace_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "gpuwarden/base/compression.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/logs/unpack.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

/// Snapshots of long runs have gigabytes.
constexpr std::size_t kLargestTrace = std::size_t{16} << 30U;

}  // namespace

Result<memtrace::Trace> read_trace_file(const std::string& file, const Args& args) {
  GPUWARDEN_TRY(const auto device, count_option(args, "device", 1023));
  const std::string name = file == "-" ? "standard input" : printable(file);
  GPUWARDEN_TRY(std::string content,
                file == "-" ? read_descriptor(STDIN_FILENO, name, kLargestTrace) : read_file(file, kLargestTrace));
  if (!compression_of(content).empty()) {
    logs::Unpacking unpacked = logs::unpack(content, name);
    if (unpacked.problem) return std::unexpected(std::move(*unpacked.problem));
    if (unpacked.files.size() != 1)
      return fail(ErrorCode::invalid_argument, fmt::format("{} holds {} files, not one", name, unpacked.files.size()),
                  "unpack it, and name the trace");
    content = std::move(unpacked.files[0].bytes);
  }
  return memtrace::read_trace(content, name, {.device = device});
}

}  // namespace gpuwarden::cli
