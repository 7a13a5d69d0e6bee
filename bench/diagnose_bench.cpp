// SPDX-License-Identifier: Apache-2.0
// How fast `gpuwarden diagnose` gets through a large log in which little is wrong, beside ripgrep (else grep) looking
// for the same literals on one thread. All rounds are interleaved, so that the machine's moods hit everybody alike.
//   bench_diagnose [MB] [--rounds N] [--file LOG] [--busiest N]
// The literals are those of the rules. --busiest names those that stand in most lines: each makes a line worth a look.
// Without --file the log is a synthetic one of MB megabytes (1024), made for this and removed afterwards.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose_log.hpp"
#include "diagnosis/candidate_lines.hpp"
#include "gpuwarden/base/scope_guard.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace {

namespace diagnosis = gpuwarden::diagnosis;

constexpr std::size_t kPiece = std::size_t{256} << 10;

struct Options {
  std::uint64_t megabytes = 1024;
  int rounds = 5;
  std::string file;
  std::size_t busiest = 0;
};

/// One row: `run` reads the whole log once and gives what it counted.
struct Contender {
  std::string name;
  std::string counts;  ///< what it counts
  std::function<std::optional<std::uint64_t>()> run;
  std::vector<double> seconds;
  std::uint64_t count = 0;
  bool failed = false;
};

void run_once(Contender& contender) {
  const auto start = std::chrono::steady_clock::now();
  const auto count = contender.run();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  contender.failed = contender.failed || !count;
  contender.count = count.value_or(0);
  contender.seconds.push_back(taken.count());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Calls with the pieces of the file as read() gives them.
template <class F>
bool read_file(const std::string& path, F&& piece) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const gpuwarden::ScopeGuard close([fd] { ::close(fd); });
  std::string buffer(kPiece, '\0');
  ssize_t size = 0;
  while ((size = ::read(fd, buffer.data(), buffer.size())) > 0) {
    piece(std::string_view(buffer).substr(0, static_cast<std::size_t>(size)));
  }
  return size == 0;
}

/// The number that a program prints; empty where it cannot be run. 1 is how grep says that nothing was found.
std::optional<std::uint64_t> counted_by(const std::vector<std::string>& argv) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    std::vector<char*> words;
    for (const auto& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string printed;
  char some[256];
  for (ssize_t size = 0; (size = ::read(ends[0], some, sizeof some)) > 0;)
    printed.append(some, static_cast<std::size_t>(size));
  ::close(ends[0]);
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) > 1) return std::nullopt;
  return std::strtoull(printed.c_str(), nullptr, 10);
}

bool runs(const std::string& program) {
  return counted_by({"sh", "-c", "command -v " + program + " >/dev/null && echo 1"}) == 1;
}

Contender peer(const std::string& log, const std::string& literals) {
  if (runs("rg")) {
    const std::vector<std::string> argv{"rg", "--no-config", "--threads", "1",      "--fixed-strings",
                                        "-i", "-c",          "-f",        literals, log};
    return {"rg --threads 1 -F -i -c -f literals", "lines", [argv] { return counted_by(argv); }};
  }
  const std::vector<std::string> argv{"env", "LC_ALL=C", "grep", "-F", "-i", "-c", "-f", literals, log};
  return {"grep -F -i -c -f literals (no rg here)", "lines", [argv] { return counted_by(argv); }};
}

/// A row each. The last is the peer that the others are held against.
std::vector<Contender> contenders(const std::string& log, const diagnosis::LiteralScanner& scanner,
                                  const std::string& literals) {
  std::vector<Contender> field;
  field.push_back({"read() alone", "bytes", [log]() -> std::optional<std::uint64_t> {
                     std::uint64_t bytes = 0;
                     if (!read_file(log, [&](std::string_view piece) { bytes += piece.size(); })) return std::nullopt;
                     return bytes;
                   }});
  field.push_back({"LiteralScanner, piece by piece", "literals", [log, &scanner]() -> std::optional<std::uint64_t> {
                     std::uint64_t hits = 0;
                     const auto hit = [&](std::size_t, std::uint32_t) { ++hits; };
                     if (!read_file(log, [&](std::string_view piece) { scanner.scan(piece, hit); }))
                       return std::nullopt;
                     return hits;
                   }});
  field.push_back({"CandidateReader", "lines", [log, &scanner]() -> std::optional<std::uint64_t> {
                     std::uint64_t lines = 0;
                     diagnosis::CandidateReader reader(scanner, [&](const diagnosis::Candidate&) { ++lines; });
                     if (!read_file(log, [&](std::string_view piece) { reader.feed(piece); })) return std::nullopt;
                     reader.finish();
                     return lines;
                   }});
  field.push_back({"LogReader and diagnose()", "events", [log]() -> std::optional<std::uint64_t> {
                     diagnosis::LogReader reader(log);
                     if (!read_file(log, [&](std::string_view piece) { reader.feed(piece); })) return std::nullopt;
                     const diagnosis::Reading reading = reader.finish();
                     diagnosis::diagnose(reading);
                     return reading.events.size();
                   }});
  field.push_back(peer(log, literals));
  return field;
}

