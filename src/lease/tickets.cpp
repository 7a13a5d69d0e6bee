// SPDX-License-Identifier: Apache-2.0
#include "lease/tickets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/file.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/lock_file.hpp"
#include "lease/records.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTicketCap = std::size_t{64} << 10U;
constexpr std::size_t kTicketsOfOneUser = 256;

fs::path queue_path(const StoreOptions& options) { return options.directory / (options.prefix + "queue"); }

/// When the file came to be; where the file system does not keep that, when it last changed, which its owner can only
/// move towards the end of the line.
std::pair<std::int64_t, std::uint32_t> birth_of(const UniqueFd& fd) {
  struct statx info{};
  if (::statx(fd.get(), "", AT_EMPTY_PATH, STATX_BTIME | STATX_CTIME, &info) != 0) return {INT64_MAX, 0};
  const auto& time = (info.stx_mask & STATX_BTIME) != 0 ? info.stx_btime : info.stx_ctime;
  return {time.tv_sec, time.tv_nsec};
}

struct Waiting {
  std::pair<std::int64_t, std::uint32_t> since;
  std::uint32_t uid = 0;
  facts::LeaseTicket ticket;
  std::int32_t priority = 0;
};

/// Whether somebody holds the ticket's lock, tried without shutting out others who try.
bool is_held(const UniqueFd& fd) {
  const bool had = try_lock(fd, false) == LockResult::had;
  if (had) ::flock(fd.get(), LOCK_UN);
  return !had;
}

/// Fills in what the ticket says and whose it is; false where it is no ticket or another user's process holds it.
bool read_ticket(const LockTable& locks, const StoreOptions& options, const UniqueFd& fd, Waiting& waiting) {
  const auto text = read_descriptor(fd.get(), waiting.ticket.id, kTicketCap);
  auto said = text ? decode_ticket(*text) : std::nullopt;
  if (!said) return false;
  said->id = std::move(waiting.ticket.id);
  said->owner.user = user_name(waiting.uid);
  said->owner.pid = Pid{0};
  const auto pids = locks.on(fd);
  const auto own = std::ranges::find_if(pids, [&](Pid pid) { return is_of_user(options.proc_root, pid, waiting.uid); });
  if (own != pids.end()) said->owner.pid = *own;
  waiting.ticket = std::move(*said);
  // No process at all: it is in another container, and its file alone tells whose it is.
  return own != pids.end() ||
         std::ranges::none_of(pids, [&](Pid pid) { return find_process(options.proc_root, pid).has_value(); });
}

std::int32_t priority_in(const UniqueFd& fd, const fs::path& path) {
  // It may have been read before.
  if (::lseek(fd.get(), 0, SEEK_SET) != 0) return 0;
  const auto text = read_descriptor(fd.get(), path.string(), kTicketCap);
  return text ? priority_of_ticket(*text) : 0;
}

/// Each user's tickets among the places that these have in the line: whoever is between them keeps his own.
void order_by_priority(std::vector<Waiting>& waiting) {
  std::map<std::uint32_t, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < waiting.size(); ++i) places[waiting[i].uid].push_back(i);
  const std::vector<Waiting> before = waiting;
  for (const auto& [uid, own] : places) {
    std::vector<std::size_t> order = own;
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return before[i].priority; });
    for (std::size_t i = 0; i < own.size(); ++i) waiting[own[i]] = before[order[i]];
  }
}

}  // namespace

std::vector<facts::LeaseTicket> live_tickets(const StoreOptions& options, Names names, bool sweep) {
  std::vector<Waiting> waiting;
  std::optional<LockTable> locks;
  for (const fs::path& path : list_directory(queue_path(options))) {
    const auto fd = path.extension() == ".ticket" ? open_existing_lock_file(path) : std::nullopt;
    struct stat info{};
    if (!fd || ::fstat(fd->get(), &info) != 0) continue;
    if (!is_held(*fd)) {
      if (sweep) ::unlink(path.c_str());
      continue;
    }
    Waiting one{birth_of(*fd), info.st_uid, {}, 0};
    one.ticket.id = path.filename();
    if (names == Names::told) {
      if (!locks) locks.emplace(options.proc_root);
      if (!read_ticket(*locks, options, *fd, one)) continue;
    }
    one.priority = priority_in(*fd, path);
    waiting.push_back(std::move(one));
  }
  std::ranges::sort(waiting, {}, [](const Waiting& one) { return std::tie(one.since, one.ticket.id); });
  order_by_priority(waiting);
  std::vector<facts::LeaseTicket> tickets;
  std::map<std::uint32_t, std::size_t> of_user;
  for (Waiting& one : waiting) {
    if (++of_user[one.uid] > kTicketsOfOneUser) continue;
    one.ticket.number = tickets.size() + 1;
    tickets.push_back(std::move(one.ticket));
  }
  return tickets;
}

Result<NewTicket> make_ticket(const StoreOptions& options, std::uint32_t wants, const std::vector<Uuid>& candidates,
                              std::int32_t priority) {
  GPUWARDEN_CHECK(prepare_directory(queue_path(options)));
  // The kernel's file times are some milliseconds coarse: within one the names decide, which go on by the nanosecond.
  const auto now = std::chrono::nanoseconds(system_clock().wall_now().time_since_epoch());
  NewTicket ticket;
  ticket.id = fmt::format("{:020}-{}.ticket", now.count(), ::getpid());
  ticket.path = queue_path(options) / ticket.id;
  // Locked and whole before it has the name of a ticket: those who look without the gate do not see less. Nobody else
  // may write it, since a change would send its owner to the end of the line.
  fs::path beginning = ticket.path;
  beginning.replace_extension(".new");
  ticket.fd.reset(::open(beginning.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  const auto refuse = [&] { return std::unexpected(error_from_errno(errno, "cannot write " + ticket.path.string())); };
  if (!ticket.fd || ::fchmod(ticket.fd.get(), 0644) != 0) return refuse();
  if (try_lock(ticket.fd, true) != LockResult::had) return refuse();
  const std::string text = encode_ticket({0, "", options.self, wants, candidates}, priority);
  GPUWARDEN_CHECK(write_descriptor(ticket.fd.get(), text, ticket.path.string()));
  if (::rename(beginning.c_str(), ticket.path.c_str()) != 0) return refuse();
  return ticket;
}

}  // namespace gpuwarden::lease
