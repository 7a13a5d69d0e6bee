// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory trace: a command with its allocations of GPU memory noted down.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memtrace/json.hpp"
#include "machine.hpp"
#include "memory/actions.hpp"
#include "options.hpp"
#include "programs.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;

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
              "it belongs to gpuwarden: reinstall it, or name the library with GPUWARDEN_MEMTRACE_LIBRARY");
}

/// Gives the files their names: the command's own gets the one that was asked for, other processes' have their pid
/// behind it. If only one process has written, it gets the name, too.
std::vector<memtrace::TraceSummary> collect(const fs::path& part, const fs::path& wanted) {
  std::vector<fs::path> found;
  const fs::path folder = part.has_parent_path() ? part.parent_path() : fs::path(".");
  for (const fs::path& file : list_directory(folder)) {
    if (file.filename().string().starts_with(part.filename().string())) found.push_back(file);
  }
  std::vector<memtrace::TraceSummary> all;
  std::error_code ignored;
  for (const fs::path& file : found) {
    const std::string pid = file.filename().string().substr(part.filename().string().size());
    const fs::path name = found.size() == 1 ? wanted : fs::path(wanted.string() + pid);
    fs::rename(file, name, ignored);
    all.push_back(memtrace::summarize(ignored ? file : name));
  }
  return all;
}

void tell(const std::vector<memtrace::TraceSummary>& all, const std::string& command) {
  if (all.empty()) {
    warn(fmt::format("no allocation of GPU memory was seen in {}", printable(command)));
    fmt::print(stderr,
               "hint: it may have used no GPU, or be linked statically or setuid, so that no library can be put before "
               "it\n");
    return;
  }
  for (const memtrace::TraceSummary& one : all) {
    if (!one.problem.empty()) {
      warn(one.problem);
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

/// Runs the words with the library before them; the exit code as shells tell it.
Result<int> run_traced(const std::vector<std::string>& words, Environment environment, const fs::path& library,
                       const fs::path& part) {
  std::string& preload = environment["LD_PRELOAD"];
  preload = library.string() + (preload.empty() ? "" : ":" + preload);
  environment["GPUWARDEN_MEMTRACE_FILE"] = part.string();
  // Who presses Ctrl-C means the command; its trace is still summed up.
  return run_program(words, environment,
                     [](Environment& own) { own["GPUWARDEN_MEMTRACE_PID"] = std::to_string(::getpid()); });
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
  Environment environment = context.environment;
  for (const auto& [name, value] : machine.simulated_environment(context.environment)) environment[name] = value;
  GPUWARDEN_TRY(const int code, run_traced(words, std::move(environment), library, part));
  const auto written = collect(part, wanted);
  tell(written, words[0]);
  if (context.args.has("json")) print_json(memtrace::to_json(written, code));
  return code;
}

}  // namespace gpuwarden::cli
