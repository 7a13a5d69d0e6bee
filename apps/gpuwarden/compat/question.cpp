// SPDX-License-Identifier: Apache-2.0
#include "compat/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"
#include "machine.hpp"

namespace gpuwarden::cli::compat {

using doctor::Purpose;
using knowledge::Knowledge;
using knowledge::Version;

namespace {

bool begins_with_digit(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
}

Result<Version> cuda_version(std::string_view text) {
  const auto version = begins_with_digit(text) ? Version::parse(text) : std::nullopt;
  if (!version || version->major > 99)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no CUDA version", printable(text)),
                "for example 12.8, or cu128");
  return *version;
}

/// "cu128", "cuda 12.8", "cuda==12.8", "cuda12.8"; empty where the text is nothing of that kind.
Result<std::optional<Version>> cuda_of(std::string_view text) {
  if (const auto build = knowledge::cuda_of_build(text)) return build;
  if (!text.starts_with("cuda")) return std::nullopt;
  text.remove_prefix(4);
  while (!text.empty() && (text[0] == ' ' || text[0] == '=' || text[0] == '-')) text.remove_prefix(1);
  if (!begins_with_digit(text)) return std::nullopt;
  GPUWARDEN_TRY(const Version version, cuda_version(text));
  return std::optional(version);
}

/// 79 of "xid 79", "xid79".
Result<std::optional<int>> xid_of(std::string_view text) {
  if (!text.starts_with("xid")) return std::nullopt;
  const auto number = parse_integer(trim(text.substr(3)));
  if (!number || *number < 0 || *number > 99999)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no Xid", printable(text)), "for example: xid 79");
  return std::optional(static_cast<int>(*number));
}

bool is_component(const Knowledge& knowledge, std::string_view name) {
  return std::ranges::any_of(knowledge.components(), [&](const auto& row) { return row.component == name; });
}

/// Takes what parse_purpose read for the question.
void set_purpose(Question& question, Purpose purpose) {
  question.kind = purpose.package ? "package" : purpose.architecture ? "architecture" : purpose.work ? "job" : "matrix";
  // What only the site's rules know is answered where they speak: with drivers.
  question.matrix = question.kind == "matrix";
  question.purpose = std::move(purpose);
}

/// The words of the question; a blank before a version is as good as "==".
Result<Question> read_words(const Knowledge& knowledge, const std::string& text) {
  Question question{.text = text};
  const std::string lower = to_lower(trim(text));
  GPUWARDEN_TRY(question.xid, xid_of(lower));
  GPUWARDEN_TRY(question.cuda, cuda_of(lower));
  if (question.xid) question.kind = "xid";
  if (question.cuda) question.kind = "cuda";
  if (question.xid || question.cuda) return question;
  auto words = split_words(lower);
  std::string joined = lower;
  const bool verb = lower.starts_with("train ") || lower.starts_with("serve ");
  if (words.size() == 2 && begins_with_digit(words[1]) && !verb) joined = fmt::format("{}=={}", words[0], words[1]);
  auto purpose = doctor::read_purpose(joined);
  if (purpose) {
    set_purpose(question, std::move(*purpose));
    return question;
  }
  const std::size_t equals = joined.find("==");
  if (is_component(knowledge, joined.substr(0, equals))) {
    question.kind = "component";
    question.component = joined.substr(0, equals);
    if (equals != std::string::npos) question.version = joined.substr(equals + 2);
    return question;
  }
  // What has a version, or begins with a verb, was not meant for a GPU.
  if (lower.contains("==") || verb) return std::unexpected(purpose.error());
  question.kind = "gpu";
  question.gpu = text;
  return question;
}

/// "driver 550.54" is the same as --driver 550.54.
bool is_driver(Context& context, const std::string& text) {
  const auto words = split_words(text);
  if (words.size() != 2 || to_lower(words[0]) != "driver" || context.args.has("driver")) return false;
  context.args.set("driver", {std::string(words[1])});
  return true;
}

}  // namespace

Result<Question> read_question(Context& context, const Knowledge& knowledge) {
  const Args& args = context.args;
  const std::string words(trim(join(args.rest, " ")));
  const auto cuda = args.text("cuda");
  const auto purpose = args.text("for");
  if (!words.empty() && (cuda || purpose))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is a question, and so is --cuda and --for", printable(words)), "ask one at a time");
  Question question;
  if (cuda) {
    GPUWARDEN_TRY(question.cuda, cuda_version(cuda->starts_with("cu") ? "" : *cuda));
    question.kind = "cuda";
  } else if (purpose) {
    GPUWARDEN_TRY(Purpose read, doctor::read_purpose(*purpose, knowledge));
    set_purpose(question, std::move(read));
  } else if (!words.empty() && !is_driver(context, words)) {
    GPUWARDEN_TRY(question, read_words(knowledge, words));
  } else if (args.all("gpus").size() == 1 && !args.has("driver") && !args.text("gpus")->contains(',')) {
    question.kind = "gpu";
    question.gpu = *args.text("gpus");
  }
  question.text = !words.empty() ? words : purpose ? *purpose : cuda ? "CUDA " + *cuda : "";
  question.matrix = question.matrix || args.has("matrix");
  if (question.matrix) question.kind = "matrix";
  return question;
}

}  // namespace gpuwarden::cli::compat
