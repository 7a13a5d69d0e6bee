// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/disablings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/state_files.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;
using facts::Disabling;

constexpr const char* kDisablingFile = "disabled.json";
constexpr const char* kDisablingLock = ".disabled.lock";
constexpr std::size_t kLargestDisablingFile = std::size_t{4} << 20U;

bool is_root() { return ::geteuid() == 0; }

std::unexpected<Error> unknown_disablings(ErrorCode code, const fs::path& file, const std::string& why) {
  return fail(code, fmt::format("{}: {}; which GPUs are disabled is unknown", file.string(), why),
              fmt::format("correct the file, or remove it to enable all GPUs: rm {}", file.string()));
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
  if (!facts::has_own_schema(json))
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
  auto state = read_state_file(file, kLargestDisablingFile);
  if (!state) return unknown_disablings(state.error().code, file, state.error().message);
  if (!state->there || !state->warning.empty()) return FileWords{{}, state->warning};
  GPUWARDEN_TRY(auto disabled, parse_disablings(state->text, file, state->of_root));
  return FileWords{std::move(disabled), ""};
}

Result<void> write_words(const fs::path& folder, const std::vector<Disabling>& disabled) {
  nlohmann::json list = nlohmann::json::array();
  for (const Disabling& one : disabled) list.push_back(facts::to_json(one));
  const nlohmann::json json = facts::document({{"disabled", list}});
  return write_state_file(folder / kDisablingFile,
                          json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
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
  GPUWARDEN_TRY(const UniqueFd lock, lock_state_folder(folder, kDisablingLock));
  GPUWARDEN_TRY(FileWords words, read_words(folder));
  std::erase_if(words.disabled, [&](const Disabling& one) { return has_uuid(uuids, one.uuid); });
  for (const Uuid& uuid : uuids) {
    words.disabled.push_back({uuid,
                              std::string(trim(reason)),
                              by.empty() ? user_name(::geteuid()) : by,
                              is_root(),
                              clock.wall_now(),
                              false,
                              {}});
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
  GPUWARDEN_TRY(const UniqueFd lock, lock_state_folder(folder, kDisablingLock));
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