/// What the patterns of the rules need that may speak, each literal once: those by which LogReader looks at a line.
std::vector<std::string> rule_literals() {
  std::set<std::string> all;
  for (const auto& rule : gpuwarden::knowledge::diagnosis_rules()) {
    const bool only_silences = rule.role == gpuwarden::knowledge::Role::silence && rule.before == 0;
    if (!only_silences) all.insert(rule.literals.begin(), rule.literals.end());
  }
  return {all.begin(), all.end()};
}

void print_busiest(const std::string& log, const std::vector<std::string>& literals,
                   const diagnosis::LiteralScanner& scanner, std::size_t most) {
  std::vector<std::pair<std::uint64_t, std::string>> counts;
  for (const std::string& literal : literals) counts.emplace_back(0, literal);
  diagnosis::CandidateReader reader(scanner, [&](const diagnosis::Candidate& candidate) {
    for (const std::uint32_t literal : candidate.literals) ++counts[literal].first;
  });
  read_file(log, [&](std::string_view piece) { reader.feed(piece); });
  reader.finish();
  std::ranges::sort(counts, std::greater{});
  for (std::size_t i = 0; i < std::min(most, counts.size()) && counts[i].first > 0; ++i)
    fmt::print("{:>12} lines have \"{}\"\n", counts[i].first, counts[i].second);
}

void print(const std::vector<Contender>& field, double megabytes) {
  const double peer_seconds = median(field.back().seconds);
  fmt::print("{:<40} {:>8} {:>8} {:>8} {:>8}  {}\n", "", "MB/s", "worst", "best", "x peer", "found");
  for (const Contender& contender : field) {
    if (contender.failed) {
      fmt::print("{:<40} failed\n", contender.name);
      continue;
    }
    const auto [best, worst] = std::ranges::minmax(contender.seconds);
    fmt::print("{:<40} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.2f}  {} {}\n", contender.name,
               megabytes / median(contender.seconds), megabytes / worst, megabytes / best,
               peer_seconds / median(contender.seconds), contender.count, contender.counts);
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--rounds") options.rounds = std::max(1, std::atoi(value));
    if (word == "--file") options.file = value;
    if (word == "--busiest") options.busiest = std::strtoull(value, nullptr, 10);
    if (word.starts_with("--"))
      ++i;
    else
      options.megabytes = std::strtoull(argv[i], nullptr, 10);
  }
  return options;
}

int measure(const Options& options, const std::string& log, const std::string& folder) {
  const std::vector<std::string> literals = rule_literals();
  const std::string patterns = folder + "/literals.txt";  // for the peer
  std::ofstream file(patterns);
  for (const std::string& literal : literals) file << literal << '\n';
  file.close();
  const diagnosis::LiteralScanner scanner(literals);
  if (options.busiest > 0) print_busiest(log, literals, scanner, options.busiest);
  std::vector<Contender> field = contenders(log, scanner, patterns);
  for (const Contender& contender : field) contender.run();  // warms the page cache and everybody's code
  for (int round = 0; round < options.rounds; ++round) {
    for (Contender& contender : field) run_once(contender);
  }
  const double megabytes = static_cast<double>(std::filesystem::file_size(log)) / 1e6;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("{:.0f} MB, {} literals, wall time, median of {} interleaved rounds after a warm-up, one thread\n",
             megabytes, literals.size(), options.rounds);
  print(field, megabytes);
  fmt::print("peak memory of this program: {} MiB\n", usage.ru_maxrss / 1024);
  return std::ranges::any_of(field, &Contender::failed) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "gpuwarden-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    fmt::print(stderr, "cannot make a folder in {}\n", std::filesystem::temp_directory_path().string());
    return 3;
  }
  const gpuwarden::ScopeGuard remove([&] {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  });
  if (!options.file.empty()) {
    if (!std::filesystem::is_regular_file(options.file)) {
      fmt::print(stderr, "there is no file {}\n", options.file);
      return 2;
    }
    fmt::print("log: {}\n", options.file);
    return measure(options, options.file, folder);
  }
  const std::string log = folder + "/train.log";
  const std::int64_t failures = gpuwarden::bench::write_log(log, options.megabytes * 1000000, 100000);
  if (failures < 0) {
    fmt::print(stderr, "cannot write {}\n", log);
    return 3;
  }
  fmt::print("log: synthetic (bench/diagnose_log.cpp), ordinary training output with {} failure lines\n", failures);
  return measure(options, log, folder);
}
