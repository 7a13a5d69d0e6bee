// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
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
                                                     {"torch.cuda.get_arch_list()", "architectures"},
                                                     {"torch.cuda.get_device_capability(", "capability"},
                                                     {"tf.__version__", "tensorflow"},
                                                     {"tf.config.list_physical_devices('GPU')", "tensorflow_gpus"},
                                                     {"tf.config.list_physical_devices(\"GPU\")", "tensorflow_gpus"},
                                                     {"jax.__version__", "jax"},
                                                     {"jax.devices()", "jax_list"}});

/// Of more machines nobody reads the answers one by one.
constexpr std::size_t kMostMachines = 64;

bool is_alnum(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

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
  constexpr auto kModules = std::to_array<std::string_view>({"import torch", "import tensorflow", "import jax"});
  const bool imports = std::ranges::any_of(kModules, [&](std::string_view one) { return text.contains(one); });
  if (imports && text.contains("print(")) return true;
  const bool printed = text.starts_with("print(") && text.ends_with(')');
  if (printed) text = text.substr(6);
  const bool module = text.starts_with("torch.") || text.starts_with("tf.") || text.starts_with("jax.");
  return module && (printed || text.find_first_of(" :=#") == std::string_view::npos);
}

/// "'2.5.1+cu124'" without its quotes.
std::string_view without_quotes(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return text;
}

/// "6.1" of "(6, 1)".
std::optional<std::string> capability_of(std::string_view value) {
  if (!value.starts_with('(') || !value.ends_with(')')) return std::nullopt;
  const auto parts = split(value.substr(1, value.size() - 2), ',');
  const auto major = parts.size() == 2 ? parse_integer(trim(parts[0])) : std::nullopt;
  const auto minor = parts.size() == 2 ? parse_integer(trim(parts[1])) : std::nullopt;
  const bool real = major && minor && *major >= 1 && *major < 100 && *minor >= 0 && *minor < 10;
  return real ? std::optional(fmt::format("{}.{}", *major, *minor)) : std::nullopt;
}

bool is_answer(std::string_view slot, std::string_view value) {
  if (slot == "cuda_available") return value == "True" || value == "False";
  if (slot == "torch" || slot == "tensorflow" || slot == "jax")
    return !value.empty() && is_digit(value[0]) && value.contains('.');
  if (slot == "capability") return capability_of(value).has_value();
  if (slot == "tensorflow_gpus") return value == "[]" || value.starts_with("[PhysicalDevice(");
  if (slot == "jax_list") return value.starts_with('[') && value.contains("Device");
  if (slot == "architectures") return value.starts_with('[') && value.ends_with(']');
  if (slot == "gpu") return is_name_of_gpu(value);
  return value == "None" || (!value.empty() && is_digit(value[0]) && value.contains('.'));
}

