// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/driver/request.hpp"

#include <fmt/format.h>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"

namespace gpuwarden::driver {

namespace {

Result<int> parse_branch(std::string_view text) {
  const auto number = parse_integer(text.starts_with('R') ? text.substr(1) : text);
  if (number && *number >= 300 && *number <= 9999) return static_cast<int>(*number);
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a driver branch", printable(text)),
              "for example --branch 580");
}

Result<knowledge::Version> parse_driver_version(std::string_view text) {
  const auto version = knowledge::read_version(text);
  if (version && text.contains('.')) return *version;
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a driver version", printable(text)),
              "for example --driver-version 580.126.09");
}

}  // namespace

Result<DriverRequest> read_request(const NamedValues& values, const knowledge::Knowledge& knowledge) {
  DriverRequest request;
  GPUWARDEN_TRY(const auto branch, read_option(values, "branch", parse_branch));
  GPUWARDEN_TRY(const auto version, read_option(values, "driver-version", parse_driver_version));
  request.branch = branch.value_or(0);
  request.version = values.text("driver-version").value_or("");
  if (branch && version && *branch != version->major)
    return values.refuse(fmt::format("--driver-version {} is not of the branch {}", request.version, *branch));
  GPUWARDEN_TRY(request.packaging, choice_option(values, "packaging", packaging_from, "value",
                                                 "distribution, cuda-repository or runfile"));
  GPUWARDEN_TRY(request.flavour,
                choice_option(values, "module", facts::module_flavour_from, "value", "open or proprietary"));
  request.runfile = values.text("runfile").value_or("");
  if (!branch && !version) request.version = version_of_runfile(request.runfile);
  GPUWARDEN_TRY(request.cuda, read_option(values, "cuda", knowledge::read_version));
  if (const auto text = values.text("for")) {
    GPUWARDEN_TRY(request.purpose, doctor::read_purpose(*text, knowledge));
  }
  request.compute_only = values.has("compute-only");
  request.through_reboot = values.has("through-reboot");
  request.forced = values.list("force");
  return request;
}

}  // namespace gpuwarden::driver
