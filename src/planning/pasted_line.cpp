// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/pasted_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "planning/line_meanings.hpp"
#include "planning/plan_name.hpp"

namespace gpuwarden::planning {
namespace {

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& table, std::string_view word) {
  return std::ranges::find(table, word) != table.end();
}

constexpr auto kPrograms = std::to_array<std::string_view>({"vllm",
                                                            "sglang",
                                                            "python",
                                                            "python3",
                                                            "accelerate",
                                                            "torchrun",
                                                            "deepspeed",
                                                            "trl",
                                                            "llamafactory-cli",
                                                            "uv",
                                                            "uvx",
                                                            "sudo",
                                                            "nohup",
                                                            "env",
                                                            "llama-server",
                                                            "llama-cli",
                                                            "llama",
                                                            "ollama",
                                                            "trtllm-serve",
                                                            "text-generation-launcher",
                                                            "docker",
                                                            "podman",
                                                            "nerdctl"});
constexpr auto kContainers = std::to_array<std::string_view>({"docker", "podman", "nerdctl"});
/// Those whose every line serves.
constexpr auto kServers = std::to_array<std::string_view>(
    {"llama-server", "llama-cli", "llama", "ollama", "trtllm-serve", "text-generation-launcher"});
/// What a program, or the beginning of a module's name, is of the engines besides vLLM.
struct OfEngine {
  std::string_view program;
  std::string_view engine;
};
constexpr OfEngine kOfEngines[] = {
    {"sglang", "sglang"}, {"llama-server", "llama.cpp"},    {"llama-cli", "llama.cpp"},          {"llama", "llama.cpp"},
    {"ollama", "ollama"}, {"trtllm-serve", "tensorrt-llm"}, {"text-generation-launcher", "tgi"}, {"vllm", "vllm"}};
/// An image of an engine, by a part of its name, and what it starts.
struct Image {
  std::string_view part;
  std::string_view program;
  std::string_view action = {};
};
/// Sources: the ENTRYPOINT of vLLM's docker/Dockerfile (vllm-openai), of llama.cpp's .devops/cuda.Dockerfile (server),
/// of TGI's Dockerfile (tgi-entrypoint.sh).
/// SGLang's and NVIDIA's images start what is named behind them.
constexpr Image kImages[] = {{"vllm-openai", "vllm", "serve"},
                             {"llama.cpp:server", "llama-server"},
                             {"text-generation-inference", "text-generation-launcher"},
                             {"lmsysorg/sglang", {}},
                             {"nvcr.io/nvidia/", {}}};
/// What follows a program's name.
constexpr auto kActions =
    std::to_array<std::string_view>({"serve", "launch", "run", "pull", "cli", "sft", "train", "launch_server"});

/// "CUDA_VISIBLE_DEVICES=0" before a command.
bool is_assignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 &&
         word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == equals;
}

bool is_server_module(std::string_view word) { return word.starts_with("vllm.") || word.starts_with("sglang."); }

bool is_module(std::string_view word) {
  return is_server_module(word) || word == "sglang" || word == "vllm" || word.starts_with("torch.") ||
         word.starts_with("accelerate.") || word.starts_with("deepspeed.") || word == "trl" || word.starts_with("trl.");
}

/// The program's name without its folder; a model's with a publisher stays whole.
std::string_view program_of(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  const bool path = word.starts_with('/') || word.starts_with('.') || word.contains("bin/");
  return path ? name : word;
}

/// "python3.11" as "python3".
std::string_view without_version(std::string_view program) {
  constexpr std::string_view kPython = "python3.";
  return program.starts_with(kPython) ? program.substr(0, kPython.size() - 1) : program;
}

/// What stands before the program's options.
struct Head {
  std::size_t words = 0;
  bool program = false;  ///< a program is named
  bool serves = false;
  std::string_view engine;  ///< empty: vLLM, or none
};

std::string_view engine_of(std::string_view program) {
  const auto* const found = std::ranges::find_if(
      kOfEngines, [&](const OfEngine& row) { return program.substr(0, program.find('.')) == row.program; });
  return found == std::end(kOfEngines) ? std::string_view() : found->engine;
}

Head head_of(const std::vector<std::string>& words) {
  Head head;
  for (; head.words < words.size(); ++head.words) {
    const std::string& word = words[head.words];
    const std::string_view program = without_version(program_of(word));
    const bool named = is_one_of(kPrograms, program);
    const bool has_more = head.words + 1 < words.size();
    std::string_view runs = named ? program : std::string_view();
    if (word == "serve" && has_more && (head.program || head.words == 0)) {
      head.serves = true;
    } else if (word == "-m" && has_more && is_module(words[head.words + 1])) {
      ++head.words;
      head.serves = head.serves || is_server_module(words[head.words]);
      runs = words[head.words];
    } else if (!(is_assignment(word) && has_more) && !named && !(head.program && is_one_of(kActions, word))) {
      break;
    }
    head.program = head.program || named;
    if (head.engine.empty()) head.engine = engine_of(runs);
    head.serves = head.serves || is_one_of(kServers, program) || word == "launch_server";
  }
  return head;
}

