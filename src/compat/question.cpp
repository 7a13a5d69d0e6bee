// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/compat/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::compat {

using doctor::Purpose;
using knowledge::Knowledge;

namespace {

bool begins_with_digit(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
}

/// "cu128", "cuda 12.8", "cuda==12.8", "cuda12.8"; empty where the text is nothing of that kind.
Result<std::optional<Version>> cuda_of(std::string_view text) {
  if (const auto build = knowledge::cuda_of_build(text)) return build;
  if (!text.starts_with("cuda")) return std::nullopt;
  text.remove_prefix(4);
  while (!text.empty() && (text[0] == ' ' || text[0] == '=' || text[0] == '-')) text.remove_prefix(1);
  if (!begins_with_digit(text)) return std::nullopt;
  GPUWARDEN_TRY(const Version version, parse_cuda(text));
  return std::optional(version);
}

/// 79 of "xid 79", "xid79".
Result<std::optional<int>> xid_of(std::string_view text) {
  if (!text.starts_with("xid")) return std::nullopt;
  const auto number = parse_integer(trim(text.substr(3)));
  if (!number || *number < 0 || *number > 99999)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not an Xid", printable(text)), "for example: xid 79");
  return std::optional(static_cast<int>(*number));
}

bool is_component(const Knowledge& knowledge, std::string_view name) {
  return std::ranges::any_of(knowledge.components(), [&](const auto& row) { return row.component == name; });
}

}  // namespace

Result<Version> parse_cuda(std::string_view text) {
  const auto version = begins_with_digit(text) ? Version::parse(text) : knowledge::cuda_of_build(text);
  if (!version || version->major > 99)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a CUDA version", printable(text)),
                "for example 12.8, or cu128");
  return *version;
}

Question question_of(Purpose purpose) {
  Question question;
  question.kind = purpose.package ? "package" : purpose.architecture ? "architecture" : purpose.work ? "job" : "matrix";
  // What only the site's rules know is answered where they speak: with drivers.
  question.matrix = question.kind == "matrix";
  question.purpose = std::move(purpose);
  return question;
}

Result<Question> parse_question(const Knowledge& knowledge, const std::string& text) {
  Question question{.text = text};
  const std::string lower = to_lower(trim(text));
  GPUWARDEN_TRY(question.xid, xid_of(lower));
  GPUWARDEN_TRY(question.cuda, cuda_of(lower));
  if (question.xid) question.kind = "xid";
  if (question.cuda) question.kind = "cuda";
  if (question.xid || question.cuda) return question;
  auto words = split_words(lower);
  std::string joined = lower;
  const bool verb = doctor::begins_with_task(lower);
  if (words.size() == 2 && begins_with_digit(words[1]) && !verb) joined = fmt::format("{}=={}", words[0], words[1]);
  auto purpose = doctor::parse_purpose(joined);
  if (purpose) {
    question = question_of(std::move(*purpose));
    question.text = text;
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

namespace {

/// The CUDA of the work that the question names, for the matrix.
std::optional<Version> work_of(const Asked& asked, const Question& question) {
  if (question.cuda || !question.purpose || !question.purpose->package) return question.cuda;
  const Purpose::Package& package = *question.purpose->package;
  if (package.build) return knowledge::cuda_of_build(*package.build);
  const auto version = package.version ? Version::parse(*package.version) : std::nullopt;
  if (package.name == "vllm") {
    const auto* row = version ? asked.knowledge.vllm(*version) : nullptr;
    return row != nullptr ? std::optional(row->cuda) : std::nullopt;
  }
  if (package.name != "torch" || !version) return std::nullopt;
  for (const auto* build : asked.knowledge.torch_builds_of(*version)) {
    if (build->is_default) return knowledge::cuda_of_build(build->build);
  }
  return std::nullopt;
}

Result<Answer> answer_package(const Asked& asked, const Purpose::Package& package) {
  if (package.name == "torch") return answer_torch(asked, package);
  if (package.name == "vllm") return answer_vllm(asked, package.version);
  return answer_component(asked, package.name, package.version.value_or(""));
}

Result<Answer> answer_named_gpu(const Asked& asked, const std::string& words) {
  GPUWARDEN_TRY(auto found, answer_gpu(asked, words));
  return std::visit([](auto& one) -> Answer { return std::move(one); }, found);
}

}  // namespace

const Verdict& verdict_of(const Answer& answer) {
  return std::visit([](const auto& one) -> const Verdict& { return one; }, answer);
}

Result<Answer> answer(const Asked& asked, const Question& question) {
  if (question.matrix) return answer_matrix(asked, work_of(asked, question), question.text);
  if (question.xid) return answer_xid(asked.knowledge, *question.xid);
  if (question.cuda) return answer_cuda(asked, *question.cuda);
  if (!question.component.empty()) return answer_component(asked, question.component, question.version);
  if (!question.gpu.empty()) return answer_named_gpu(asked, question.gpu);
  if (!question.purpose) return answer_machine(asked);
  if (question.purpose->package) return answer_package(asked, *question.purpose->package);
  if (question.purpose->architecture) return answer_architecture(asked, *question.purpose->architecture);
  return answer_job(asked, *question.purpose->work);
}

}  // namespace gpuwarden::compat
