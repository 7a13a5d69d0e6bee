// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/explain.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/json.hpp"
#include "gpuwarden/diagnosis/causes.hpp"
#include "gpuwarden/diagnosis/terms.hpp"

namespace gpuwarden::logs {

Result<Explanation> explain(std::string_view question, const knowledge::Knowledge& knowledge) {
  Explanation result{.question = std::string(trim(question))};
  if (result.question.empty())
    return fail(ErrorCode::invalid_argument, "nothing to look up is given",
                "a cause (--list shows all), xid=79, or a line of a log in quotes");
  result.memory_terms = to_lower(result.question) == "memory";
  if (result.memory_terms) return result;
  result.lookup = diagnosis::look_up(result.question, knowledge);
  if (result.lookup.xid) result.xid = compat::answer_xid(knowledge, *result.lookup.xid);
  return result;
}

nlohmann::json to_json(const Explanation& explanation) {
  using Json = nlohmann::json;
  if (explanation.memory_terms)
    return {{"question", explanation.question}, {"found", true}, {"terms", diagnosis::memory_terms_json()}};
  Json json = diagnosis::to_json(explanation.lookup);
  json["question"] = explanation.question;
  json["found"] = explanation.found();
  json["xid"] = explanation.xid ? compat::to_json(*explanation.xid) : Json();
  return json;
}

}  // namespace gpuwarden::logs