bool names_task(const std::string& word) { return word == "--task" || word.starts_with("--task="); }

bool names_engine(const std::string& word) { return word == "--engine" || word.starts_with("--engine="); }

/// llama.cpp's repositories, and the file in one, whose name says more.
bool names_repository(std::string_view word) { return word == "-hf" || word == "-hfr" || word == "--hf-repo"; }
bool names_file_of_repository(std::string_view word) { return word == "-hff" || word == "--hf-file"; }
bool names_model_of_llama_cpp(std::string_view word) { return word == "-m" || names_repository(word); }

/// llama.cpp's -fa, with on, off or auto behind it since August 2025.
bool is_flash_option(std::string_view word) { return word == "-fa" || word == "--flash-attn"; }
bool is_flash_value(std::string_view word) {
  return word == "on" || word == "off" || word == "auto" || word == "1" || word == "0";
}
/// llama.cpp's logical batch, of which no memory of the GPU depends: --ubatch-size is what is computed at a time.
bool is_logical_batch(std::string_view word) { return word == "-b" || word == "--batch-size"; }

bool is_script(std::string_view word) { return word.ends_with(".py") && !word.starts_with('-'); }

/// Those whose own options stand before the script.
bool is_launcher(std::string_view program) {
  return program == "torchrun" || program == "deepspeed" || program == "accelerate";
}

/// Whether a program's line begins with this word, as the next one shows.
bool begins_line(std::string_view word, std::string_view next) {
  const std::string_view program = without_version(program_of(word));
  const bool starts = next == "-m" || is_script(next) || (is_launcher(program) && next.starts_with('-')) ||
                      is_one_of(kActions, next) || is_one_of(kPrograms, without_version(program_of(next)));
  return is_one_of(kServers, program) || (is_one_of(kPrograms, program) && starts);
}

/// "vllm serv" as "vllm serve": a program and what it is to do, one of them mistyped; empty: neither is near to any.
std::string meant_by(std::string_view program, std::string_view action) {
  const auto nearest = [](std::string_view word, std::span<const std::string_view> table) {
    if (std::ranges::find(table, word) != table.end()) return std::string(word);
    constexpr std::size_t kShortest = 3;
    return word.size() < kShortest ? "" : closest_match(word, {table.begin(), table.end()});
  };
  const std::string meant = nearest(program, kPrograms);
  if (meant.empty()) return "";
  // A model's name has no second one behind it.
  const bool serves_alone = is_one_of(kServers, meant) && (names_model_of_llama_cpp(action) || action == "--model");
  const bool starts_script = is_script(action) || action == "-m";
  const std::string what = serves_alone || starts_script ? std::string(action) : nearest(action, kActions);
  return what.empty() || (meant == program && what == action) ? "" : fmt::format("{} {}", meant, what);
}

/// A whole line in one word: as somebody quotes what was copied.
std::vector<std::string> words_of_quoted_line(const std::string& word) {
  if (word.find_first_of(" \t\n") == std::string::npos) return {};
  auto words = split_shell_words(word);
  if (!words) return {};
  // "cd models && vllm serve ..."
  words->erase(words->begin(), std::find(words->rbegin(), words->rend(), "&&").base());
  const auto first = std::ranges::find_if_not(
      *words, [](const std::string& one) { return is_assignment(one) || one == "env" || one == "$"; });
  const bool line = first != words->end() && std::next(first) != words->end() &&
                    (begins_line(*first, *std::next(first)) || (*first == "serve" && words->size() > 1) ||
                     !meant_by(program_of(*first), *std::next(first)).empty());
  if (!line) return {};
  if (words->front() == "$") words->erase(words->begin());
  return *std::move(words);
}

/// Whether this word is an option's value, which may read like a program: "--family llama".
bool is_value(const std::vector<std::string>& words, std::size_t place, const OwnValued& own) {
  if (place == 0) return false;
  const std::string& option = words[place - 1];
  return value_follows(option) || std::ranges::find(own, option) != own.end();
}

std::vector<std::string> with_quoted_line_split(const std::vector<std::string>& words, const OwnValued& own) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto line = is_value(words, i, own) ? std::vector<std::string>() : words_of_quoted_line(words[i]);
    if (line.empty())
      result.push_back(words[i]);
    else
      std::ranges::move(line, std::back_inserter(result));
  }
  return result;
}

/// "docker run … IMAGE ARGUMENTS" as what the image starts with its arguments; other lines as they are.
std::vector<std::string> without_container(std::vector<std::string> words) {
  const auto runs = std::ranges::find(words, "run");
  const auto begins = std::find_if(words.begin(), runs,
                                   [](const std::string& word) { return is_one_of(kContainers, program_of(word)); });
  if (begins == runs || std::ranges::any_of(words.begin(), begins, [](const std::string& word) {
        return word.starts_with('-') || !(is_assignment(word) || is_one_of(kPrograms, program_of(word)));
      }))
    return words;
  const Image* image = nullptr;
  const auto at = std::find_if(runs, words.end(), [&](const std::string& word) {
    const auto* const row = std::ranges::find_if(kImages, [&](const Image& one) { return word.contains(one.part); });
    if (!word.starts_with('-') && row != std::end(kImages)) image = row;
    return image != nullptr;
  });
  if (image == nullptr) {
    // Of another image what it is told to start.
    for (auto i = runs; i != words.end() && std::next(i) != words.end(); ++i) {
      if (begins_line(*i, *std::next(i))) return {i, words.end()};
    }
    return words;
  }
  std::vector<std::string> result(std::next(at), words.end());
  const bool names_program = result.size() > 1 && begins_line(result[0], result[1]);
  if (!names_program && !image->action.empty()) result.emplace(result.begin(), image->action);
  if (!names_program && !image->program.empty()) result.emplace(result.begin(), image->program);
  return result;
}

