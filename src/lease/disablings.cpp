// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/disablings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;
using facts::Disabling;

constexpr const char* kDisablingFile = "disabled.json";
constexpr std::size_t kLargestDisablingFile = std::size_t{4} << 20U;

bool is_root() { return ::geteuid() == 0; }

std::string name_of_caller() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

std::unexpected<Error> unknown_disablings(ErrorCode code, const fs::path& file, const std::string& why) {
  return fail(code, fmt::format("{}: {}; which GPUs are disabled is unknown", file.string(), why),
              fmt::format("mend the file, or remove it to enable all GPUs: rm {}", file.string()));
}

/// What one file says.
struct FileWords {
  std::vector<Disabling> disabled;
  std::string warning;  ///< why it is not believed
};

Result<std::vector<Disabling>> parse_disablings(const std::string& text, const fs::path& file, bool of_root) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object() || !json.contains("disabled") || !json["disabled"].is_array())
    return unknown_disablings(ErrorCode::corrupt, file, "damaged");
  if (!json.contains("schema") || json["schema"] != facts::kJsonSchema)
    return unknown_disablings(ErrorCode::corrupt, file, "written by another version of gpuwarden");
  std::vector<Disabling> list;
  for (const auto& entry : json["disabled"]) {
    auto one = facts::disabling_from_json(entry);
    if (!one || one->uuid.value.empty()) return unknown_disablings(ErrorCode::corrupt, file, "damaged");
    // Whose word it is tells the file's owner.
    one->for_everybody = of_root;
    one->reason = printable(one->reason);
    one->by = printable(one->by);
    list.push_back(std::move(*one));
  }
  return list;
}

