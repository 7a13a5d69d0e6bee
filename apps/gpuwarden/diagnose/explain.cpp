// SPDX-License-Identifier: Apache-2.0
#include "diagnose/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/json.hpp"
#include "gpuwarden/diagnosis/causes.hpp"
#include "gpuwarden/diagnosis/terms.hpp"
#include "machine.hpp"
#include "render/compat_text.hpp"
#include "render/diagnosis_text.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

using diagnosis::Lookup;
using knowledge::DiagnosisCause;
using knowledge::DiagnosisRule;
using knowledge::Role;
using Json = nlohmann::json;

constexpr std::size_t kExamples = 4;

/// "[vllm,sglang] step" as "vllm,sglang: step".
std::vector<std::string> texts_of(std::span<const std::string_view> texts) {
  std::vector<std::string> all;
  for (const std::string_view text : texts) {
    const std::size_t close = text.find("] ");
    const bool of_program = text.starts_with('[') && close != std::string_view::npos;
    all.push_back(of_program ? fmt::format("{}: {}", text.substr(1, close - 1), text.substr(close + 2))
                             : std::string(text));
  }
  return all;
}

/// The areas in the order of the data.
std::vector<std::string_view> areas() {
  std::vector<std::string_view> names;
  for (const DiagnosisCause& cause : knowledge::diagnosis_causes()) {
    if (std::ranges::find(names, cause.area) == names.end()) names.push_back(cause.area);
  }
  return names;
}

std::string_view words_for(Role role) {
  switch (role) {
    case Role::root:
      return "names its cause by itself";
    case Role::symptom:
      return "is the cause only where nothing else explains it";
    case Role::weak:
      return "is a hint, where nothing better is there";
    case Role::context:
    case Role::silence:
    case Role::ordinary:
    case Role::harmless:
      break;
  }
  return "names no cause";
}

/// "nccl_timeout (Collectives time out), peer_rank_died (...)"; of many the ids alone.
std::string named(const std::vector<std::string>& ids) {
  constexpr std::size_t kFew = 3;
  if (ids.size() > kFew) return join(ids, ", ");
  std::vector<std::string> names;
  for (const std::string& id : ids) {
    const DiagnosisCause* cause = knowledge::diagnosis_cause(id);
    names.push_back(cause == nullptr ? id : fmt::format("{} ({})", id, cause->title));
  }
  return join(names, ", ");
}

std::string labelled(const std::string& label, std::string_view words, const Style& style) {
  const std::string head = fmt::format("   {}: ", label);
  return words.empty() ? "" : head + wrapped(words, head.size(), head.size(), style.width) + "\n";
}

/// Lines that speak for the cause, one of each rule.
std::string examples_text(const DiagnosisCause& cause, bool all, const Style& style) {
  std::vector<const DiagnosisRule*> rules = diagnosis::rules_of(cause);
  std::erase_if(rules, [](const DiagnosisRule* rule) { return rule->examples.empty(); });
  if (rules.empty()) return "";
  std::string text = "   lines that show it:\n";
  const std::size_t shown = all ? rules.size() : std::min(kExamples, rules.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string line = join(texts_of(split(rules[i]->examples[0].text, '\n')), " ");
    text += fmt::format("     {}\n", wrapped(printable(line), 5, 7, style.width));
    if (rules[i]->role != Role::root)
      text += fmt::format("       {}\n", style.paint(fmt::format("({})", words_for(rules[i]->role)), Tone::dim));
  }
  if (shown < rules.size()) text += fmt::format("     ({} more: --all)\n", rules.size() - shown);
  return text;
}