void take_answer(std::string_view slot, std::string_view value, EnvReport& report) {
  if (slot == "capability") {
    if (report.capabilities.empty()) report.capabilities.emplace_back("0", *capability_of(value));
  } else if (slot == "gpu") {
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
std::vector<std::string_view> answers_of(std::span<const Line* const> below,
                                         const std::vector<std::string_view>& slots) {
  std::vector<std::string_view> answers;
  if (slots.size() > 1 && !below.empty()) {
    for (const auto word : split_words(below[0]->text)) answers.push_back(without_quotes(word));
    if (answers.size() == slots.size()) return answers;
    answers.clear();
  }
  for (std::size_t i = 0; i < slots.size() && i < below.size(); ++i) {
    if (!below[i]->ended) break;
    answers.push_back(without_quotes(without_number(below[i]->text)));
  }
  return answers;
}

/// Who asks wants a GPU, unless he hides them. Of several answers the last counts.
void note_refusals(const Line& asked, EnvReport& report) {
  constexpr std::pair<std::string_view, std::string_view> kRefusals[] = {{"cuda_available", "cuda_not_available"},
                                                                         {"tensorflow_gpus", "tensorflow_sees_no_gpu"},
                                                                         {"jax_list", "jax_sees_no_gpu"}};
  report.messages.clear();
  if (asked.text.contains("CUDA_VISIBLE_DEVICES=")) return;
  for (const auto& [slot, kind] : kRefusals) {
    const std::string_view answer = report.cell(slot);
    if (answer == "False" || answer == "[]" || answer.starts_with("[CpuDevice("))
      report.messages.push_back({std::string(kind), asked.text, "", asked.number});
  }
}

/// "torch.cuda.is_available(): False", as programs print it into their errors.
bool take_told(const Line& line, EnvReport& report) {
  constexpr std::string_view kAsked = "torch.cuda.is_available()";
  const std::string_view text = trim(line.text);
  if (!text.starts_with(kAsked)) return false;
  std::string_view answer = trim(text.substr(kAsked.size()));
  if (!answer.starts_with(':') && !answer.starts_with('=')) return false;
  answer = trim(answer.substr(1));
  if (answer != "True" && answer != "False") return false;
  take_answer("cuda_available", answer, report);
  return true;
}

/// What a line asks, with the answers below it; false where it asks nothing, or is not answered.
bool take_asked(const Line& asked, std::span<const Line* const> below, EnvReport& report) {
  if (!is_asked(asked.text)) return false;
  const auto slots = questions_in(asked.text);
  const auto answers = answers_of(below, slots);
  if (slots.empty() || answers.size() != slots.size()) return false;
  for (std::size_t k = 0; k < slots.size(); ++k) {
    if (!is_answer(slots[k], answers[k])) return false;
  }
  for (std::size_t k = 0; k < slots.size(); ++k) take_answer(slots[k], answers[k], report);
  return true;
}

bool is_host_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  const auto fits = [](char c) { return is_alnum(c) || c == '-' || c == '.' || c == '_'; };
  return !name.empty() && name.size() <= kLongest && is_alnum(name[0]) && std::ranges::all_of(name, fits);
}

/// "gpu1" of "(env) ada@gpu1:~$ python", "[ada@gpu1 src]$ ", "root@gpu1:/# ", "ada@gpu1 ~ % ls".
std::string_view host_of_prompt(std::string_view text) {
  const std::size_t at = text.substr(0, 60).find('@');
  if (at == std::string_view::npos || at == 0) return {};
  const std::string_view rest = text.substr(at + 1);
  const std::string_view host = rest.substr(0, rest.find_first_of(": ]"));
  // What is typed stands behind a mark; an address in a sentence has none.
  const std::size_t mark = rest.substr(0, 100).find_first_of("$#%>");
  const bool marked = mark != std::string_view::npos && (mark + 1 == rest.size() || rest[mark + 1] == ' ');
  const std::size_t start = text.substr(0, at).find_last_of(" [(") + 1;
  return marked && is_host_name(host) && start < at ? host : std::string_view();
}

/// Words that sections are counted by, and what they are about, with a version: "### Step2", "### Python3".
bool is_of_section(std::string_view name) {
  constexpr auto kWords = std::to_array<std::string_view>(
      {"attempt", "build",  "case",     "cell",   "conda", "cuda",    "epoch",   "example", "exp",   "experiment",
       "fig",     "issue",  "jax",      "method", "note",  "numpy",   "option",  "part",    "phase", "pip",
       "py",      "python", "question", "round",  "run",   "section", "stage",   "step",    "task",  "tensorflow",
       "test",    "tf",     "torch",    "trial",  "try",   "update",  "version", "vllm"});
  std::string word = to_lower(name.substr(0, name.find_first_of("0123456789")));
  while (!word.empty() && !is_alnum(word.back())) word.pop_back();
  // "v100-01" is a machine, "v2.1" a version.
  if (word == "v") return name.find_first_not_of("0123456789.", 1) == std::string_view::npos;
  return std::ranges::find(kWords, word) != kWords.end();
}

/// "node2" of "=== node2 ===" and "==> node2 <==". Headings of sections have no number.
std::string_view host_of_heading(std::string_view text) {
  constexpr std::string_view kMarks = "=-#*<> ";
  const std::size_t begin = text.find_first_not_of(kMarks);
  if (begin == std::string_view::npos || begin < 3) return {};
  const std::string_view name = text.substr(begin, text.find_last_not_of(kMarks) - begin + 1);
  const bool numbered = name.find_first_of("0123456789") != std::string_view::npos && !is_digit(name[0]);
  return numbered && is_host_name(name) && !is_of_section(name) ? name : std::string_view();
}

/// The machine from this line on; empty: as before.
std::string_view host_named_in(const Line& line) {
  if (!line.speaker.empty() && !std::ranges::all_of(line.speaker, is_digit)) return line.speaker;
  const std::string_view host = host_of_prompt(line.text);
  return host.empty() ? host_of_heading(line.text) : host;
}

}  // namespace

std::vector<PythonAnswers> read_python_answers(std::span<const Line> lines) {
  std::vector<PythonAnswers> machines;
  std::vector<const Line*> said;
  for (const Line& line : lines) {
    if (!line.text.empty() && !line.text.contains("Warning")) said.push_back(&line);
  }
  std::string host;
  for (std::size_t i = 0; i < said.size(); ++i) {
    const Line& asked = *said[i];
    if (const auto named = host_named_in(asked); !named.empty()) host = printable(named);
    if (!asked.ended) continue;
    const auto known = std::ranges::find(machines, host, &PythonAnswers::host);
    if (known == machines.end() && machines.size() == kMostMachines) continue;
    PythonAnswers fresh{.host = host, .report = {.tool = EnvTool::program}};
    EnvReport& report = known == machines.end() ? fresh.report : known->report;
    if (!take_told(asked, report) && !take_asked(asked, std::span(said).subspan(i + 1), report)) continue;
    if (report.line == 0) report.line = asked.number;
    note_refusals(asked, report);
    if (known == machines.end()) machines.push_back(std::move(fresh));
  }
  return machines;
}

const PythonAnswers* answers_of_machine(const std::vector<PythonAnswers>& machines, const std::string& host) {
  if (host.empty()) return &machines.front();
  for (const std::string& one : {host, std::string()}) {
    const auto own = std::ranges::find(machines, one, &PythonAnswers::host);
    if (own != machines.end()) return &*own;
  }
  return nullptr;
}

std::string answers_left_out(const std::vector<PythonAnswers>& machines, const PythonAnswers* own,
                             const std::string& host) {
  constexpr std::size_t kNamed = 3;
  const auto named = [](const std::string& machine) { return machine.empty() ? "a machine without a name" : machine; };
  std::vector<std::string> names;
  const PythonAnswers* first = nullptr;
  std::size_t others = 0;
  for (const PythonAnswers& other : machines) {
    if (&other == own) continue;
    if (first == nullptr) first = &other;
    if (++others <= kNamed) names.push_back(named(other.host));
  }
  if (first == nullptr) return {};
  const std::string more = others > kNamed ? fmt::format(" and {} more", others - kNamed) : "";
  return fmt::format("line {}: Python's answers are of {}{}; only those of {} are read", first->report.line,
                     gpuwarden::join(names, ", "), more, named(own == nullptr ? host : own->host));
}

std::string host_at(std::span<const Line> lines, std::uint32_t number) {
  std::string host;
  for (const Line& line : lines) {
    if (line.number > number) break;
    if (const auto named = host_named_in(line); !named.empty()) host = printable(named);
  }
  return host;
}

}  // namespace gpuwarden::capture
