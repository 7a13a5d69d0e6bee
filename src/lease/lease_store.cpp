// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/lease_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <set>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/scope_guard.hpp"
#include "gpuwarden/base/text.hpp"
#include "lease/lock_file.hpp"
#include "lease/records.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;

/// Under the gate nothing slow happens; a wait this long means that somebody is stopped inside.
constexpr auto kGatePatience = std::chrono::seconds(20);
constexpr auto kGatePause = std::chrono::milliseconds(1);

std::string record_prefix(const StoreOptions& options, const Uuid& uuid) { return options.prefix + uuid.value + "@"; }
fs::path lock_path(const StoreOptions& options, const Uuid& uuid) {
  return options.directory / (options.prefix + uuid.value + ".lock");
}
fs::path queue_path(const StoreOptions& options) { return options.directory / (options.prefix + "queue"); }

/// A UUID that is safe as a file name.
bool is_plain(const Uuid& uuid) {
  return !uuid.value.empty() && uuid.value.size() < 128 && uuid.value[0] != '.' &&
         uuid.value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
             std::string::npos;
}

/// The gate, shut again at the end of the scope even if a child has inherited the descriptor meanwhile.
class Gate {
 public:
  explicit Gate(UniqueFd fd) : fd_(std::move(fd)) {}
  Gate(Gate&&) noexcept = default;
  Gate& operator=(Gate&&) = delete;
  ~Gate() {
    if (fd_) ::flock(fd_.get(), LOCK_UN);
  }

 private:
  UniqueFd fd_;
};

Result<Gate> pass_gate(const StoreOptions& options, Clock& clock) {
  GPUWARDEN_TRY(UniqueFd gate, open_lock_file(options.directory / (options.prefix + "gate.lock"), true));
  const auto end = clock.now() + kGatePatience;
  while (!try_lock(gate, true)) {
    if (clock.now() >= end) {
      return fail(ErrorCode::timed_out, fmt::format("the lease directory {} stays locked", options.directory.string()),
                  "somebody's gpuwarden is stopped in the middle of a claim: see fuser -v on its gate.lock");
    }
    // Unequal pauses keep many waiters from coming back all at once.
    clock.sleep_for(kGatePause + std::chrono::microseconds(clock.now().time_since_epoch().count() % 1000));
  }
  return Gate(std::move(gate));
}

enum class LockState { free, shared, exclusive };

/// Called under the gate, so that trying a lock cannot make a claim fail.
LockState state_of(const fs::path& path) {
  const auto fd = open_existing_lock_file(path);
  if (!fd) return LockState::free;
  const ScopeGuard unlock([&] { ::flock(fd->get(), LOCK_UN); });
  if (try_lock(*fd, true)) return LockState::free;
  return try_lock(*fd, false) ? LockState::shared : LockState::exclusive;
}

}  // namespace

struct HeldLeases::Impl {
  struct Lock {
    Uuid uuid;
    UniqueFd fd;
    std::string record_prefix;
  };
  StoreOptions options;
  std::vector<Lock> locks;
  std::vector<Uuid> devices;
  pid_t owner = ::getpid();
};

HeldLeases::HeldLeases() = default;
HeldLeases::HeldLeases(HeldLeases&&) noexcept = default;
HeldLeases& HeldLeases::operator=(HeldLeases&&) noexcept = default;

HeldLeases::~HeldLeases() {
  if (!impl_ || impl_->owner != ::getpid()) return;
  for (auto& lock : impl_->locks) lock.fd.reset();
  const auto gate = pass_gate(impl_->options, system_clock());
  for (const auto& lock : impl_->locks) {
    // While ranks still hold the GPU, the record goes on explaining who they are.
    if (gate && state_of(lock_path(impl_->options, lock.uuid)) == LockState::exclusive) continue;
    remove_records(impl_->options.directory, lock.record_prefix);
  }
}

const std::vector<Uuid>& HeldLeases::devices() const {
  static const std::vector<Uuid> kNone;
  return impl_ ? impl_->devices : kNone;
}

std::vector<int> HeldLeases::descriptors() const {
  std::vector<int> result;
  if (!impl_) return result;
  for (const auto& lock : impl_->locks) result.push_back(lock.fd.get());
  return result;
}