/// Where a program's line begins behind options of gpuwarden's ("--simulate h100x8 vllm serve NAME"); 0 where none
/// does.
std::ptrdiff_t start_of_line(const std::vector<std::string>& words, const OwnValued& own) {
  if (words.empty() || !words[0].starts_with('-')) return 0;
  for (std::size_t i = 1; i + 1 < words.size() && words[i] != "--"; ++i) {
    if (is_value(words, i, own) || !begins_line(words[i], words[i + 1])) continue;
    std::size_t start = i;
    while (start > 1 && (is_assignment(words[start - 1]) || words[start - 1] == "env")) --start;
    return static_cast<std::ptrdiff_t>(start);
  }
  return 0;
}

/// Says an option of the program in our words, if it is one of those that have others here: how many words it takes,
/// 0 where it stays as it is.
std::size_t say_in_own_words(const std::string& word, const std::string& behind, std::vector<std::string>& result) {
  if (names_model_of_llama_cpp(word) || names_file_of_repository(word)) {
    result.emplace_back("--model");
    return 1;
  }
  if (word == "-np" || word == "--parallel") {
    result.emplace_back("--max-requests");
    return 1;
  }
  if (is_flash_option(word) && is_flash_value(behind)) {
    if (behind == "off" || behind == "0") result.insert(result.end(), {"--attention", "eager"});
    return 2;
  }
  return 0;
}

/// The words of a line behind those that start the program.
std::vector<std::string> words_behind(const Head& head, const std::vector<std::string>& words) {
  std::vector<std::string> result;
  // Elsewhere than behind a program a script is an option's value.
  bool script_gone = !head.program && !(head.words < words.size() && is_script(words[head.words]));
  const bool names_file = std::ranges::any_of(words, names_file_of_repository);
  const auto is_left_out = [&](const std::string& word) {
    return (names_file && names_repository(word)) || (head.engine == "llama.cpp" && is_logical_batch(word));
  };
  for (std::size_t i = head.words; i < words.size();) {
    const std::string& word = words[i];
    if (word == "--") {
      result.insert(result.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (!script_gone && is_script(word)) {
      script_gone = true;
      ++i;
      continue;
    }
    if (is_left_out(word)) {
      i += 2;
      continue;
    }
    const std::size_t taken = say_in_own_words(word, i + 1 < words.size() ? to_lower(words[i + 1]) : "", result);
    if (taken == 0) result.push_back(word);
    i += std::max<std::size_t>(taken, 1);
  }
  // ollama's names without a tag mean the latest.
  if (head.engine == "ollama" && !result.empty() && !result.front().starts_with('-') && !result.front().contains(':'))
    result.front() += ":latest";
  return result;
}

/// Where no word starts a program, but two nearly do, as no model's name does.
Result<void> refuse_mistyped(const std::vector<std::string>& words, const OwnValued& own) {
  for (std::size_t i = 0; i + 1 < words.size() && words[i] != "--"; ++i) {
    if (words[i].starts_with('-') || is_value(words, i, own)) continue;
    if (begins_line(words[i], words[i + 1])) return {};
    const std::string meant = meant_by(without_version(program_of(words[i])), words[i + 1]);
    if (meant.empty() || find_model(words[i])) continue;
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{} {}' starts no program that is known", printable(words[i]), printable(words[i + 1])),
                fmt::format("did you mean '{}'?", meant));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> without_launcher(const std::vector<std::string>& given, const OwnValued& own) {
  const std::vector<std::string> words = with_quoted_line_split(given, own);
  const std::ptrdiff_t start = start_of_line(words, own);
  const std::vector<std::string> line = without_container({words.begin() + start, words.end()});
  if (start == 0) GPUWARDEN_CHECK(refuse_mistyped(line, own));
  const Head head = head_of(line);
  std::vector<std::string> result(words.begin(), words.begin() + start);
  std::ranges::move(words_behind(head, line), std::back_inserter(result));
  GPUWARDEN_TRY(result, with_meanings(result, head.serves, head.engine));
  if (!head.serves || std::ranges::any_of(words, names_task)) return result;
  const bool usual = head.engine == "vllm";
  if (!head.engine.empty() && !(usual && std::ranges::any_of(words, names_engine)))
    result.insert(result.begin(), {"--engine", std::string(head.engine)});
  result.insert(result.begin(), {"--task", "serve"});
  return result;
}

}  // namespace gpuwarden::planning
