// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/question.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"

namespace gpuwarden::compat {
namespace {

/// "driver 550.54" names a driver instead of asking.
void take_driver(Inquiry& inquiry) {
  const auto words = split_words(inquiry.text);
  if (words.size() != 2 || to_lower(words[0]) != "driver" || inquiry.driver) return;
  inquiry.driver = std::string(words[1]);
  inquiry.text.clear();
}

}  // namespace

Result<Question> read_question(Inquiry& inquiry, const knowledge::Knowledge& knowledge) {
  inquiry.text = trim(inquiry.text);
  const std::string text = inquiry.text;
  if (!text.empty() && (inquiry.cuda || inquiry.purpose))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' and what a CUDA version or a purpose needs are separate questions", printable(text)),
                "ask one at a time");
  take_driver(inquiry);
  Question question;
  if (inquiry.cuda) {
    GPUWARDEN_TRY(question.cuda, parse_cuda(*inquiry.cuda));
    question.kind = "cuda";
  } else if (inquiry.purpose) {
    GPUWARDEN_TRY(doctor::Purpose purpose, doctor::read_purpose(*inquiry.purpose, knowledge));
    question = question_of(std::move(purpose));
  } else if (!inquiry.text.empty()) {
    GPUWARDEN_TRY(question, parse_question(knowledge, inquiry.text));
  } else if (inquiry.gpus.size() == 1 && !inquiry.driver && !inquiry.gpus[0].contains(',')) {
    question.kind = "gpu";
    question.gpu = inquiry.gpus[0];
  }
  question.text = !text.empty()     ? text
                  : inquiry.purpose ? *inquiry.purpose
                  : inquiry.cuda    ? "CUDA " + *inquiry.cuda
                                    : "";
  question.matrix = question.matrix || inquiry.matrix;
  if (question.matrix) question.kind = "matrix";
  return question;
}

Result<Place> with_named(const Inquiry& inquiry, Place place, const knowledge::Knowledge& knowledge) {
  if (!inquiry.gpus.empty()) {
    GPUWARDEN_TRY(place.gpus, gpus_named(inquiry.gpus, knowledge));
    place.named = true;
    place.machine.clear();  // theirs, not this one's
    place.torches.clear();
  }
  if (!inquiry.driver) return place;
  GPUWARDEN_TRY(place.driver, parse_driver(*inquiry.driver));
  place.cuda.clear();
  return place;
}

Result<Version> parse_driver(std::string_view text) {
  constexpr int kFirstBranch = 100;
  const auto driver = Version::parse(text);
  if (driver && driver->major >= kFirstBranch) return *driver;
  return fail(ErrorCode::invalid_argument, fmt::format("driver '{}' is not a driver version", printable(text)),
              "for example 550.54.15 or 550");
}

Result<std::chrono::system_clock::time_point> parse_date(std::string_view text) {
  const auto parts = split(text, '-');
  const auto number = [&](std::size_t i) { return i < parts.size() ? parse_integer(parts[i]).value_or(0) : 1; };
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(number(0))),
                                         std::chrono::month(static_cast<unsigned>(number(1))),
                                         std::chrono::day(static_cast<unsigned>(number(2))));
  if (parts.size() < 2 || parts.size() > 3 || !date.ok() || number(0) < 2000 || number(0) > 2200)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a date", printable(text)),
                "for example 2027-06 or 2027-06-30");
  return std::chrono::sys_days(date);
}

}  // namespace gpuwarden::compat
