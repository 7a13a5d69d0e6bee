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
#include <tuple>

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
};

/// Whether somebody holds the ticket's lock, tried without shutting out others who try.
bool is_held(const UniqueFd& fd) {
  const bool had = try_lock(fd, false) == LockResult::had;
  if (had) ::flock(fd.get(), LOCK_UN);
  return !had;
}

/// The process that waits with this ticket, if it is its owner's and visible; `refused` where another user's holds it.
std::optional<Process> waiter_of(const StoreOptions& options, const std::vector<KernelLock>& locks, const UniqueFd& fd,
                                 std::uint32_t owner, bool& refused) {
  const auto key = key_of(fd);
  bool others = false;
  for (const KernelLock& lock : locks) {
    if (!key || lock.file != *key) continue;
    auto process = find_process(options.proc_root, lock.pid);
    if (process && process->uid == owner) return process;
    others = others || process.has_value();
  }
  refused = others;
  return std::nullopt;
}

std::optional<Waiting> read_ticket(const StoreOptions& options, const std::vector<KernelLock>& locks,
                                   const fs::path& path, bool sweep) {
  const auto fd = open_existing_lock_file(path);
  if (!fd) return std::nullopt;
  if (!is_held(*fd)) {
    if (sweep) ::unlink(path.c_str());
    return std::nullopt;
  }
  struct stat info{};
  if (::fstat(fd->get(), &info) != 0) return std::nullopt;
  const auto text = read_descriptor(fd->get(), path.string(), kTicketCap);
  auto ticket = text ? decode_ticket(*text) : std::nullopt;
  if (!ticket) return std::nullopt;
  bool refused = false;
  const auto waiter = waiter_of(options, locks, *fd, info.st_uid, refused);
  if (refused) return std::nullopt;
  ticket->id = path.filename();
  ticket->owner.user = user_name(info.st_uid);
  ticket->owner.pid = waiter ? waiter->pid : Pid{0};
  return Waiting{birth_of(*fd), info.st_uid, std::move(*ticket)};
}

}  // namespace

std::vector<facts::LeaseTicket> live_tickets(const StoreOptions& options, bool sweep) {
  std::vector<fs::path> paths = list_directory(queue_path(options));
  std::erase_if(paths, [](const fs::path& path) { return path.extension() != ".ticket"; });
  std::vector<facts::LeaseTicket> tickets;
  if (paths.empty()) return tickets;
  const auto locks = read_locks(options.proc_root);
  std::vector<Waiting> waiting;
  for (const fs::path& path : paths) {
    if (auto one = read_ticket(options, locks, path, sweep)) waiting.push_back(std::move(*one));
  }
  std::ranges::sort(waiting, {}, [](const Waiting& one) { return std::tie(one.since, one.ticket.id); });
  std::map<std::uint32_t, std::size_t> of_user;
  for (Waiting& one : waiting) {
    if (++of_user[one.uid] > kTicketsOfOneUser) continue;
    one.ticket.number = tickets.size() + 1;
    tickets.push_back(std::move(one.ticket));
  }
  return tickets;
}

Result<NewTicket> make_ticket(const StoreOptions& options, std::uint32_t wants, const std::vector<Uuid>& candidates) {
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
  const std::string text = encode_ticket({0, "", options.self, wants, candidates});
  GPUWARDEN_CHECK(write_descriptor(ticket.fd.get(), text, ticket.path.string()));
  if (::rename(beginning.c_str(), ticket.path.c_str()) != 0) return refuse();
  return ticket;
}

}  // namespace gpuwarden::lease
