// SPDX-License-Identifier: Apache-2.0
#include "telemetry/sink_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace gpuwarden::telemetry {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kLookMilliseconds = 20;
constexpr std::size_t kMostWords = 4096;

/// The input as a file, so that a command that does not read it holds nobody up.
Result<UniqueFd> file_of(const std::string& input) {
  UniqueFd file(::memfd_create("alert", MFD_CLOEXEC));
  if (!file) return std::unexpected(error_from_errno(errno, "cannot make a file in memory"));
  GPUWARDEN_CHECK(write_descriptor(file.get(), input, "a file in memory"));
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

/// Its streams, an own process group, and no signal blocked or ignored.
class SpawnSettings {
 public:
  SpawnSettings(int in, int err) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_adddup2(&files_, in, STDIN_FILENO);
    ::posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files_, err, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes_);
    sigset_t set;
    sigemptyset(&set);
    ::posix_spawnattr_setsigmask(&attributes_, &set);
    sigfillset(&set);
    ::posix_spawnattr_setsigdefault(&attributes_, &set);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

/// Waits a little for words, and keeps the first of them.
void hear(UniqueFd& from, std::string& words) {
  pollfd waiting{from.get(), POLLIN, 0};
  if (::poll(&waiting, 1, kLookMilliseconds) <= 0 || waiting.revents == 0) return;
  std::array<char, 4096> block;
  const ssize_t got = ::read(from.get(), block.data(), block.size());
  if (got == 0) from.reset();
  if (got > 0) words.append(block.data(), std::min(static_cast<std::size_t>(got), kMostWords - words.size()));
}

std::string first_line(const std::string& words) {
  return printable(trim(std::string_view(words).substr(0, words.find('\n'))));
}

Result<void> judge_status(const std::string& program, int status, const std::string& words) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  std::string what = WIFEXITED(status) ? fmt::format("{} ended with exit code {}", program, WEXITSTATUS(status))
                                       : fmt::format("{} was ended by signal {}", program, WTERMSIG(status));
  if (!words.empty()) what += ": " + first_line(words);
  return fail(ErrorCode::failed, std::move(what));
}

}  // namespace

Result<void> run_sink_command(const std::vector<std::string>& argv, const std::string& input,
                              std::chrono::milliseconds time, const std::stop_token& stop) {
  if (argv.empty()) return fail(ErrorCode::invalid_argument, "no command was given");
  GPUWARDEN_TRY(const UniqueFd file, file_of(input));
  GPUWARDEN_TRY(Pipe errors, make_pipe());
  const SpawnSettings settings(file.get(), errors.write_end.get());
  const ExecArray arguments(argv);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, argv[0].c_str(), settings.files(), settings.attributes(), arguments.get(), environ);
  if (error != 0) return std::unexpected(error_from_errno(error, "cannot run " + argv[0]));
  errors.write_end.reset();
  const auto end = SteadyClock::now() + time;
  std::string words;
  int status = 0;
  for (;;) {
    hear(errors.read_end, words);
    const pid_t done = ::waitpid(pid, &status, WNOHANG);
    if (done == pid) return judge_status(argv[0], status, words);
    if (done < 0 && errno != EINTR) return {};  // somebody else in this program has waited for it
    if (stop.stop_requested() || SteadyClock::now() >= end) break;
  }
  ::kill(-pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  if (stop.stop_requested()) return fail(ErrorCode::interrupted, argv[0] + " was ended");
  return fail(ErrorCode::timed_out, fmt::format("{} did not end within {}", argv[0], format_duration(time)));
}

}  // namespace gpuwarden::telemetry
