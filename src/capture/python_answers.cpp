// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "capture/identity.hpp"
#include "capture/program_report.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

/// An expression that people type, and the slot of its answer.
struct Question {
  std::string_view expression;
  std::string_view slot;
};
constexpr auto kQuestions = std::to_array<Question>({{"torch.__version__", "torch"},
                                                     {"torch.version.cuda", "cuda_build"},
                                                     {"torch.version.hip", "rocm_build"},
                                                     {"torch.cuda.is_available()", "cuda_available"},
                                                     {"torch.cuda.get_device_name(", "gpu"},
                                                     {"torch.cuda.get_arch_list()", "architectures"}});

/// The questions of a line in the order in which they stand there.
std::vector<std::string_view> questions_in(std::string_view text) {
  std::vector<std::pair<std::size_t, std::string_view>> found;
  for (const Question& question : kQuestions) {
    const std::size_t at = text.find(question.expression);
    if (at != std::string_view::npos) found.emplace_back(at, question.slot);
  }
  std::ranges::sort(found);
  std::vector<std::string_view> slots;
  for (const auto& [at, slot] : found) slots.push_back(slot);
  return slots;
}

/// "torch.cuda.is_available()" of "In [3]: torch.cuda.is_available()"; answers have "Out[3]: " before them.
std::string_view without_number(std::string_view text) {
  const bool numbered = text.starts_with("In [") || text.starts_with("Out[");
  const std::size_t end = text.find("]: ");
  return trim(numbered && end != std::string_view::npos ? text.substr(end + 3) : text);
}

/// What is typed at Python's prompt, whose ">>>" went like a quotation's, or handed to python -c: nothing but
/// questions.
bool is_asked(std::string_view text) {
  text = without_number(text);
  if (text.contains("import torch") && text.contains("print(")) return true;
  const bool printed = text.starts_with("print(torch.") && text.ends_with(')');
  const bool bare = text.starts_with("torch.") && text.find_first_of(" :=#") == std::string_view::npos;
  return printed || bare;
}

/// "'2.5.1+cu124'" without its quotes.
std::string_view without_quotes(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return text;
}

bool is_answer(std::string_view slot, std::string_view value) {
  if (slot == "cuda_available") return value == "True" || value == "False";
  if (slot == "torch") return !value.empty() && is_digit(value[0]) && value.contains('.');
  if (slot == "architectures") return value.starts_with('[') && value.ends_with(']');
  if (slot == "gpu") return is_name_of_gpu(value);
  return value == "None" || (!value.empty() && is_digit(value[0]) && value.contains('.'));
}

void take_answer(std::string_view slot, std::string_view value, EnvReport& report) {
  if (slot == "gpu") {
    if (report.gpus.empty()) report.gpus.push_back(fmt::format("GPU 0: {}", value));
  } else if (slot == "architectures") {
    if (!report.torch_architectures.empty()) return;
    for (const auto word : split(value.substr(1, value.size() - 2), ',')) {
      const std::string_view name = without_quotes(word);
      if (name.starts_with("sm_") || name.starts_with("compute_"))
        report.torch_architectures.push_back(printable(name));
    }
  } else {
    // What was done between two answers may have changed it.
    report.cells.insert_or_assign(std::string(slot), printable(value));
  }
}

/// The answers below: one a line, or all of them as the words of one line.
std::vector<std::string_view> answers_of(std::span<const Line> below, const std::vector<std::string_view>& slots) {
  std::vector<std::string_view> answers;
  if (slots.size() > 1 && !below.empty()) {
    for (const auto word : split_words(below[0].text)) answers.push_back(without_quotes(word));
    if (answers.size() == slots.size()) return answers;
    answers.clear();
  }
  for (std::size_t i = 0; i < slots.size() && i < below.size(); ++i) {
    if (!below[i].ended) break;
    answers.push_back(without_quotes(without_number(below[i].text)));
  }
  return answers;
}

}  // namespace

std::optional<EnvReport> read_python_answers(std::span<const Line> lines) {
  EnvReport report{.tool = EnvTool::program};
  std::vector<Line> said;
  std::ranges::copy_if(lines, std::back_inserter(said),
                       [](const Line& line) { return !line.text.empty() && !line.text.contains("Warning"); });
  for (std::size_t i = 0; i + 1 < said.size(); ++i) {
    const std::string& asked = said[i].text;
    if (!said[i].ended || !is_asked(asked)) continue;
    const auto slots = questions_in(asked);
    const auto answers = answers_of(std::span(said).subspan(i + 1), slots);
    if (slots.empty() || answers.size() != slots.size()) continue;
    bool all = true;
    for (std::size_t k = 0; k < slots.size(); ++k) all = all && is_answer(slots[k], answers[k]);
    if (!all) continue;
    if (report.line == 0) report.line = said[i].number;
    for (std::size_t k = 0; k < slots.size(); ++k) take_answer(slots[k], answers[k], report);
    // Who asks wants a GPU, unless he hides them.
    report.messages.clear();
    if (report.cell("cuda_available") == "False" && !asked.contains("CUDA_VISIBLE_DEVICES="))
      report.messages.push_back({"cuda_not_available", asked, "", said[i].number});
  }
  return report.line == 0 ? std::nullopt : std::optional(std::move(report));
}

}  // namespace gpuwarden::capture
