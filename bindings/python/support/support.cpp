// SPDX-License-Identifier: Apache-2.0
#include "support/support.hpp"

#include <nanobind/stl/string.h>

#include <cmath>

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

void translate_exceptions() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    const auto set = [](const Error& error) {
      try {
        raise(error);
      } catch (nb::python_error& raised) {
        raised.restore();
      }
    };
    try {
      std::rethrow_exception(thrown);
    } catch (const Refused& refused) {
      set(refused.error());
    } catch (const nlohmann::json::exception& problem) {
      set({ErrorCode::invalid_argument, std::string("an argument has the wrong type: ") + problem.what(), ""});
    }
  });
}

std::chrono::milliseconds milliseconds_of(const char* name, double seconds) {
  constexpr double kLongest = 100 * 365.0 * 86400;
  if (std::isnan(seconds))
    throw Refused({ErrorCode::invalid_argument, std::string(name) + ": NaN is not a number of seconds", ""});
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::clamp(seconds, -kLongest, kLongest) * 1000));
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
