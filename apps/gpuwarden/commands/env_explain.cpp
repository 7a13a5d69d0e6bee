// SPDX-License-Identifier: Apache-2.0
// gpuwarden env explain and generate: the variables of NCCL, CUDA, PyTorch and vLLM.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands/env_parts.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/knowledge/variables.hpp"
#include "gpuwarden/toolkits/suggestions.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

using knowledge::KnownVariable;
using nlohmann::json;

/// The variable, or all of a software, or (of no word) all.
Result<std::vector<const KnownVariable*>> chosen(const std::vector<std::string>& words) {
  std::vector<const KnownVariable*> result;
  if (words.empty()) {
    for (const auto& one : knowledge::known_variables()) result.push_back(&one);
    return result;
  }
  for (const std::string& word : words) {
    const std::size_t before = result.size();
    for (const auto& one : knowledge::known_variables()) {
      if (one.software == to_lower(word)) result.push_back(&one);
    }
    if (const auto* one = knowledge::find_known_variable(word)) result.push_back(one);
    if (result.size() > before) continue;
    std::vector<std::string> names;
    for (const auto& one : knowledge::known_variables()) {
      names.emplace_back(one.name);
      if (std::ranges::find(names, one.software) == names.end()) names.emplace_back(one.software);
    }
    const std::string upper = [&] {
      std::string text = word;
      std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      return text;
    }();
    const std::string close = closest_match(upper, names);
    return fail(ErrorCode::invalid_argument, fmt::format("nothing is known about '{}'", printable(word)),
                close.empty() ? "gpuwarden env explain shows all; or: nccl, cuda, pytorch, vllm, container"
                              : fmt::format("did you mean '{}'?", close));
  }
  return result;
}

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

json as_json(const Context& context, const KnownVariable& variable) {
  const auto value = value_here(context, variable);
  return {{"name", variable.name},       {"software", variable.software},
          {"values", variable.values},   {"default", variable.default_value},
          {"meaning", variable.meaning}, {"when", variable.when},
          {"source", variable.source},   {"here", value ? json(*value) : json()}};
}

}  // namespace

int env_explain(Context& context) {
  const auto variables = chosen(context.args.rest);
  if (!variables) return complain(variables.error());
  if (context.args.has("json")) {
    json list = json::array();
    for (const auto* one : *variables) list.push_back(as_json(context, *one));
    print_json({{"schema", facts::kJsonSchema}, {"variables", list}});
    return kFine;
  }
  const bool in_full = variables->size() == context.args.rest.size();
  for (const auto* one : *variables) {
    if (in_full)
      print_one(context, *one);
    else
      fmt::print("{:<35} {}\n", one->name, one->meaning);
  }
  return kFine;
}

int env_generate(Context& context) {
  const auto& rest = context.args.rest;
  if (rest.size() != 1)
    return complain({ErrorCode::invalid_argument, "env generate: name one software", "nccl, vllm or pytorch"});
  // An unknown word is refused before the machine is asked.
  if (const auto known = toolkits::suggest(to_lower(rest.front()), {}); !known) return complain(known.error());
  const auto shell = shell_of(context);
  if (!shell) return complain(shell.error());
  const auto snapshot = look_around(context, true);
  if (!snapshot) return complain(snapshot.error());
  const auto suggestions = toolkits::suggest(to_lower(rest.front()), *snapshot);
  if (!suggestions) return complain(suggestions.error());
  if (context.args.has("json")) {
    json list = json::array();
    for (const auto& one : *suggestions)
      list.push_back({{"name", one.name.empty() ? json() : json(one.name)},
                      {"value", one.name.empty() ? json() : json(one.value)},
                      {"why", one.why}});
    print_json({{"schema", facts::kJsonSchema}, {"simulated", snapshot->simulated}, {"suggestions", list}});
    return kFine;
  }
  fmt::print("{}", toolkits::script_of(*shell, *suggestions));
  return kFine;
}

}  // namespace gpuwarden::cli
