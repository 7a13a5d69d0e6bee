// SPDX-License-Identifier: Apache-2.0
// gpuwarden env create: a Python environment with a CUDA version.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "commands/env_parts.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/toolkits/python_environment.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {
namespace {

using toolkits::Maker;

Result<Maker> maker_for(const Context& context, const std::vector<Maker>& installed) {
  if (const auto wanted = context.args.text("tool")) {
    if (const auto maker = toolkits::maker_from(*wanted)) return *maker;
    return fail(ErrorCode::invalid_argument, fmt::format("--tool: unknown value '{}'", printable(*wanted)),
                "mamba, conda, micromamba, uv or venv");
  }
  return installed.empty() ? Maker::conda : installed.front();
}

Result<toolkits::PythonEnvironmentRequest> request_of(const Context& context) {
  const auto& rest = context.args.rest;
  if (rest.size() != 1)
    return fail(ErrorCode::invalid_argument,
                rest.empty() ? "env create: no name was given"
                             : fmt::format("env create: unexpected argument '{}'", printable(rest[1])),
                "gpuwarden env create NAME --cuda 12.4");
  const auto cuda = context.args.text("cuda");
  const auto version = cuda ? knowledge::Version::parse(*cuda) : std::nullopt;
  if (!version)
    return fail(
        ErrorCode::invalid_argument,
        cuda ? fmt::format("--cuda: '{}' is not a version", printable(*cuda)) : "env create needs --cuda VERSION",
        "for example --cuda 12.4");
  std::error_code ignored;
  return toolkits::PythonEnvironmentRequest{rest.front(), *version, context.args.text("python"),
                                            context.args.list("with"), std::filesystem::current_path(ignored)};
}

std::string shown(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

}  // namespace

Result<int> env_create(Context& context) {
  GPUWARDEN_TRY(const auto request, request_of(context));
  const auto installed = toolkits::installed_makers(context.environment);
  GPUWARDEN_TRY(const auto maker, maker_for(context, installed));
  GPUWARDEN_TRY(const auto snapshot, look_around(context, false));
  GPUWARDEN_TRY(const auto known, open_knowledge(context));
  GPUWARDEN_TRY(const auto plan,
                toolkits::plan_python_environment(request, maker, toolkits::driver_of(snapshot), known));
  for (const std::string& note : plan.notes) warn(printable(note));
  const bool there = std::ranges::find(installed, maker) != installed.end();
  if (!context.args.has("yes")) {
    for (const auto& command : plan.commands) fmt::print("{}\n", shown(command));
    fmt::print("{}\n", plan.activation);
    say("hint: {}\n", there ? "--yes runs them" : plan.program + " is not installed here");
    return kFine;
  }
  if (!there)
    return fail(ErrorCode::unavailable, fmt::format("{} is not installed", plan.program),
                installed.empty() ? "install conda, mamba, micromamba, uv or python3-venv"
                                  : fmt::format("--tool {} is", to_string(installed.front())));
  const auto run_in_sight = [&](const std::vector<std::string>& words) -> Result<int> {
    say("+ {}\n", printable(join(words, " ")));
    const auto code = launch::run_in_foreground(words, context.environment);
    return code ? *code : refuse_program(code.error());
  };
  GPUWARDEN_CHECK(toolkits::create_python_environment(plan, run_in_sight));
  fmt::print("{}\n", plan.activation);
  return kFine;
}

}  // namespace gpuwarden::cli
