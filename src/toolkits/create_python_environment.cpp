// SPDX-License-Identifier: Apache-2.0
// Carries the plan of a Python environment out, all of it or nothing.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/toolkits/python_environment.hpp"

namespace gpuwarden::toolkits {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kInterruptedCode = 128;
constexpr int kMaxBraces = 100;  ///< in what stands before conda's JSON

/// The list in conda's answer. Plugins and activation scripts write before it, so the first JSON that has one counts.
std::optional<Words> environments_in(std::string_view answer) {
  const std::size_t end = answer.rfind('}');
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = answer.find('{');
  for (int tries = 0; begin < end && tries < kMaxBraces; ++tries, begin = answer.find('{', begin + 1)) {
    const auto json = nlohmann::json::parse(answer.substr(begin, end + 1 - begin), nullptr, false);
    if (!json.is_object() || !json.contains("envs") || !json["envs"].is_array()) continue;
    Words folders;
    for (const auto& folder : json["envs"]) {
      if (!folder.is_string()) return std::nullopt;
      folders.push_back(folder.get<std::string>());
    }
    return folders;
  }
  return std::nullopt;
}

/// Environments that conda knows, by their folders. No answer is an error, not an empty list: what is not known to be
/// absent may be the user's.
Result<Words> known_environments(const PythonEnvironmentPlan& plan) {
  const Words argv{plan.program, "env", "list", "--json"};
  const auto refuse = [&](std::string_view why, ErrorCode code = ErrorCode::unavailable) {
    return fail(code, fmt::format("{}: {}", join(argv, " "), why),
                "without its list nobody can tell whether the environment exists; a folder with '/' needs no list");
  };
  const auto done = run_command({.argv = argv, .deadline = plan.list_deadline});
  if (!done) return std::unexpected(done.error());
  if (done->timed_out)
    return refuse(fmt::format("timed out after {}", format_duration(plan.list_deadline)), ErrorCode::timed_out);
  if (done->exit_code != 0) {
    const std::string_view said = trim(done->standard_error);
    return refuse(done->exit_code ? fmt::format("exit code {}{}{}", *done->exit_code, said.empty() ? "" : ": ",
                                                printable(said.substr(0, said.find('\n'))))
                                  : "was ended by a signal");
  }
  auto folders = environments_in(done->standard_output);
  if (done->truncated || !folders) return refuse("no list of environments in its answer");
  return std::move(*folders);
}

Result<bool> exists(const PythonEnvironmentPlan& plan) {
  if (plan.folder) {
    std::error_code error;
    const auto type = fs::symlink_status(*plan.folder, error).type();
    if (type == fs::file_type::not_found) return false;
    if (type == fs::file_type::none)
      return std::unexpected(error_from_errno(error.value(), "cannot look at " + plan.folder->string()));
    return true;
  }
  if (plan.name == "base") return true;  // conda's own; its folder has another name
  GPUWARDEN_TRY(const Words folders, known_environments(plan));
  return std::ranges::any_of(folders,
                             [&](const std::string& folder) { return fs::path(folder).filename() == plan.name; });
}

/// The folders above `folder` that are not there yet, the innermost first: makers make them too.
std::vector<fs::path> missing_above(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (fs::path at = folder.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    if (fs::symlink_status(at, ignored).type() != fs::file_type::not_found) break;
    missing.push_back(at);
  }
  return missing;
}

std::string undo_folder(const fs::path& folder, const std::vector<fs::path>& above) {
  std::error_code error;
  const auto removed = fs::remove_all(folder, error);
  if (error) return fmt::format("; {} could not be removed: {}", folder.string(), error.message());
  bool some = removed > 0;
  for (const fs::path& parent : above) {
    std::error_code ignored;  // one that is not empty holds something else by now, and stays
    some = fs::remove(parent, ignored) || some;
  }
  return some ? "; what it had made was removed" : "";
}

/// Takes away what a failed creation has left; only called where it was not there before. Says what was done.
std::string undo(const PythonEnvironmentPlan& plan, const std::vector<fs::path>& above) {
  if (plan.folder) return undo_folder(*plan.folder, above);
  const Words remove{plan.program, "env", "remove", "--yes", "--name", plan.name};
  const auto made = exists(plan);
  if (made && !*made) return "";
  if (made) {
    const auto done = run_command({.argv = remove, .deadline = std::chrono::minutes(10)});
    if (done && done->exit_code == 0) return "; what it had made was removed";
  }
  return fmt::format("; '{}' may be there in part: {}", plan.name, join(remove, " "));
}

}  // namespace

Result<void> create_python_environment(const PythonEnvironmentPlan& plan, const Runner& run) {
  if (!plan.installed)
    return fail(ErrorCode::unavailable, fmt::format("{} is not installed", plan.program), instead_of(plan));
  GPUWARDEN_TRY(const bool there, exists(plan));
  if (there)
    return fail(ErrorCode::invalid_argument,
                fmt::format("there is already an environment '{}'", plan.folder ? plan.folder->string() : plan.name),
                "choose another name, or remove it first");
  const auto above = plan.folder ? missing_above(*plan.folder) : std::vector<fs::path>{};
  for (const Words& command : plan.commands) {
    const auto code = run(command);
    if (code && *code == 0) continue;
    const std::string undone = undo(plan, above);
    if (!code) return fail(code.error().code, code.error().message + undone, code.error().hint);
    const bool stopped = *code > kInterruptedCode;
    return fail(stopped ? ErrorCode::interrupted : ErrorCode::failed,
                fmt::format("{}: {}{}", join(command, " "),
                            stopped ? "was interrupted" : fmt::format("failed with exit code {}", *code), undone));
  }
  return {};
}

}  // namespace gpuwarden::toolkits