Result<FileWords> read_words(const fs::path& folder) {
  const fs::path file = folder / kDisablingFile;
  // A pipe must not keep the caller waiting, and a link not lead elsewhere.
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return FileWords{};
  if (!fd && errno == ELOOP) return FileWords{{}, fmt::format("{} is a symbolic link and is ignored", file.string())};
  if (!fd) return unknown_disablings(ErrorCode::permission_denied, file, std::strerror(errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return unknown_disablings(ErrorCode::failed, file, std::strerror(errno));
  const bool trusted = status.st_uid == 0 || status.st_uid == ::geteuid();
  if (!S_ISREG(status.st_mode) || !trusted || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return FileWords{
        {}, fmt::format("{} is ignored: it is not root's nor your own, or others may write to it", file.string())};
  const auto text = read_descriptor(fd.get(), file.string(), kLargestDisablingFile);
  if (!text) return unknown_disablings(text.error().code, file, text.error().message);
  GPUWARDEN_TRY(auto disabled, parse_disablings(*text, file, status.st_uid == 0));
  return FileWords{std::move(disabled), ""};
}

Result<void> write_words(const fs::path& folder, const std::vector<Disabling>& disabled) {
  nlohmann::json list = nlohmann::json::array();
  for (const Disabling& one : disabled) list.push_back(facts::to_json(one));
  const nlohmann::json json{{"schema", facts::kJsonSchema}, {"disabled", list}};
  const fs::path file = folder / kDisablingFile;
  GPUWARDEN_CHECK(
      write_file_atomically(file, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", 0644));
  // Root's word holds for all, who must be able to read it whatever root's umask is.
  std::error_code error;
  if (is_root()) fs::permissions(file, fs::perms(0644), error);
  if (error) return fail(ErrorCode::failed, fmt::format("{}: {}", file.string(), error.message()));
  return {};
}

/// Makes the folder, and keeps other writers out while it lives.
Result<UniqueFd> lock_folder(const fs::path& folder) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error)
    return fail(error == std::errc::permission_denied ? ErrorCode::permission_denied : ErrorCode::failed,
                fmt::format("cannot make {}: {}", folder.string(), error.message()));
  if (made && is_root()) fs::permissions(folder, fs::perms(0755), error);
  const fs::path lock = folder / ".disabled.lock";
  UniqueFd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail(ErrorCode::permission_denied, fmt::format("{}: {}", lock.string(), std::strerror(errno)));
  // Nobody else can open it, and who has it writes a small file.
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail(ErrorCode::failed, fmt::format("{}: {}", lock.string(), std::strerror(errno)));
  }
  return fd;
}

bool has_uuid(const std::vector<Uuid>& uuids, const Uuid& uuid) {
  return std::ranges::find(uuids, uuid) != uuids.end();
}

const fs::path& folder_of_caller(const DisablingPlaces& places) {
  return is_root() || places.own.empty() ? places.everybody : places.own;
}

}  // namespace

DisablingPlaces disabling_places(const Environment& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  if (const std::string both = value("GPUWARDEN_STATE_DIR"); !both.empty()) return {both, both};
  DisablingPlaces places;
  if (is_root()) return places;
  if (const std::string state = value("XDG_STATE_HOME"); state.starts_with('/'))
    places.own = fs::path(state) / "gpuwarden";
  else if (const std::string home = value("HOME"); !home.empty())
    places.own = fs::path(home) / ".local/state/gpuwarden";
  return places;
}

Result<Disablings::View> Disablings::read() const {
  View view;
  std::vector<fs::path> folders{places_.everybody};
  if (!places_.own.empty() && places_.own != places_.everybody) folders.push_back(places_.own);
  for (const fs::path& folder : folders) {
    GPUWARDEN_TRY(FileWords words, read_words(folder));
    if (!words.warning.empty()) view.warnings.push_back(std::move(words.warning));
    for (Disabling& one : words.disabled) {
      const bool known = std::ranges::find(view.disabled, one.uuid, &Disabling::uuid) != view.disabled.end();
      if (!known) view.disabled.push_back(std::move(one));
    }
  }
  return view;
}

Result<void> Disablings::disable(const std::vector<Uuid>& uuids, const std::string& reason, const std::string& by,
                                 const Clock& clock) const {
  if (trim(reason).empty())
    return fail(ErrorCode::invalid_argument, "a GPU is disabled for a reason", "--reason 'fan is loud, ticket 4711'");
  const fs::path& folder = folder_of_caller(places_);
  GPUWARDEN_TRY(const UniqueFd lock, lock_folder(folder));
  GPUWARDEN_TRY(FileWords words, read_words(folder));
  std::erase_if(words.disabled, [&](const Disabling& one) { return has_uuid(uuids, one.uuid); });
  for (const Uuid& uuid : uuids) {
    words.disabled.push_back(
        {uuid, std::string(trim(reason)), by.empty() ? name_of_caller() : by, is_root(), clock.wall_now()});
  }
  return write_words(folder, words.disabled);
}

Result<std::vector<Uuid>> Disablings::enable(const std::vector<Uuid>& uuids) const {
  const fs::path& folder = folder_of_caller(places_);
  GPUWARDEN_TRY(const View before, read());
  for (const Disabling& one : before.disabled) {
    if (!has_uuid(uuids, one.uuid) || !one.for_everybody || is_root()) continue;
    return fail(ErrorCode::permission_denied,
                fmt::format("{} is disabled for everybody by {}: {}", one.uuid.value, one.by, one.reason),
                "root puts it back: sudo gpuwarden enable " + one.uuid.value);
  }
  const bool any =
      std::ranges::any_of(before.disabled, [&](const Disabling& one) { return has_uuid(uuids, one.uuid); });
  if (!any) return std::vector<Uuid>{};
  GPUWARDEN_TRY(const UniqueFd lock, lock_folder(folder));
  GPUWARDEN_TRY(FileWords words, read_words(folder));
  std::vector<Uuid> enabled;
  std::erase_if(words.disabled, [&](const Disabling& one) {
    if (!has_uuid(uuids, one.uuid)) return false;
    enabled.push_back(one.uuid);
    return true;
  });
  GPUWARDEN_CHECK(write_words(folder, words.disabled));
  return enabled;
}

}  // namespace gpuwarden::lease