void HeldLeases::abandon() { impl_.reset(); }

struct Ticket::Impl {
  std::uint64_t number = 0;
  fs::path path;
  UniqueFd fd;
  pid_t owner = ::getpid();
};

Ticket::Ticket() = default;
Ticket::Ticket(Ticket&&) noexcept = default;
Ticket& Ticket::operator=(Ticket&&) noexcept = default;
Ticket::~Ticket() {
  if (impl_ && impl_->owner == ::getpid()) ::unlink(impl_->path.c_str());
}
std::uint64_t Ticket::number() const { return impl_ ? impl_->number : 0; }
Ticket::operator bool() const { return impl_ != nullptr; }

LeaseStore::LeaseStore(StoreOptions options, Clock& clock) : options_(std::move(options)), clock_(&clock) {}

Result<LeaseStore> LeaseStore::open(StoreOptions options, Clock& clock) {
  GPUWARDEN_CHECK(prepare_directory(options.directory));
  return LeaseStore(std::move(options), clock);
}

namespace {

/// Live tickets in the order of their numbers; dead ones (nobody holds their lock) are removed where permitted.
std::vector<facts::LeaseTicket> live_tickets(const StoreOptions& options) {
  std::vector<facts::LeaseTicket> tickets;
  for (const fs::path& path : list_directory(queue_path(options))) {
    if (path.extension() != ".ticket") continue;
    const auto fd = open_existing_lock_file(path);
    if (!fd) continue;
    if (try_lock(*fd, true)) {
      ::unlink(path.c_str());
      continue;
    }
    const auto text = read_file(path, std::size_t{1} << 20U);
    if (auto ticket = text ? decode_ticket(*text) : std::nullopt) tickets.push_back(std::move(*ticket));
  }
  std::ranges::sort(tickets, {}, &facts::LeaseTicket::number);
  return tickets;
}

/// Who holds a locked GPU. Records of holders that have gone are left out where another one lives; if none does, the
/// ranks of one that is gone hold the lock.
std::vector<facts::LeaseHolder> holders_of(const StoreOptions& options, const Uuid& uuid) {
  auto holders = read_records(options.directory, record_prefix(options, uuid));
  const auto is_alive = [](const facts::LeaseHolder& holder) {
    return ::kill(holder.pid.value, 0) == 0 || errno == EPERM;
  };
  if (std::ranges::any_of(holders, is_alive)) std::erase_if(holders, std::not_fn(is_alive));
  return holders;
}

/// Called under the gate.
Situation look(const StoreOptions& options, std::uint64_t my_ticket) {
  Situation situation;
  for (const fs::path& path : list_directory(options.directory)) {
    const std::string name = path.filename();
    if (!name.starts_with(options.prefix) || !name.ends_with(".lock")) continue;
    const Uuid uuid(name.substr(options.prefix.size(), name.size() - options.prefix.size() - 5));
    // "index-0": a GPU without a UUID, as that of a Jetson.
    if (!uuid.value.starts_with("GPU-") && !uuid.value.starts_with("MIG-") && !uuid.value.starts_with("index-"))
      continue;
    const LockState state = state_of(path);
    if (state == LockState::free) {
      remove_records(options.directory, record_prefix(options, uuid));
      continue;
    }
    situation.leases.push_back({uuid, state == LockState::shared, holders_of(options, uuid)});
  }
  std::ranges::sort(situation.leases, {}, &facts::Lease::uuid);
  situation.waiting = live_tickets(options);
  std::set<Uuid> spoken_for;
  for (const facts::LeaseTicket& ticket : situation.waiting) {
    if (my_ticket != 0 && ticket.number >= my_ticket) break;
    spoken_for.insert(ticket.candidates.begin(), ticket.candidates.end());
  }
  situation.spoken_for.assign(spoken_for.begin(), spoken_for.end());
  return situation;
}

}  // namespace

Result<Situation> LeaseStore::inspect() const {
  GPUWARDEN_TRY(const Gate gate, pass_gate(options_, *clock_));
  return look(options_, 0);
}

