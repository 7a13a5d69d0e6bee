// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/published_pool.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::pools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeading = "gpuwarden-pool 1";
constexpr std::string_view kFolderPrefix = "gpuwarden-pools-";
constexpr std::string_view kFilePrefix = "pool-";
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostFiles = 4096;
/// Seconds after which what is being written was left behind by a killed process.
constexpr std::int64_t kWriting = 60;
/// The same of a pool in another pid namespace, whose processes cannot be seen; its publisher sets the file's time
/// more often.
constexpr std::int64_t kForeign = std::int64_t{24} * 3600;

std::optional<std::uint64_t> raw(Bytes bytes) { return bytes.value; }
std::optional<std::uint64_t> raw(std::uint64_t number) { return number; }
std::optional<std::uint64_t> raw(const std::optional<Bytes>& bytes) {
  return bytes ? std::optional(bytes->value) : std::nullopt;
}

void assign(Bytes& member, std::uint64_t value) { member = Bytes(value); }
void assign(std::uint64_t& member, std::uint64_t value) { member = value; }
void assign(std::optional<Bytes>& member, std::uint64_t value) { member = Bytes(value); }

template <auto Member>
constexpr PoolFigure figure(std::string_view key) {
  return {key, [](const PublishedPool& pool) { return raw(pool.*Member); },
          [](PublishedPool& pool, std::uint64_t value) { assign(pool.*Member, value); }};
}

constexpr auto kFigures = std::to_array<PoolFigure>({
    figure<&PublishedPool::time_unix_ms>("time_unix_ms"),
    figure<&PublishedPool::live>("live_bytes"),
    figure<&PublishedPool::peak_live>("peak_live_bytes"),
    figure<&PublishedPool::requested>("requested_bytes"),
    figure<&PublishedPool::cached>("cached_bytes"),
    figure<&PublishedPool::free>("free_bytes"),
    figure<&PublishedPool::largest_free>("largest_free_bytes"),
    figure<&PublishedPool::reserved>("reserved_bytes"),
    figure<&PublishedPool::peak_reserved>("peak_reserved_bytes"),
    figure<&PublishedPool::limit>("limit_bytes"),
    figure<&PublishedPool::segments>("segments"),
    figure<&PublishedPool::live_blocks>("live_blocks"),
    figure<&PublishedPool::allocations>("allocations"),
    figure<&PublishedPool::out_of_memory>("out_of_memory"),
});

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// Field 22 of /proc/PID/stat. The name in field 2 may hold anything, blanks and brackets included.
std::optional<std::uint64_t> start_of(const std::string& pid) {
  const auto line = read_line("/proc/" + pid + "/stat");
  const std::size_t name_end = line ? line->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  const auto words = split_words(std::string_view(*line).substr(name_end + 1));
  constexpr std::size_t kStart = 22 - 3;  // field 3 comes first behind the name
  return words.size() > kStart ? whole_number(words[kStart]) : std::nullopt;
}

std::string pid_namespace() {
  std::error_code error;
  const fs::path target = fs::read_symlink("/proc/self/ns/pid", error);
  return error ? "" : target.string();
}

/// Takes one line of the file; false: its value is none.
bool take(PublishedPool& pool, std::string_view key, std::string_view value) {
  if (key == "gpu") {
    pool.gpu = Uuid(std::string(value));
  } else if (key == "strategy") {
    pool.strategy = value;
  } else if (key == "pid_namespace") {
    pool.process.pid_namespace = value;
  } else if (key == "pid" || key == "started") {
    const auto number = whole_number(value);
    if (!number) return false;
    if (key == "started") pool.process.started = *number;
    if (key == "pid") pool.process.pid.value = static_cast<std::int32_t>(std::min<std::uint64_t>(*number, INT32_MAX));
  } else {
    const auto* const found = std::ranges::find(kFigures, key, &PoolFigure::key);
    if (found == kFigures.end()) return true;
    const auto number = whole_number(value);
    if (!number) return false;
    found->set(pool, *number);
  }
  return true;
}

enum class Standing { lives, gone, unknown };

/// Whether the process that a file of `owner` names still lives here.
Standing standing_of(const ProcessMark& process, uid_t owner, const std::string& here) {
  if (process.pid_namespace != here) return Standing::unknown;
  const std::string pid = std::to_string(process.pid.value);
  const auto start = start_of(pid);
  if (!start || *start != process.started) return Standing::gone;
  struct stat info{};
  if (::stat(("/proc/" + pid).c_str(), &info) != 0) return Standing::gone;
  return info.st_uid == owner ? Standing::lives : Standing::unknown;
}

std::int64_t age_of(const struct stat& info) { return std::int64_t{::time(nullptr)} - info.st_mtime; }

struct Note {
  std::string content;
  uid_t owner = 0;
  std::int64_t age = 0;  ///< seconds
};

