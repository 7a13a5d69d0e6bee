// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/ssh.hpp"

#include <fmt/format.h>

#include <ranges>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::hosts {
namespace {

/// ssh's own exit code where it could not connect, or lost the connection (ssh(1)).
constexpr int kSshFailed = 255;
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

/// A '~' means the user's folder only where nothing is quoted around it.
std::string program_word(const std::string& program) {
  return program.starts_with("~/") ? "~/" + shell_word(program.substr(2)) : shell_word(program);
}

/// The last lines that say something, in one.
std::string last_words(std::string_view said) {
  constexpr std::size_t kLines = 3;
  std::vector<std::string> lines;
  for (const std::string_view whole : split(said, '\n') | std::views::reverse) {
    const std::string_view line = trim(whole);
    if (!line.empty() && lines.size() < kLines) lines.insert(lines.begin(), printable(line));
  }
  return join(lines, "; ");
}

}  // namespace

Command ssh_command(const Host& host, const SshOptions& options) {
  const std::string program = program_word(options.program);
  Command command;
  command.argv = {"sh", "-c", "exec " + options.ssh + " \"$@\"", "ssh"};
  for (const std::string& setting :
       {std::string("BatchMode=yes"), fmt::format("ConnectTimeout={}", options.connect_timeout.count()),
        std::string("ServerAliveInterval=5"), std::string("ServerAliveCountMax=3"),
        // A connection that others share would stay behind, and ports that a configuration forwards are taken by the
        // user's own session.
        std::string("ControlMaster=no"), std::string("ClearAllForwardings=yes")}) {
    command.argv.emplace_back("-o");
    command.argv.push_back(setting);
  }
  command.argv.emplace_back("-T");
  command.argv.push_back(host.name);
  command.argv.push_back(fmt::format("{} --version && exec {} host-agent", program, program));
  return command;
}

Error explain(const Host& host, const SshEnd& end, const SshOptions& options) {
  const std::string words = last_words(end.said);
  const std::string behind = words.empty() ? "" : ": " + words;
  if (end.exit_code == kSshFailed)
    return {ErrorCode::unavailable, fmt::format("cannot connect to {}{}", host.name, behind),
            fmt::format("'ssh {}' has to work without a question: a key (ssh-copy-id), a known host key; --ssh "
                        "\"ssh -p 2222\" gives options",
                        host.name)};
  if (end.exit_code == kNotFound || end.exit_code == kNotExecutable)
    return {
        ErrorCode::unavailable, fmt::format("there is no gpuwarden on {}{}", host.name, behind),
        fmt::format("install it there so that 'ssh {} {} --version' finds it, or name it with --remote-program PATH",
                    host.name, options.program)};
  if (end.signal)
    return {ErrorCode::unavailable, fmt::format("ssh to {} was ended by signal {}{}", host.name, *end.signal, behind),
            ""};
  return {ErrorCode::unavailable,
          fmt::format("gpuwarden on {} ended with exit code {} instead of an answer{}", host.name,
                      end.exit_code.value_or(0), behind),
          fmt::format("see what 'ssh {} {} --version' says", host.name, options.program)};
}

Error explain_loss(const Host& host, const SshEnd& end) {
  const std::string words = last_words(end.said);
  std::string why = fmt::format("gpuwarden there ended with exit code {}", end.exit_code.value_or(0));
  if (end.exit_code == kSshFailed) why = words.empty() ? "the connection was closed" : words;
  if (end.signal) why = fmt::format("ssh was ended by signal {}", *end.signal);
  return {ErrorCode::unavailable, fmt::format("lost {}: {}", host.name, why), "is the host down, or the network?"};
}

std::string_view version_in(std::string_view line) {
  constexpr std::string_view kName = "gpuwarden ";
  line = trim(line);
  return line.starts_with(kName) && !line.substr(kName.size()).contains(' ') ? line.substr(kName.size())
                                                                             : std::string_view();
}

std::optional<Error> version_problem(const Host& host, std::string_view theirs, std::string_view ours) {
  if (theirs == ours) return std::nullopt;
  return Error{ErrorCode::unavailable,
               fmt::format("{} has gpuwarden {}, this is {}", host.name,
                           theirs.empty() ? "of another version" : printable(theirs), ours),
               "install the same version on all hosts"};
}

}  // namespace gpuwarden::hosts
