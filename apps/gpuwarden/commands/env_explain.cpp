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

using knowledge::KnownVariable;

std::optional<std::string> value_here(const Context& context, const KnownVariable& variable) {
  const auto found = context.environment.find(std::string(variable.name));
  return found == context.environment.end() ? std::nullopt : std::optional(found->second);
}

void print_one(const Context& context, const KnownVariable& variable) {
  fmt::print("{}\n  {}\n  values:  {}\n  default: {}\n  when:    {}\n", variable.name, variable.meaning,
             variable.values, variable.default_value, variable.when);
  if (const auto value = value_here(context, variable)) fmt::print("  here:    {}\n", printable(*value));
  fmt::print("  source:  {}\n", variable.source);
}

}  // namespace

Result<int> env_explain(Context& context) {
  GPUWARDEN_TRY(const auto variables, knowledge::find_known_variables(context.args.rest));
  if (context.args.has("json")) {
    print_json(toolkits::to_json(variables, context.environment));
    return kFine;
  }
  const bool in_full = variables.size() == context.args.rest.size();
  for (const auto* one : variables) {
    if (in_full)
      print_one(context, *one);
    else
      fmt::print("{:<35} {}\n", one->name, one->meaning);
  }
  return kFine;
}

Result<int> env_generate(Context& context) {
  const auto& rest = context.args.rest;
  if (rest.size() != 1)
    return fail(ErrorCode::invalid_argument, "env generate: name one software", "nccl, vllm or pytorch");
  // An unknown word is refused before the machine is asked.
  GPUWARDEN_CHECK(toolkits::suggest(to_lower(rest.front()), {}));
  GPUWARDEN_TRY(const auto shell, shell_of(context));
  GPUWARDEN_TRY(const auto snapshot, look_around(context, true));
  GPUWARDEN_TRY(const auto suggestions, toolkits::suggest(to_lower(rest.front()), snapshot));
  if (context.args.has("json")) {
    print_json(toolkits::to_json(suggestions, snapshot));
    return kFine;
  }
  if (suggestions.empty()) say("gpuwarden: nothing here asks for variables of {}\n", printable(rest.front()));
  fmt::print("{}", toolkits::script_of(shell, suggestions));
  return kFine;
}

}  // namespace gpuwarden::cli