/// What a file says, and whose it is; nothing where it is not a regular file, or unreadable.
std::optional<Note> read_note(const fs::path& file) {
  // Not what a link leads to, and without waiting for whoever would write into a pipe.
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  auto content = read_descriptor(fd.get(), file.string(), kMostBytes);
  if (!content) return std::nullopt;
  return Note{.content = std::move(*content), .owner = info.st_uid, .age = age_of(info)};
}

/// A file of this user that a killed process did not get to give its name.
bool is_left_unfinished(const fs::path& file) {
  struct stat info{};
  return ::lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         age_of(info) > kWriting;
}

/// The files that may tell of pools; what was left behind half-written is removed.
std::vector<fs::path> notes_in(const fs::path& folder) {
  auto files = list_directory(folder);
  std::erase_if(files, [](const fs::path& file) {
    const std::string name = file.filename();
    if (!name.starts_with(kFilePrefix)) return true;
    // A file that is being written has a dot in its name.
    if (!name.contains('.')) return false;
    if (is_left_unfinished(file)) ::unlink(file.c_str());
    return true;
  });
  files.resize(std::min(files.size(), kMostFiles));
  return files;
}

}  // namespace

ProcessMark own_mark() {
  return {.pid = {static_cast<std::int32_t>(::getpid())},
          .started = start_of("self").value_or(0),
          .pid_namespace = pid_namespace()};
}

std::span<const PoolFigure> pool_figures() { return kFigures; }

Result<void> set_figure(PublishedPool& pool, std::string_view key, std::uint64_t value) {
  const auto* const found = std::ranges::find(kFigures, key, &PoolFigure::key);
  if (found != kFigures.end()) {
    found->set(pool, value);
    return {};
  }
  std::vector<std::string> known;
  for (const PoolFigure& one : kFigures) known.emplace_back(one.key);
  return fail(ErrorCode::invalid_argument, fmt::format("a pool's status has no '{}'", printable(key)),
              "there are " + join(known, ", "));
}

std::string to_text(const PublishedPool& pool) {
  std::string text =
      fmt::format("{}\npid {}\nstarted {}\npid_namespace {}\ngpu {}\nstrategy {}\n", kHeading, pool.process.pid.value,
                  pool.process.started, pool.process.pid_namespace, pool.gpu.value, pool.strategy);
  for (const PoolFigure& one : kFigures) {
    if (const auto value = one.get(pool)) fmt::format_to(std::back_inserter(text), "{} {}\n", one.key, *value);
  }
  return text;
}

Result<PublishedPool> pool_of_text(std::string_view text) {
  const auto wrong = [](std::string what) {
    return fail(ErrorCode::corrupt, "a pool's status " + std::move(what), "have the process write it again");
  };
  if (!text.starts_with(kHeading) || !text.ends_with('\n')) return wrong("has no heading, or is cut off");
  PublishedPool pool;
  for (const std::string_view line : split(text.substr(0, text.size() - 1), '\n')) {
    if (line == kHeading) continue;
    const std::size_t blank = std::min(line.find(' '), line.size());
    const std::string_view value = line.substr(std::min(blank + 1, line.size()));
    if (!take(pool, line.substr(0, blank), value)) return wrong(fmt::format("says '{}'", printable(line)));
  }
  if (pool.process.pid.value <= 0 || pool.gpu.value.empty()) return wrong("names no process or no GPU");
  return pool;
}

fs::path own_pools_folder() { return fmt::format("/dev/shm/{}{}", kFolderPrefix, ::geteuid()); }

std::vector<fs::path> all_pools_folders() {
  std::vector<fs::path> folders;
  for (const fs::path& folder : list_directory("/dev/shm")) {
    const std::string name = folder.filename();
    if (!name.starts_with(kFolderPrefix)) continue;
    const auto user = whole_number(std::string_view(name).substr(kFolderPrefix.size()));
    struct stat info{};
    if (user && ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == *user)
      folders.push_back(folder);
  }
  return folders;
}

std::vector<PublishedPool> published_pools(const std::vector<fs::path>& folders) {
  std::vector<PublishedPool> pools;
  const std::string here = pid_namespace();
  for (const fs::path& folder : folders) {
    for (const fs::path& file : notes_in(folder)) {
      const auto note = read_note(file);
      if (!note) continue;
      auto pool = pool_of_text(note->content);
      if (!pool) continue;
      const Standing standing = standing_of(pool->process, note->owner, here);
      const bool is_over = standing == Standing::gone || (pool->process.pid_namespace != here && note->age > kForeign);
      if (is_over && note->owner == ::geteuid()) ::unlink(file.c_str());
      if (standing == Standing::lives) pools.push_back(std::move(*pool));
    }
  }
  return pools;
}

std::vector<PublishedPool> published_pools_of(const Environment& environment) {
  const auto named = environment.find("GPUWARDEN_MEMORY_DIR");
  const bool given = named != environment.end() && !named->second.empty();
  return published_pools(given ? std::vector<fs::path>{named->second} : all_pools_folders());
}

}  // namespace gpuwarden::pools
