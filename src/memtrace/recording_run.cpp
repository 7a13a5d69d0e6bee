// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/recording_run.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/own_files.hpp"

namespace gpuwarden::memtrace {

namespace fs = std::filesystem;

Result<fs::path> preload_library(const Environment& environment) {
  const auto given = environment.find("GPUWARDEN_MEMTRACE_LIBRARY");
  const bool named = given != environment.end() && !given->second.empty();
  const fs::path library = named ? fs::path(given->second) : own_file("libgpuwarden_memtrace.so");
  std::error_code error;
  if (fs::is_regular_file(library, error)) return fs::absolute(library);
  return fail(ErrorCode::unavailable, fmt::format("there is no {}", library.string()),
              "it belongs to gpuwarden: reinstall it, or name the library with GPUWARDEN_MEMTRACE_LIBRARY");
}

Environment traced_environment(Environment environment, const fs::path& library, const fs::path& part) {
  std::string& preload = environment["LD_PRELOAD"];
  preload = library.string() + (preload.empty() ? "" : ":" + preload);
  environment["GPUWARDEN_MEMTRACE_FILE"] = part.string();
  return environment;
}

Result<TracedRun> prepare_traced_run(const fs::path& wanted, Environment environment) {
  GPUWARDEN_TRY(const fs::path library, preload_library(environment));
  TracedRun run{.wanted = fs::absolute(wanted)};
  run.part = run.wanted.string() + ".part";
  GPUWARDEN_CHECK(write_file_atomically(run.part, ""));
  std::error_code ignored;
  fs::remove(run.part, ignored);
  run.environment = traced_environment(std::move(environment), library, run.part);
  return run;
}

std::vector<TraceSummary> collect_traces(const fs::path& part, const fs::path& wanted) {
  const std::string beginning = part.filename().string();
  std::vector<fs::path> found;
  for (const fs::path& file : list_directory(part.has_parent_path() ? part.parent_path() : fs::path("."))) {
    if (file.filename().string().starts_with(beginning)) found.push_back(file);
  }
  std::vector<TraceSummary> all;
  for (const fs::path& file : found) {
    const std::string pid = file.filename().string().substr(beginning.size());
    const fs::path name = found.size() == 1 ? wanted : fs::path(wanted.string() + pid);
    std::error_code error;
    fs::rename(file, name, error);
    all.push_back(summarize(error ? file : name));
  }
  return all;
}

}  // namespace gpuwarden::memtrace
