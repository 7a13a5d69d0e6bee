// SPDX-License-Identifier: Apache-2.0
#include "render/causes_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/causes.hpp"
#include "gpuwarden/diagnosis/terms.hpp"
#include "render/compat_text.hpp"
#include "render/diagnosis_text.hpp"

namespace gpuwarden::cli {
namespace {

using diagnosis::steps_of_all_programs;
using knowledge::DiagnosisCause;
using knowledge::DiagnosisRule;
using knowledge::Role;

constexpr std::size_t kExamples = 4;

std::string_view role_text(Role role) {
  if (role == Role::root) return "names its cause by itself";
  if (role == Role::symptom) return "is the cause only where nothing else explains it";
  return role == Role::weak ? "is a hint, where nothing better is there" : "names no cause";
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

/// Lines that speak for the cause, one of each rule.
std::string examples_text(const DiagnosisCause& cause, bool all, const Style& style) {
  std::vector<const DiagnosisRule*> rules = diagnosis::rules_of(cause);
  std::erase_if(rules, [](const DiagnosisRule* rule) { return rule->examples.empty(); });
  if (rules.empty()) return "";
  const auto example_text = [&](const DiagnosisRule* rule) {
    std::string line(rule->examples[0].text);
    std::ranges::replace(line, '\n', ' ');
    std::string text = paragraph(printable(line), 5, 7, style);
    if (rule->role != Role::root)
      text += fmt::format("       {}\n", style.paint(fmt::format("({})", role_text(rule->role)), Tone::dim));
    return text;
  };
  return "   lines that show it:\n" + first_of(rules, all ? rules.size() : kExamples, 5, "", example_text);
}

std::string known_cause_text(const DiagnosisCause& cause, bool all, const Style& style) {
  std::string text = fmt::format("{}  {}\n", style.paint(cause.title, Tone::bold),
                                 style.paint(fmt::format("[{}, {}]", cause.id, cause.area), Tone::dim));
  if (!cause.summary.empty()) text += paragraph(cause.summary.back(), 3, 3, style);
  text += examples_text(cause, all, style);
  text += steps_text("do", steps_of_all_programs(cause.fix), 3, style);
  text += steps_text("to make sure", steps_of_all_programs(cause.confirm), 3, style);
  text += labelled("usually follows", named({cause.explains.begin(), cause.explains.end()}), style);
  text += labelled("may follow from", named(diagnosis::follows_from(cause)), style);
  text += labelled("read", cause.link, style);
  return text + labelled("source", cause.source, style);
}

std::string memory_terms_text(const Style& style) {
  std::string text = "What messages about GPU memory call what:\n";
  for (const diagnosis::Term& term : diagnosis::memory_terms()) text += labelled(term.name, term.meaning, style, 6);
  return text;
}

}  // namespace

std::string causes_text() {
  std::string text;
  std::string_view area;
  for (const DiagnosisCause* cause : diagnosis::causes_by_area()) {
    if (cause->area != area) text += fmt::format("{}:\n", cause->area);
    area = cause->area;
    text += fmt::format("  {:<28} {}; {}; {}\n", cause->id, cause->title,
                        counted(diagnosis::rules_of(*cause).size(), "rule"), cause->link);
  }
  return text;
}

std::string explanation_text(const logs::Explanation& explanation, bool all, const Style& style) {
  if (explanation.memory_terms) return memory_terms_text(style);
  const diagnosis::Lookup& lookup = explanation.lookup;
  std::string text;
  if (lookup.cuda_code)
    text += fmt::format("{} is an error code of CUDA{}.\n", *lookup.cuda_code, lookup.xid ? ", too" : "");
  for (const DiagnosisRule* rule : lookup.rules)
    text += fmt::format("It fits {}, which {}.\n", rule->id, role_text(rule->role));
  for (std::size_t i = 0; i < lookup.causes.size(); ++i) {
    const DiagnosisCause& cause = *lookup.causes[i];
    if (i == 0 || all)
      text += (text.empty() ? "" : "\n") + known_cause_text(cause, all, style);
    else
      text += fmt::format("{}  {:<28} {}\n", i == 1 ? "\nalso:\n" : "", cause.id, cause.title);
  }
  if (!explanation.xid) return text;
  return xid_text(*explanation.xid, style) + (lookup.causes.empty() ? "" : "\n") + text;
}

}  // namespace gpuwarden::cli
