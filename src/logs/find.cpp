// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/find.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <set>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::logs {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 3;
/// More files than any job has ranks: the folder is something else.
constexpr std::size_t kMostFiles = 10'000;

/// Texts about errors that are no logs, and what is large and holds no text.
constexpr auto kNoLogs = std::to_array<std::string_view>(
    {".py",  ".pyc", ".ipynb", ".c",   ".cc",   ".cpp",         ".cu",  ".cuh",  ".h",     ".hpp", ".rs",     ".md",
     ".rst", ".htm", ".html",  ".tex", ".diff", ".patch",       ".pt",  ".pth",  ".ckpt",  ".bin", ".onnx",   ".gguf",
     ".npy", ".npz", ".so",    ".png", ".jpg",  ".safetensors", ".pdf", ".yaml", ".jsonl", ".csv", ".parquet"});

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

/// The number that `text` begins with, where nothing but the end of a name follows; empty for other texts and for
/// numbers that count something larger than ranks.
std::optional<std::int64_t> whole_number(std::string_view text) {
  const auto* const end = std::ranges::find_if_not(text, is_digit);
  const auto size = static_cast<std::size_t>(end - text.begin());
  constexpr std::size_t kMostDigits = 6;
  if (size == 0 || size > kMostDigits || (size < text.size() && is_letter(text[size]))) return std::nullopt;
  return parse_integer(text.substr(0, size));
}

/// 3 of "rank3", "node0-rank_3.log", "worker-3", "stdout_3".
std::optional<std::int64_t> number_behind(std::string_view name, std::string_view word) {
  const std::size_t at = name.rfind(word);
  if (at == std::string_view::npos || (at > 0 && is_letter(name[at - 1]))) return std::nullopt;
  std::string_view rest = name.substr(at + word.size());
  // Not a dot: stdout.1 is an older stdout.
  if (!rest.empty() && (rest[0] == '_' || rest[0] == '-' || rest[0] == '=')) rest.remove_prefix(1);
  return whole_number(rest);
}

std::optional<std::int64_t> rank_in(std::string_view name) {
  for (const std::string_view word : {"rank", "worker", "stdout", "stderr"}) {
    if (const auto rank = number_behind(name, word)) return rank;
  }
  return std::nullopt;
}

/// One walk over all operands.
class Finder {
 public:
  void add_operand(const std::string& operand) {
    if (operand == "-") return add_standard_input();
    struct stat status{};
    if (::stat(operand.c_str(), &status) != 0)
      return problem(error_from_errno(errno, fmt::format("cannot read {}", printable(operand))));
    if (S_ISDIR(status.st_mode)) return add_folder(operand);
    if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
      return problem({ErrorCode::invalid_argument, fmt::format("{} is not a regular file", printable(operand)),
                      "logs are read from files, folders, pipes and standard input (-)"});
    add_file(operand, status, true);
  }
  LogFiles finish() { return std::move(found_); }

 private:
  void problem(Error error) { found_.problems.push_back(std::move(error)); }

  void add_standard_input() {
    if (std::ranges::find(found_.files, "-", &LogFile::path) == found_.files.end())
      found_.files.push_back({"-", std::nullopt, true});
  }

  void add_file(const fs::path& path, const struct stat& status, bool named) {
    if (!seen_.emplace(status.st_dev, status.st_ino).second) return;
    found_.files.push_back({path.string(), rank_of(path), named});
  }

  void add_folder(const std::string& operand) {
    const std::size_t files = found_.files.size();
    const std::size_t problems = found_.problems.size();
    walk(operand, 0);
    if (found_.files.size() == files && found_.problems.size() == problems)
      problem({ErrorCode::invalid_argument, fmt::format("{} has no logs", printable(operand)),
               "hidden files, sources and documents are not read; name a file to have it read whatever it is"});
  }

  void walk(const fs::path& folder, int depth) {
    std::error_code error;
    const fs::directory_iterator readable(folder, error);
    if (error)
      return problem(error_from_errno(error.value(), fmt::format("cannot read {}", printable(folder.string()))));
    for (const fs::path& path : list_directory(folder)) {
      if (found_.files.size() >= kMostFiles) return too_many(folder);
      add_entry(path, depth);
    }
  }

  void add_entry(const fs::path& path, int depth) {
    if (is_hidden(path)) return;
    struct stat own{};
    struct stat status{};
    if (::lstat(path.c_str(), &own) != 0 || ::stat(path.c_str(), &status) != 0) return;
    // Links to folders may lead in circles.
    if (S_ISDIR(own.st_mode) && depth < kDeepest) return walk(path, depth + 1);
    if (S_ISREG(status.st_mode) && may_be_log(path)) add_file(path, status, false);
  }

  void too_many(const fs::path& folder) {
    if (!std::exchange(full_, true))
      problem({ErrorCode::invalid_argument,
               fmt::format("{} has more than {} files", printable(folder.string()), kMostFiles),
               "name the folder in which the logs are"});
  }

  LogFiles found_;
  std::set<std::pair<dev_t, ino_t>> seen_;
  bool full_ = false;
};

}  // namespace

bool may_be_log(const fs::path& path) {
  return !is_hidden(path) && std::ranges::find(kNoLogs, to_lower(path.extension().string())) == kNoLogs.end();
}

std::optional<std::int64_t> rank_of(const fs::path& path) {
  const std::string name = to_lower(path.filename().string());
  if (const auto rank = rank_in(name)) return rank;
  const std::string folder = to_lower(path.parent_path().filename().string());
  if (const auto rank = rank_in(folder)) return rank;
  // torchrun: attempt_0/3/stderr.log
  const bool stream = name.starts_with("stdout") || name.starts_with("stderr") || name == "error.json";
  const auto number = stream ? whole_number(folder) : std::nullopt;
  return number && std::ranges::all_of(folder, is_digit) ? number : std::nullopt;
}

LogFiles find_logs(const std::vector<std::string>& operands) {
  Finder finder;
  for (const std::string& operand : operands) finder.add_operand(operand);
  return finder.finish();
}

}  // namespace gpuwarden::logs
