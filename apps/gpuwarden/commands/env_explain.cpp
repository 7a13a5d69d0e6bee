// SPDX-License-Identifier: Apache-2.0
// gpuwarden env explain and generate: the variables of NCCL, CUDA, PyTorch and vLLM.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands/env_parts.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/variables.hpp"
#include "gpuwarden/toolkits/json.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

std::string in_full(const knowledge::KnownVariable& variable, const Environment& here) {
  const auto value = here.find(std::string(variable.name));
  return fmt::format("{}\n  {}\n  values:  {}\n  default: {}\n  when:    {}\n{}  source:  {}\n", variable.name,
                     variable.meaning, variable.values, variable.default_value, variable.when,
                     value == here.end() ? "" : fmt::format("  here:    {}\n", printable(value->second)),
                     variable.source);
}

}  // namespace

Result<int> env_explain(Context& context) {
  GPUWARDEN_TRY(const auto variables, knowledge::find_known_variables(context.args.rest));
  const bool each_named = variables.size() == context.args.rest.size();
  std::string text;
  for (const auto* one : variables)
    text += each_named ? in_full(*one, context.environment) : fmt::format("{:<35} {}\n", one->name, one->meaning);
  print_answer(context, toolkits::to_json(variables, context.environment), text);
  return kFine;
}

Result<int> env_generate(Context& context) {
  if (context.args.rest.empty())
    return fail(ErrorCode::invalid_argument, "env generate: name one software", "nccl, vllm or pytorch");
  const std::string software = to_lower(context.args.rest.front());
  // An unknown word is refused before the machine is asked.
  GPUWARDEN_CHECK(toolkits::suggest(software, {}));
  GPUWARDEN_TRY(const auto shell, shell_of(context));
  GPUWARDEN_TRY(const auto snapshot, look_around(context, true));
  GPUWARDEN_TRY(const auto suggestions, toolkits::suggest(software, snapshot));
  if (suggestions.empty() && !context.args.has("json"))
    say("gpuwarden: nothing here asks for variables of {}\n", printable(software));
  print_answer(context, toolkits::to_json(suggestions, snapshot), toolkits::script_of(shell, suggestions));
  return kFine;
}

}  // namespace gpuwarden::cli