Result<std::optional<HeldLeases>> LeaseStore::claim(
    const Ticket* ticket, const std::function<Result<Choice>(const Situation&)>& choose) const {
  GPUWARDEN_TRY(const Gate gate, pass_gate(options_, *clock_));
  GPUWARDEN_TRY(const Choice choice, choose(look(options_, ticket != nullptr ? ticket->number() : 0)));
  if (choice.devices.empty()) return std::nullopt;
  // Not a HeldLeases before it is whole: that would pass the gate to give its part back, and the gate is ours.
  auto impl = std::make_unique<HeldLeases::Impl>();
  impl->options = options_;
  for (const Uuid& uuid : choice.devices) {
    if (!is_plain(uuid))
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no GPU's UUID", printable(uuid.value)));
    GPUWARDEN_TRY(UniqueFd fd, open_lock_file(lock_path(options_, uuid), false));
    if (!try_lock(fd, !choice.shared)) return std::nullopt;
    impl->devices.push_back(uuid);
    impl->locks.push_back(
        {uuid, std::move(fd), fmt::format("{}{}", record_prefix(options_, uuid), options_.self.run_id)});
  }
  for (const auto& lock : impl->locks) {
    write_record(options_.directory / (lock.record_prefix + ".json"), options_.self);
  }
  HeldLeases held;
  held.impl_ = std::move(impl);
  return held;
}

Result<Ticket> LeaseStore::queue(std::uint32_t wants, const std::vector<Uuid>& candidates) const {
  GPUWARDEN_TRY(const Gate gate, pass_gate(options_, *clock_));
  GPUWARDEN_CHECK(prepare_directory(queue_path(options_)));
  const fs::path counter_path = queue_path(options_) / "counter";
  GPUWARDEN_TRY(const UniqueFd counter, open_lock_file(counter_path, true));
  const auto last = parse_integer(read_line(counter_path).value_or("0")).value_or(0);
  const auto tickets = live_tickets(options_);
  // The counter may be another user's and unwritable only if somebody changed its mode; live tickets then still order.
  const std::uint64_t number = std::max<std::uint64_t>(static_cast<std::uint64_t>(std::max<std::int64_t>(last, 0)),
                                                       tickets.empty() ? 0 : tickets.back().number) +
                               1;
  const std::string text = std::to_string(number) + "\n";
  [[maybe_unused]] const ssize_t counted = ::pwrite(counter.get(), text.data(), text.size(), 0);
  Ticket ticket;
  ticket.impl_ = std::make_unique<Ticket::Impl>();
  ticket.impl_->number = number;
  ticket.impl_->path = queue_path(options_) / fmt::format("{:012}-{}.ticket", number, ::getpid());
  GPUWARDEN_TRY(ticket.impl_->fd, open_lock_file(ticket.impl_->path, true));
  const std::string body = encode_ticket({number, options_.self, wants, candidates});
  if (!try_lock(ticket.impl_->fd, true) ||
      ::write(ticket.impl_->fd.get(), body.data(), body.size()) != static_cast<ssize_t>(body.size())) {
    return std::unexpected(error_from_errno(errno, "cannot write " + ticket.impl_->path.string()));
  }
  return ticket;
}

std::optional<std::string> container_warning(const fs::path& lease_directory) {
  std::error_code ignored;
  const std::string init_groups = read_file("/proc/1/cgroup").value_or("");
  const bool named = init_groups.contains("docker") || init_groups.contains("kubepods") || init_groups.contains("lxc");
  const bool container = named || fs::exists("/.dockerenv", ignored) || fs::exists("/run/.containerenv", ignored);
  if (!container) return std::nullopt;
  struct stat own{};
  struct stat parent{};
  const bool readable =
      ::stat(lease_directory.c_str(), &own) == 0 && ::stat(lease_directory.parent_path().c_str(), &parent) == 0;
  if (readable && own.st_dev != parent.st_dev) return std::nullopt;  // mounted from outside
  return fmt::format(
      "this is a container, and its lease directory {} is not the host's: others cannot see what is leased here (mount "
      "it, "
      "for example -v {}:{})",
      lease_directory.string(), lease_directory.string(), lease_directory.string());
}

}  // namespace gpuwarden::lease
