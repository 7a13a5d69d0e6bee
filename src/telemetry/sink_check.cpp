// SPDX-License-Identifier: Apache-2.0
// Whether sinks can work at all, looked at before there is an alert.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/telemetry/sinks.hpp"

namespace gpuwarden::telemetry {
namespace {

namespace fs = std::filesystem;

/// What POSIX's shell does itself (2.14, and the reserved words of 2.4), as far as a line would begin with it.
constexpr auto kOfTheShell = std::to_array<std::string_view>(
    {"!",    "(",    ".",      ":",     "[",      "alias", "case",  "cd",     "command", "echo",  "eval",
     "exec", "exit", "export", "false", "for",    "if",    "kill",  "printf", "read",    "set",   "shift",
     "test", "trap", "true",   "type",  "ulimit", "umask", "unset", "until",  "wait",    "while", "{"});

bool is_shell_line(const SinkSpec& sink) {
  return sink.command.size() == 3 && sink.command[0] == "/bin/sh" && sink.command[1] == "-c";
}

/// The program that a sink starts; empty where a shell's line does not begin with a plain one.
std::string program_of(const SinkSpec& sink) {
  if (sink.command.empty()) return {};
  if (!is_shell_line(sink)) return sink.command.front();
  const std::string_view line = trim(sink.command[2]);
  const std::string word(line.substr(0, line.find_first_of(" \t\n;|&<>")));
  const bool plain = word.find_first_of("$`'\"\\=*?~#(){}") == std::string::npos;
  return plain && std::ranges::find(kOfTheShell, word) == kOfTheShell.end() ? word : std::string();
}

bool is_program(const fs::path& file) {
  struct stat status{};
  return ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::faccessat(AT_FDCWD, file.c_str(), X_OK, AT_EACCESS) == 0;
}

Result<void> check_program(const SinkSpec& sink, std::string_view search_path) {
  const std::string program = program_of(sink);
  if (program.empty()) return {};
  if (program.find('/') != std::string::npos) {
    if (is_program(program)) return {};
    std::error_code ignored;
    const bool there = fs::is_regular_file(program, ignored);
    return fail(
        there ? ErrorCode::permission_denied : ErrorCode::not_found,
        fmt::format("alert sink '{}': {} is not {}", sink.name, printable(program), there ? "executable" : "a file"),
        there ? "chmod +x " + program : "correct its command in the rule file");
  }
  for (const std::string_view folder : split(search_path, ':')) {
    if (is_program(fs::path(folder.empty() ? "." : folder) / program)) return {};
  }
  return fail(ErrorCode::not_found,
              fmt::format("alert sink '{}': there is no program {} in PATH", sink.name, printable(program)),
              "install it, or write its whole path in the rule file");
}

Result<void> check_log(const SinkSpec& sink) {
  if (sink.target.empty()) return {};
  const fs::path folder = fs::path(sink.target).parent_path();
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return {};
  return fail(ErrorCode::not_found,
              fmt::format("alert sink '{}': {} is not a directory", sink.name, printable(folder.string())),
              "make it: mkdir -p " + folder.string());
}

}  // namespace

Result<void> check_sinks(const std::vector<SinkSpec>& sinks, std::string_view search_path) {
  for (const SinkSpec& sink : sinks) {
    if (sink.kind == SinkSpec::Kind::command) GPUWARDEN_CHECK(check_program(sink, search_path));
    if (sink.kind == SinkSpec::Kind::log) GPUWARDEN_CHECK(check_log(sink));
  }
  return {};
}

}  // namespace gpuwarden::telemetry
