// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/health_notices.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/host_name.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/state_files.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::milliseconds;
using NoticeTime = std::chrono::system_clock::time_point;

constexpr std::string_view kNoticeEnd = ".health.json";
constexpr std::size_t kLargestNotice = std::size_t{1} << 20U;
constexpr std::size_t kMostNotices = 256;
constexpr std::chrono::seconds kHeartbeat{30};

std::int64_t unix_milliseconds(NoticeTime time) {
  return std::chrono::floor<milliseconds>(time.time_since_epoch()).count();
}

bool ends_in_notice(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(kNoticeEnd) && !name.starts_with('.');
}

/// One file: what it says, or why it is not believed. Neither where it is nobody's word any more.
struct Notice {
  std::vector<Verdict> unfit;
  std::string warning;
};

Notice not_believed(const fs::path& file, std::string_view why) {
  return {{}, fmt::format("{} is ignored: {}", file.string(), why)};
}

/// The words of a file that is somebody's own; empty where they are damaged.
std::optional<std::vector<Verdict>> parse_notice(const std::string& text, uid_t owner, NoticeTime now) {
  const Json json = Json::parse(text, nullptr, false);
  const auto is_integer = [&](const char* key) { return json.contains(key) && json[key].is_number_integer(); };
  const bool whole = facts::has_own_schema(json) && is_integer("good_until_unix_ms") && is_integer("pid") &&
                     json.value("program", Json()).is_string() && json.value("unfit", Json()).is_array();
  if (!whole) return std::nullopt;
  if (json["good_until_unix_ms"].get<std::int64_t>() < unix_milliseconds(now)) return std::vector<Verdict>{};
  const std::string by = printable(fmt::format("{}'s {} (pid {})", user_name(owner), json["program"].get<std::string>(),
                                               json["pid"].get<std::int64_t>()));
  std::vector<Verdict> list;
  for (const Json& entry : json["unfit"]) {
    auto health = facts::health_from_json(entry);
    if (!health || health->uuid.value.empty()) return std::nullopt;
    health->reason = printable(health->reason);
    health->next_step = printable(health->next_step);
    list.push_back({std::move(*health), by, owner == 0, {}});
  }
  return list;
}

/// Whether the name still leads to the file that is open; its writer may have put a newer one there.
bool is_still_there(const fs::path& file, const struct stat& opened) {
  struct stat now{};
  return ::lstat(file.c_str(), &now) == 0 && now.st_dev == opened.st_dev && now.st_ino == opened.st_ino;
}

