// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/request.hpp"

#include "gpuwarden/doctor/site_purpose.hpp"

namespace gpuwarden::doctor {

Result<ExaminationRequest> read_request(const NamedValues& values, const knowledge::Knowledge& knowledge) {
  ExaminationRequest request{.choice = {values.list("only"), values.list("skip")}};
  const auto severity = [](std::string_view name) { return name == "ok" ? std::nullopt : severity_from(name); };
  GPUWARDEN_TRY(const auto fail_on,
                choice_option(values, "fail-on", severity, "severity", "info, warning, error or critical"));
  request.fail_on = fail_on.value_or(Severity::error);
  if (const auto text = values.text("for")) {
    GPUWARDEN_TRY(request.purpose, read_purpose(*text, knowledge));
  }
  GPUWARDEN_CHECK(validate(request.choice, knowledge));
  return request;
}

}  // namespace gpuwarden::doctor
