// SPDX-License-Identifier: Apache-2.0
#include "support/support.hpp"

#include <nanobind/stl/string.h>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::python {

namespace {

/// As printable(), line by line.
std::string printable_lines(std::string_view text) {
  std::string result;
  for (const std::string_view line : split(text, '\n')) result += (result.empty() ? "" : "\n") + printable(line);
  return result;
}

}  // namespace

void raise(const Error& error) {
  const nb::object type = nb::module_::import_("gpuwarden._error").attr("Error");
  const nb::object raised =
      type(std::string(to_string(error.code)), printable_lines(error.message), printable_lines(error.hint));
  PyErr_SetObject(type.ptr(), raised.ptr());
  throw nb::python_error();
}

std::string json_text(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json read_options(const std::string& text) {
  nlohmann::json options = nlohmann::json::parse(text, nullptr, false);
  if (!options.is_object()) raise({ErrorCode::invalid_argument, "the options are not a JSON object", ""});
  return options;
}

void Owner::check(const char* what) const {
  if (here()) return;
  raise({ErrorCode::unavailable,
         "this " + std::string(what) + " belongs to process " + std::to_string(pid_) +
             " and cannot be used in a process that was forked from it",
         "make a new one in the child, or start children with multiprocessing's \"spawn\""});
}

}  // namespace gpuwarden::python
