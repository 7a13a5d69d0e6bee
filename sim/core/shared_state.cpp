// SPDX-License-Identifier: Apache-2.0
#include "sim/core/shared_state.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::sim {
namespace {

constexpr std::uint64_t kMagic = 0x6770757761726431;  // "gpuward1"

/// Counts from the file are used as bounds; a damaged file must not send anybody out of them.
bool is_sound(const Body& body) {
  return body.process_count <= kMaxProcesses && body.fault_count <= kMaxFaults &&
         body.override_count <= kMaxOverrides && body.holding_count <= kMaxHoldings &&
         body.account_count <= kMaxAccounts && body.speed > 0 && body.speed <= 1e6 && body.tick < (1ULL << 50U);
}

bool faults_equal(const Body& a, const Body& b) {
  return a.fault_count == b.fault_count && std::memcmp(a.faults, b.faults, a.fault_count * sizeof(SharedFault)) == 0;
}

}  // namespace

struct SharedState::File {
  std::uint64_t magic;
  std::uint64_t size;
  std::atomic<std::uint32_t> active;
  std::uint32_t pad;
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint64_t> fault_generation;
  Body bodies[2];
};

SharedState::~SharedState() {
  if (file_ != nullptr) ::munmap(file_, sizeof(File));
}

Result<void> SharedState::open(const std::filesystem::path& folder, const std::function<void(Body&)>& initial) {
  static_assert(std::is_trivially_copyable_v<Body>);
  folder_ = folder;
  const std::string path = (folder / "state").string();
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return std::unexpected(error_from_errno(errno, "cannot open " + path));
  struct stat info{};
  const bool fits = ::fstat(fd.get(), &info) == 0 && static_cast<std::size_t>(info.st_size) == sizeof(File);
  if (!fits && ::ftruncate(fd.get(), sizeof(File)) != 0) {
    return std::unexpected(error_from_errno(errno, "cannot size " + path));
  }
  void* memory = ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return std::unexpected(error_from_errno(errno, "cannot map " + path));
  file_ = static_cast<File*>(memory);
  const std::uint32_t active = file_->active.load();
  if (!fits || file_->magic != kMagic || file_->size != sizeof(File) || active > 1 ||
      !is_sound(file_->bodies[active])) {
    auto body = std::make_unique<Body>();
    initial(*body);
    file_->bodies[0] = *body;
    file_->active.store(0);
    file_->size = sizeof(File);
    file_->magic = kMagic;
  }
  return {};
}

std::uint64_t SharedState::generation() const { return file_->generation.load(); }
std::uint64_t SharedState::fault_generation() const { return file_->fault_generation.load(); }

Result<void> SharedState::update(const std::function<bool(Body&)>& change) {
  const std::scoped_lock threads(mutex_);
  const std::string path = (folder_ / "lock").string();
  const UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return std::unexpected(error_from_errno(errno, "cannot open " + path));
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return std::unexpected(error_from_errno(errno, "cannot lock " + path));
  }
  const std::uint32_t active = file_->active.load() & 1U;
  Body& next = file_->bodies[active ^ 1U];
  next = file_->bodies[active];
  if (!is_sound(next)) return fail(ErrorCode::corrupt, "the fleet's state in " + folder_.string() + " is damaged");
  if (!change(next)) return {};
  const bool same_faults = faults_equal(next, file_->bodies[active]);
  file_->active.store(active ^ 1U);
  file_->generation.fetch_add(1);
  if (!same_faults) file_->fault_generation.fetch_add(1);
  return {};
}

}  // namespace gpuwarden::sim
