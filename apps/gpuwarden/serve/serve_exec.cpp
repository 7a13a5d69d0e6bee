// SPDX-License-Identifier: Apache-2.0
// Of gpuwarden: becomes gpuwarden-serve, with the same arguments.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "gpuwarden/base/child.hpp"
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
  ::execve(program.c_str(), ExecArray(words).get(), ExecArray(environment).get());
  Error error = error_from_errno(errno, fmt::format("cannot start {}", program.string()));
  error.code = ErrorCode::unavailable;
  error.hint = "it is part of the package gpuwarden: install it again, or build the target gpuwarden-serve";
  return std::unexpected(std::move(error));
}

}  // namespace gpuwarden::cli
