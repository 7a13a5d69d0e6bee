// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory trace: a command with its allocations of GPU memory noted down.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/script.hpp"
#include "machine.hpp"
#include "memory/actions.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kDefaultFile = "memory-trace.csv";

/// Beside the program: ../lib/gpuwarden, in a build tree as where it is installed.
Result<fs::path> preload_library(const Environment& environment) {
  const auto given = environment.find("GPUWARDEN_MEMTRACE_LIBRARY");
  std::error_code error;
  const fs::path library = given != environment.end() && !given->second.empty()
                               ? fs::path(given->second)
                               : fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() /
                                     "lib/gpuwarden/libgpuwarden_memtrace.so";
  if (fs::is_regular_file(library, error)) return fs::absolute(library);
  return fail(ErrorCode::unavailable, fmt::format("there is no {}", library.string()),
              "it belongs to gpuwarden: install it anew, or name the library with GPUWARDEN_MEMTRACE_LIBRARY");
}

/// What one process wrote.
struct Written {
  fs::path file;
  std::string error;
  std::size_t allocations = 0;
  std::size_t frees = 0;
  Bytes peak;
  Bytes at_end;
};

Bytes live_at_end(const memtrace::Trace& trace) {
  std::vector<std::uint64_t> sizes(trace.blocks);
  std::uint64_t live = 0;
  for (const memtrace::Event& event : trace.events) {
    if (!event.frees) sizes[event.block] = event.size;
    live += event.frees ? -sizes[event.block] : event.size;
  }
  return Bytes(live);
}

Written look_at(const fs::path& file) {
  Written written{.file = file};
  constexpr std::size_t kLargest = std::size_t{16} << 30U;
  const auto content = read_file(file, kLargest);
  const auto trace = content ? memtrace::read_trace(*content, file.string()) : std::unexpected(content.error());
  if (!trace) {
    written.error = trace.error().message;
    return written;
  }
  written.frees = static_cast<std::size_t>(std::ranges::count(trace->events, true, &memtrace::Event::frees));
  written.allocations = trace->events.size() - written.frees;
  written.peak = memtrace::make_script(*trace, std::array{0U}).peak_requested;
  written.at_end = live_at_end(*trace);
  return written;
}

/// Gives the files their names: the command's own gets the one that was asked for, other processes' have their pid
/// behind it. If only one process has written, it gets the name, too.
std::vector<Written> collect(const fs::path& part, const fs::path& wanted) {
  std::vector<fs::path> found;
  const fs::path folder = part.has_parent_path() ? part.parent_path() : fs::path(".");
  for (const fs::path& file : list_directory(folder)) {
    if (file.filename().string().starts_with(part.filename().string())) found.push_back(file);
  }
  std::vector<Written> all;
  std::error_code ignored;
  for (const fs::path& file : found) {
    const std::string pid = file.filename().string().substr(part.filename().string().size());
    const fs::path name = found.size() == 1 ? wanted : fs::path(wanted.string() + pid);
    fs::rename(file, name, ignored);
    all.push_back(look_at(ignored ? file : name));
  }
  return all;
}

void tell(const std::vector<Written>& all, const std::string& command) {
  if (all.empty()) {
    warn(fmt::format("no allocation of GPU memory was seen in {}", printable(command)));
    fmt::print(stderr,
               "hint: it may have used no GPU, or be linked statically or setuid, so that no library can be put before "
               "it\n");
    return;
  }
  for (const Written& one : all) {
    if (!one.error.empty()) {
      warn(one.error);
      continue;
    }
    fmt::print(stderr, "gpuwarden: {}: {} allocations, {} frees, at most {} live, {} live at the end\n",
               one.file.string(), one.allocations, one.frees, format_size(one.peak), format_size(one.at_end));
  }
  fmt::print(
      stderr,
      "gpuwarden: next: gpuwarden memory replay {} --strategy all\n"
      "gpuwarden: a framework's own pool asks the driver for whole segments. What happens in them shows PyTorch's "
      "torch.cuda.memory._record_memory_history(), or GPUWARDEN_MEMORY_TRACE=FILE with gpuwarden's library for "
      "PyTorch.\n",
      all.front().file.string());
}

Json as_json(const std::vector<Written>& all, int code) {
  Json json{{"schema", 1}, {"exit_code", code}, {"traces", Json::array()}};
  for (const Written& one : all)
    json["traces"].push_back({{"file", one.file.string()},
                              {"problem", one.error.empty() ? Json() : Json(one.error)},
                              {"allocations", one.allocations},
                              {"frees", one.frees},
                              {"peak_live_bytes", one.peak.value},
                              {"live_at_end_bytes", one.at_end.value}});
  return json;
}

/// Runs the words with the library before them; the exit code as shells tell it.
int run_traced(std::vector<std::string> words, const Environment& more, const fs::path& library, const fs::path& part) {
  const pid_t pid = ::fork();
  if (pid < 0) return complain(error_from_errno(errno, "cannot start " + words[0]));
  if (pid == 0) {
    for (const auto& [name, value] : more) ::setenv(name.c_str(), value.c_str(), 1);
    const char* const before = std::getenv("LD_PRELOAD");
    const std::string preload =
        library.string() + (before == nullptr || *before == '\0' ? "" : fmt::format(":{}", before));
    ::setenv("LD_PRELOAD", preload.c_str(), 1);
    ::setenv("GPUWARDEN_MEMTRACE_FILE", part.c_str(), 1);
    ::setenv("GPUWARDEN_MEMTRACE_PID", std::to_string(::getpid()).c_str(), 1);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    const int error = errno;
    complain(error_from_errno(error, "cannot run " + words[0]));
    ::_exit(error == ENOENT ? kNotFound : kNotExecutable);
  }
  // Who presses Ctrl-C means the command; its trace is still summed up.
  for (const int signal : {SIGINT, SIGQUIT}) ::signal(signal, SIG_IGN);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<int> memory_trace(Context& context) {
  const std::vector<std::string> words(context.args.rest.begin() + 1, context.args.rest.end());
  if (words.empty())
    return fail(ErrorCode::invalid_argument, "memory trace: no command was given",
                "gpuwarden memory trace -o trace.csv -- python train.py");
  GPUWARDEN_TRY(const fs::path library, preload_library(context.environment));
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  const fs::path wanted = fs::absolute(context.args.text("output").value_or(std::string(kDefaultFile)));
  const fs::path part = wanted.string() + ".part";
  if (auto writable = write_file_atomically(part, ""); !writable) return std::unexpected(std::move(writable.error()));
  std::error_code ignored;
  fs::remove(part, ignored);
  const Environment more = machine.simulated() ? machine.simulated_environment(context.environment) : Environment{};
  const int code = run_traced(words, more, library, part);
  const auto written = collect(part, wanted);
  tell(written, words[0]);
  if (context.args.has("json")) fmt::print("{}\n", as_json(written, code).dump(2));
  return code;
}

}  // namespace gpuwarden::cli
