// SPDX-License-Identifier: Apache-2.0
// Of gpuwarden: becomes gpuwarden-serve, with the same arguments.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "gpuwarden/base/own_files.hpp"
#include "serve/run_server.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;

/// Beside this program in a build tree, else where it is installed.
fs::path server_program() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path beside = here / "gpuwarden-serve";
  return fs::exists(beside, ignored) ? beside : here.parent_path() / "libexec/gpuwarden/gpuwarden-serve";
}

}  // namespace

Result<int> run_server(Context& context) {
  const fs::path program = server_program();
  std::vector<std::string> words{program.string(), context.command->name};
  words.insert(words.end(), context.typed.begin(), context.typed.end());
  Environment environment = context.environment;
  // What lies beside this program is not beside that one.
  environment.try_emplace("GPUWARDEN_SIM_LIB_DIR", own_file("sim").string());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment) settings.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> variables;
  for (std::string& setting : settings) variables.push_back(setting.data());
  variables.push_back(nullptr);
  ::execve(program.c_str(), arguments.data(), variables.data());
  Error error = error_from_errno(errno, fmt::format("cannot start {}", program.string()));
  error.code = ErrorCode::unavailable;
  error.hint = "it is part of the package gpuwarden: install it again, or build the target gpuwarden-serve";
  return std::unexpected(std::move(error));
}

}  // namespace gpuwarden::cli