std::string cause_text(const DiagnosisCause& cause, bool all, const Style& style) {
  std::string text = fmt::format("{}  {}\n", style.paint(cause.title, Tone::bold),
                                 style.paint(fmt::format("[{}, {}]", cause.id, cause.area), Tone::dim));
  if (!cause.summary.empty()) text += fmt::format("   {}\n", wrapped(cause.summary.back(), 3, 3, style.width));
  text += examples_text(cause, all, style);
  text += steps_text("do", texts_of(cause.fix), 3, style);
  text += steps_text("to make sure", texts_of(cause.confirm), 3, style);
  text += labelled("usually follows", named(texts_of(cause.explains)), style);
  text += labelled("may follow from", named(diagnosis::follows_from(cause)), style);
  text += labelled("read", cause.link, style);
  return text + labelled("source", cause.source, style);
}

/// What the text is, and the other causes that it may mean.
std::string lookup_text(const Lookup& lookup, bool all, const Style& style) {
  std::string text;
  if (lookup.cuda_code)
    text += fmt::format("{} is an error code of CUDA{}.\n", *lookup.cuda_code, lookup.xid ? ", too" : "");
  for (const DiagnosisRule* rule : lookup.rules) {
    text += fmt::format("It fits {}, which {}.\n", rule->id, words_for(rule->role));
  }
  for (std::size_t i = 0; i < lookup.causes.size(); ++i) {
    const DiagnosisCause& cause = *lookup.causes[i];
    if (i == 0 || all)
      text += (text.empty() ? "" : "\n") + cause_text(cause, all, style);
    else
      text += fmt::format("{}  {:<28} {}\n", i == 1 ? "\nalso:\n" : "", cause.id, cause.title);
  }
  return text;
}

}  // namespace

Result<int> list_causes(const Context& context) {
  if (context.args.has("json")) {
    print_json(diagnosis::causes_json());
    return kFine;
  }
  std::string text;
  for (const std::string_view area : areas()) {
    text += fmt::format("{}:\n", area);
    for (const DiagnosisCause& cause : knowledge::diagnosis_causes()) {
      if (cause.area != area) continue;
      const std::size_t rules = diagnosis::rules_of(cause).size();
      text += fmt::format("  {:<28} {}; {} {}; {}\n", cause.id, cause.title, rules, rules == 1 ? "rule" : "rules",
                          cause.link);
    }
  }
  fmt::print("{}", text);
  return kFine;
}

Result<int> explain(const Context& context) {
  std::vector<std::string> words = context.args.rest;
  words.insert(words.begin(), context.args.text("explain").value_or(""));
  const std::string what(trim(join(words, " ")));
  if (what.empty())
    return fail(ErrorCode::invalid_argument, "--explain: nothing to look up is given",
                "a cause (--list shows all), xid=79, or a line of a log in quotes");
  GPUWARDEN_TRY(const knowledge::Knowledge knowledge, open_knowledge(context));
  GPUWARDEN_TRY(const Style style, style_of(context));
  if (to_lower(what) == "memory") {
    if (context.args.has("json"))
      print_json({{"question", what}, {"found", true}, {"terms", diagnosis::memory_terms_json()}});
    else
      fmt::print("{}", memory_terms_text(style));
    return kFine;
  }
  const Lookup lookup = diagnosis::look_up(what, knowledge);
  std::optional<compat::XidAnswer> xid;
  if (lookup.xid) xid = compat::answer_xid(knowledge, *lookup.xid);
  const bool found = !lookup.causes.empty() || (xid && xid->positive);
  if (context.args.has("json")) {
    Json json = diagnosis::to_json(lookup);
    json.update({{"question", what}, {"found", found}, {"xid", xid ? compat::to_json(*xid) : Json()}});
    print_json(json);
    return found ? kFine : kNo;
  }
  if (xid) fmt::print("{}{}", xid_text(*xid, style), lookup.causes.empty() ? "" : "\n");
  if (!xid && !found)
    return fail(ErrorCode::unsatisfied, fmt::format("nothing is known about '{}'", printable(what)),
                lookup.nearest.empty() ? "gpuwarden diagnose --list shows every cause"
                                       : fmt::format("did you mean '{}'?", lookup.nearest));
  fmt::print("{}", lookup_text(lookup, context.args.has("all"), style));
  return found ? kFine : kNo;
}

}  // namespace gpuwarden::cli
