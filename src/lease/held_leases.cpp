// SPDX-License-Identifier: Apache-2.0
#include "lease/held_leases.hpp"

#include <fmt/format.h>

#include <utility>

#include "lease/gate.hpp"
#include "lease/records.hpp"
#include "lease/situation.hpp"

namespace gpuwarden::lease {
namespace {

/// Giving back does not wait for somebody who is stopped in the middle of a claim: the locks are open by then.
constexpr auto kPatienceAtTheEnd = std::chrono::milliseconds(500);

}  // namespace

void HeldLeases::Impl::write_records() const {
  for (const DeviceLock& lock : locks) write_record(options.directory / (record_of(lock) + ".json"), options.self);
}

HeldLeases::HeldLeases() = default;
HeldLeases::HeldLeases(HeldLeases&&) noexcept = default;

HeldLeases& HeldLeases::operator=(HeldLeases&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

void HeldLeases::Impl::give_back(std::vector<DeviceLock> given) {
  for (DeviceLock& lock : given) {
    lock.kernel.reset();
    lock.shared_folder.reset();
    lock.ground.reset();
  }
  const auto gate = Gate::pass(options, *clock, kPatienceAtTheEnd, {});
  for (const DeviceLock& lock : given) {
    // While ranks still hold the GPU, the record goes on explaining who they are.
    const Care care = gate ? Care::under_gate : Care::without_gate;
    if (state_of(lock.options, lock.device, care) == LockState::exclusive) continue;
    remove_records(options.directory, record_of(lock));
  }
}

HeldLeases::~HeldLeases() {
  if (!impl_ || impl_->owner != ::getpid()) return;
  impl_->give_back(std::move(impl_->locks));
}

void HeldLeases::give_back(const Uuid& device) {
  if (!impl_) return;
  std::vector<DeviceLock> given;
  std::vector<DeviceLock> kept;
  for (DeviceLock& lock : impl_->locks) (lock.device.uuid == device ? given : kept).push_back(std::move(lock));
  impl_->locks = std::move(kept);
  std::erase(impl_->devices, device);
  if (!given.empty()) impl_->give_back(std::move(given));
}

void HeldLeases::join(HeldLeases other) {
  if (!impl_ || !other.impl_) {
    if (!impl_) std::swap(impl_, other.impl_);
    return;
  }
  for (DeviceLock& lock : other.impl_->locks) impl_->locks.push_back(std::move(lock));
  for (const Uuid& uuid : other.impl_->devices) impl_->devices.push_back(uuid);
  for (std::string& warning : other.impl_->warnings) impl_->warnings.push_back(std::move(warning));
  other.impl_.reset();
}

const std::vector<Uuid>& HeldLeases::devices() const {
  static const std::vector<Uuid> kNone;
  return impl_ ? impl_->devices : kNone;
}

std::vector<int> HeldLeases::descriptors() const {
  std::vector<int> result;
  if (!impl_) return result;
  for (const DeviceLock& lock : impl_->locks) {
    if (lock.kernel) result.push_back(lock.kernel.get());
    if (lock.shared_folder) result.push_back(lock.shared_folder.get());
    if (lock.ground) result.push_back(lock.ground.get());
    for (const UniqueFd& above : lock.inherited) {
      if (above) result.push_back(above.get());
    }
  }
  return result;
}

const std::vector<std::string>& HeldLeases::warnings() const {
  static const std::vector<std::string> kNone;
  return impl_ ? impl_->warnings : kNone;
}

std::vector<std::string> HeldLeases::repair() {
  std::vector<std::string> sentences;
  if (!impl_) return sentences;
  for (DeviceLock& lock : impl_->locks) {
    const std::filesystem::path path = lock_path(lock.options, lock.device.uuid);
    if (!lock.shared_folder || is_at(lock.shared_folder, path)) continue;
    auto fd = open_lock_file(path, false);
    const bool had = fd && try_lock(*fd, impl_->exclusive) == LockResult::had && is_at(*fd, path);
    sentences.push_back(
        fmt::format("somebody removed the lock file {}: {}", path.string(),
                    had ? "it is made and locked again" : "another container may have taken the GPU meanwhile"));
    // The old one is kept where there is no new one: the next call tries again.
    if (had) lock.shared_folder = std::move(*fd);
  }
  if (!sentences.empty()) impl_->write_records();
  return sentences;
}

void HeldLeases::abandon() { impl_.reset(); }

Ticket::Ticket() = default;
Ticket::Ticket(Ticket&&) noexcept = default;

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Ticket::~Ticket() {
  if (impl_ && impl_->owner == ::getpid()) ::unlink(impl_->file.path.c_str());
}

const std::string& Ticket::id() const {
  static const std::string kNone;
  return impl_ ? impl_->file.id : kNone;
}

Ticket::operator bool() const { return impl_ != nullptr; }

}  // namespace gpuwarden::lease