/// Nothing where the file was replaced while it was looked at.
std::optional<Notice> read_notice_once(const fs::path& file, NoticeTime now) {
  // A pipe must not keep the caller waiting, and a link not lead elsewhere.
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  // Who took his word back did so while the folder was read.
  if (!fd && errno == ENOENT) return Notice{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return not_believed(file, std::strerror(errno));
  const bool trusted = status.st_uid == 0 || status.st_uid == ::geteuid();
  if (!S_ISREG(status.st_mode) || !trusted || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return not_believed(file, "it is not root's nor your own, or others may write to it");
  if (::flock(fd.get(), LOCK_SH | LOCK_NB) == 0) {
    if (!is_still_there(file, status)) return std::nullopt;
    // Its writer has ended. Only his own files does one clear away.
    if (status.st_uid == ::geteuid()) ::unlink(file.c_str());
    return Notice{};
  }
  const auto text = read_descriptor(fd.get(), file.string(), kLargestNotice);
  if (!text) return not_believed(file, text.error().message);
  auto unfit = parse_notice(*text, status.st_uid, now);
  if (!unfit) return not_believed(file, "it is damaged, or another version of gpuwarden wrote it");
  return Notice{std::move(*unfit), ""};
}

Notice read_notice(const fs::path& file, NoticeTime now) {
  // A writer replaces its file every half minute: twice at the same moment is chance enough.
  for (int tries = 0; tries < 3; ++tries) {
    if (auto notice = read_notice_once(file, now)) return std::move(*notice);
  }
  return {};
}

/// Root's word is undone by root's alone.
bool is_undone(const Verdict& verdict, std::span<const Acceptance> accepted) {
  return std::ranges::any_of(accepted, [&](const Acceptance& one) {
    return (one.for_everybody || !verdict.for_everybody) && is_accepted({&one, 1}, verdict.health);
  });
}

void add_verdict(HealthView& view, Verdict verdict, std::span<const Acceptance> accepted) {
  const auto same = [&](const Verdict& one) { return one.health.uuid == verdict.health.uuid; };
  if (is_undone(verdict, accepted) || std::ranges::any_of(view.verdicts, same)) return;
  view.verdicts.push_back(std::move(verdict));
}

/// Those of them that last, in words that tell when one has changed.
std::string words_of(const facts::Health& health) {
  std::string words;
  for (const facts::HealthCause& cause : health.causes) {
    if (cause.until_reset) words += fmt::format("{}: {}\n", cause.id, cause.reason);
  }
  return words;
}

/// What is wrong with a GPU, without the word of the person who has disabled it.
facts::Health as_judged(facts::Health health) {
  if (health.state != facts::HealthState::disabled) return health;
  health.state = facts::HealthState::error;
  const auto lasting = std::ranges::find_if(health.causes, &facts::HealthCause::until_reset);
  health.reason = lasting->reason;
  health.next_step = lasting->next_step;
  return health;
}

std::string host_name() {
  std::string host = own_host_name();
  if (host.empty()) host = "localhost";
  std::ranges::replace(host, '/', '_');
  return host;
}

/// A name of its own for each publisher of a process.
std::string notice_name() {
  static std::atomic<unsigned> count = 0;
  return fmt::format("{}-{}{}", ::getpid(), ++count, kNoticeEnd);
}

}  // namespace

HealthPlaces health_places(const DisablingPlaces& disablings) {
  const fs::path everybody = disablings.everybody / "health";
  if (disablings.own.empty() || disablings.own == disablings.everybody)
    return {everybody, disablings.own.empty() ? fs::path() : everybody, {}};
  // A home may be several machines' own.
  return {everybody, disablings.own / "health" / host_name(), {}};
}

facts::Disabling disabling_of(const Verdict& verdict) {
  return {verdict.health.uuid,
          "judged unfit: " + verdict.health.reason,
          verdict.by,
          verdict.for_everybody,
          verdict.health.since,
          true,
          verdict.health.next_step};
}

HealthView read_health(const HealthPlaces& places, NoticeTime now, const VerdictView& known) {
  HealthView view;
  std::vector<fs::path> folders{places.everybody};
  if (!places.own.empty() && places.own != places.everybody) folders.push_back(places.own);
  std::size_t read = 0;
  for (const fs::path& folder : folders) {
    for (const fs::path& file : list_directory(folder)) {
      if (!ends_in_notice(file) || ++read > kMostNotices) continue;
      Notice notice = read_notice(file, now);
      if (!notice.warning.empty()) view.warnings.push_back(std::move(notice.warning));
      for (Verdict& one : notice.unfit) add_verdict(view, std::move(one), known.accepted);
    }
  }
  for (const Verdict& one : known.verdicts) add_verdict(view, one, known.accepted);
  std::ranges::stable_partition(view.verdicts, &Verdict::for_everybody);
  for (const Verdict& one : view.verdicts) view.unfit.push_back(disabling_of(one));
  return view;
}

HealthPublisher::HealthPublisher(HealthPlaces places, std::string program, milliseconds interval)
    : places_(std::move(places)), program_(std::move(program)), interval_(interval) {}

HealthPublisher::~HealthPublisher() { take_back(); }

void HealthPublisher::take_back() {
  // A forked child has the object, but not the file.
  const bool own = file_.filename().string().starts_with(fmt::format("{}-", ::getpid()));
  if (own) ::unlink(file_.c_str());
  lock_.reset();
  file_.clear();
  told_.clear();
}

Result<void> HealthPublisher::keep_lasting(std::span<const facts::Health> health, std::span<const ResetMark> marks) {
  if (std::string epoch = places_.current_epoch(); !kept_ || epoch != kept_epoch_) {
    GPUWARDEN_TRY(const VerdictView before, read_verdicts(places_));
    kept_epoch_ = std::move(epoch);
    kept_.emplace();
    for (const Verdict& one : before.verdicts) (*kept_)[one.health.uuid.value] = words_of(one.health);
  }
  auto kept = *kept_;
  std::vector<Verdict> unfit;
  std::vector<Uuid> fit;
  for (const facts::Health& one : health) {
    // Known by its place alone: its state says enough, and the name would be another GPU's later.
    if (one.uuid.value.starts_with("index-")) continue;
    const auto known = kept.find(one.uuid.value);
    const std::string words = words_of(one);
    const bool ill = one.state == facts::HealthState::error || one.state == facts::HealthState::disabled;
    if (ill && !words.empty() && (known == kept.end() || known->second != words)) {
      const auto mark = std::ranges::find(marks, one.uuid, &ResetMark::uuid);
      unfit.push_back({as_judged(one), fmt::format("{}'s {}", user_name(::geteuid()), program_), true,
                       mark == marks.end() ? ResetMark{} : *mark});
      kept[one.uuid.value] = words;
    }
    // Who is disabled, or in error by something else, may have it still.
    const bool well = one.state == facts::HealthState::available || one.state == facts::HealthState::busy;
    if (well && known != kept.end()) {
      fit.push_back(one.uuid);
      kept.erase(known);
    }
  }
  if (unfit.empty() && fit.empty()) return {};
  GPUWARDEN_CHECK(keep_verdicts(places_, unfit, fit));
  kept_ = std::move(kept);
  return {};
}

Result<void> HealthPublisher::publish(std::span<const facts::Health> health, NoticeTime now, Clock::SteadyTime when,
                                      std::span<const ResetMark> marks) {
  const auto kept = keep_lasting(health, marks);
  std::vector<facts::Health> unfit;
  std::string words;
  for (const facts::Health& one : health) {
    if (one.state != facts::HealthState::error) continue;
    unfit.push_back(one);
    words += fmt::format("{}\n{}\n{}\n", one.uuid.value, one.reason, one.next_step);
  }
  if (unfit.empty()) {
    take_back();
    return kept;
  }
  if (words == told_ && when - written_ < kHeartbeat) return kept;
  GPUWARDEN_CHECK(write(unfit, now));
  told_ = std::move(words);
  written_ = when;
  return kept;
}

Result<void> HealthPublisher::write(const std::vector<facts::Health>& unfit, NoticeTime now) {
  const fs::path& folder = ::geteuid() == 0 || places_.own.empty() ? places_.everybody : places_.own;
  GPUWARDEN_CHECK(make_state_folder(folder));
  if (file_.empty()) file_ = folder / notice_name();
  Json list = Json::array();
  for (const facts::Health& one : unfit) list.push_back(facts::to_json(one));
  const Json json = facts::document(
      {{"program", program_},
       {"pid", ::getpid()},
       {"good_until_unix_ms", unix_milliseconds(now + 3 * std::max<milliseconds>(interval_, kHeartbeat))},
       {"unfit", std::move(list)}});
  // Made beside it and locked before it takes its place: who opens the file finds it whole and its writer alive.
  const fs::path made = folder / ("." + file_.filename().string());
  ::unlink(made.c_str());
  UniqueFd fd(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return std::unexpected(error_from_errno(errno, made.string()));
  if (::fchmod(fd.get(), 0644) != 0 || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return std::unexpected(error_from_errno(errno, made.string()));
  GPUWARDEN_CHECK(
      write_descriptor(fd.get(), json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", made.string()));
  if (::rename(made.c_str(), file_.c_str()) != 0) return std::unexpected(error_from_errno(errno, file_.string()));
  lock_ = std::move(fd);
  return {};
}

}  // namespace gpuwarden::lease
