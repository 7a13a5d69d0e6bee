// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/verdicts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/use.hpp"
#include "lease/state_files.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using VerdictTime = std::chrono::system_clock::time_point;

constexpr const char* kVerdictFile = "verdicts.json";
constexpr const char* kVerdictLock = ".verdicts.lock";
constexpr std::size_t kLargestVerdictFile = std::size_t{4} << 20U;

struct VerdictWords {
  std::vector<Verdict> verdicts;
  std::vector<Acceptance> accepted;
  std::string warning;
};

std::unexpected<Error> unknown_verdicts(ErrorCode code, const fs::path& file, const std::string& why) {
  return fail(code, fmt::format("{}: {}; which GPUs are unfit is unknown", file.string(), why),
              "correct the file, or remove it where you are sure that all GPUs are fit");
}

Json number_json(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); }

std::optional<std::int64_t> number_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>()) : std::nullopt;
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? printable(found->get<std::string>()) : std::string();
}

void add_mark(Json& json, const ResetMark& mark) {
  json["energy_millijoules"] = number_json(mark.energy_millijoules);
  json["ecc_corrected"] = number_json(mark.ecc_corrected);
  json["ecc_uncorrected"] = number_json(mark.ecc_uncorrected);
}

ResetMark mark_from(const Json& json, const Uuid& uuid) {
  return {uuid, number_in(json, "energy_millijoules"), number_in(json, "ecc_corrected"),
          number_in(json, "ecc_uncorrected")};
}

Json json_of(const Verdict& verdict) {
  Json json = facts::to_json(verdict.health);
  json["by"] = verdict.by;
  add_mark(json, verdict.mark);
  return json;
}

std::optional<Verdict> verdict_from(const Json& json, bool of_root) {
  auto health = facts::health_from_json(json);
  if (!health || health->uuid.value.empty() || !facts::lasts_until_reset(*health)) return std::nullopt;
  Verdict verdict{std::move(*health), text_of(json, "by"), of_root, {}};
  verdict.mark = mark_from(json, verdict.health.uuid);
  for (std::string* text : {&verdict.health.reason, &verdict.health.next_step}) *text = printable(*text);
  return verdict;
}

/// An acceptance is written as the health whose causes were accepted.
Json json_of(const Acceptance& acceptance) {
  facts::Health health;
  health.uuid = acceptance.uuid;
  health.reason = acceptance.reason;
  health.since = acceptance.since;
  health.causes = acceptance.causes;
  Json json = facts::to_json(health);
  json["by"] = acceptance.by;
  add_mark(json, acceptance.mark);
  return json;
}

std::optional<Acceptance> acceptance_from(const Json& json, bool of_root) {
  auto health = facts::health_from_json(json);
  if (!health || health->uuid.value.empty()) return std::nullopt;
  return Acceptance{
      health->uuid, printable(health->reason),    text_of(json, "by"), health->since, std::move(health->causes),
      of_root,      mark_from(json, health->uuid)};
}

bool is_list(const Json& json, const char* key) { return json.contains(key) && json[key].is_array(); }

Result<VerdictWords> parse_words(const StateFile& state, const fs::path& file, const std::string& epoch) {
  const Json json = Json::parse(state.text, nullptr, false);
  if (!json.is_object() || !is_list(json, "verdicts") || !is_list(json, "accepted"))
    return unknown_verdicts(ErrorCode::corrupt, file, "damaged");
  if (!facts::has_own_schema(json))
    return unknown_verdicts(ErrorCode::corrupt, file, "written by another version of gpuwarden");
  VerdictWords words;
  if (json.value("driver", Json()) != epoch) return words;
  for (const Json& entry : json["verdicts"]) {
    auto verdict = verdict_from(entry, state.of_root);
    if (!verdict) return unknown_verdicts(ErrorCode::corrupt, file, "damaged");
    words.verdicts.push_back(std::move(*verdict));
  }
  for (const Json& entry : json["accepted"]) {
    auto acceptance = acceptance_from(entry, state.of_root);
    if (!acceptance) return unknown_verdicts(ErrorCode::corrupt, file, "damaged");
    words.accepted.push_back(std::move(*acceptance));
  }
  return words;
}

Result<VerdictWords> read_verdict_words(const fs::path& folder, const std::string& epoch) {
  const fs::path file = folder / kVerdictFile;
  auto state = read_state_file(file, kLargestVerdictFile);
  if (!state) return unknown_verdicts(state.error().code, file, state.error().message);
  if (!state->there || !state->warning.empty()) return VerdictWords{{}, {}, state->warning};
  return parse_words(*state, file, epoch);
}

Result<void> write_verdict_words(const fs::path& folder, const VerdictWords& words, const std::string& epoch) {
  Json verdicts = Json::array();
  for (const Verdict& one : words.verdicts) verdicts.push_back(json_of(one));
  Json accepted = Json::array();
  for (const Acceptance& one : words.accepted) accepted.push_back(json_of(one));
  const Json json = facts::document({{"driver", epoch}, {"verdicts", verdicts}, {"accepted", accepted}});
  return write_state_file(folder / kVerdictFile, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

const fs::path& verdict_folder(const HealthPlaces& places) {
  return ::geteuid() == 0 || places.own.empty() ? places.everybody : places.own;
}

/// Reads the caller's file, changes it and writes it, with other writers kept out.
template <class Change>
Result<void> change_words(const HealthPlaces& places, const Change& change) {
  const fs::path& folder = verdict_folder(places);
  GPUWARDEN_TRY(const UniqueFd lock, lock_state_folder(folder, kVerdictLock));
  const std::string epoch = places.current_epoch();
  GPUWARDEN_TRY(VerdictWords words, read_verdict_words(folder, epoch));
  change(words);
  return write_verdict_words(folder, words, epoch);
}

bool is_of(const Verdict& verdict, const Uuid& uuid) { return verdict.health.uuid == uuid; }

}  // namespace

std::string driver_epoch(const fs::path& sys_root, const fs::path& proc_root) {
  // The kernel numbers what it shows in /sys anew each time that a module is loaded.
  struct stat module{};
  const bool loaded = ::stat((sys_root / "module/nvidia").c_str(), &module) == 0;
  return fmt::format("{}/{}", read_line(proc_root / "sys/kernel/random/boot_id").value_or(""),
                     loaded ? std::to_string(module.st_ino) : "");
}

bool accepts(const Acceptance& acceptance, const facts::HealthCause& cause) {
  return std::ranges::any_of(acceptance.causes, [&](const facts::HealthCause& one) {
    return one.id == cause.id && (!cause.until_reset || one.reason == cause.reason);
  });
}

bool is_accepted(std::span<const Acceptance> accepted, const facts::Health& health) {
  return std::ranges::any_of(accepted, [&](const Acceptance& one) {
    return one.uuid == health.uuid && health.since <= one.since && !health.causes.empty() &&
           std::ranges::all_of(health.causes, [&](const facts::HealthCause& cause) { return accepts(one, cause); });
  });
}

ResetMark reset_mark_of(const facts::GpuRecord& record) {
  const auto count = [](const auto& value) { return value ? std::optional(value->value) : std::nullopt; };
  const facts::GpuSample& sample = record.sample;
  return {facts::identity_of(record), count(sample.energy), count(sample.ecc_corrected_volatile),
          count(sample.ecc_uncorrected_volatile)};
}

bool was_reset_since(const ResetMark& before, const ResetMark& now) {
  const auto fell = [](const auto& old, const auto& value) { return old && value && *value < *old; };
  return fell(before.energy_millijoules, now.energy_millijoules) || fell(before.ecc_corrected, now.ecc_corrected) ||
         fell(before.ecc_uncorrected, now.ecc_uncorrected);
}

const Acceptance* find_acceptance(std::span<const Acceptance> accepted, const facts::GpuRecord& record) {
  const ResetMark now = reset_mark_of(record);
  const Acceptance* last = nullptr;
  for (const Acceptance& one : accepted) {
    if (one.uuid != now.uuid || was_reset_since(one.mark, now)) continue;
    if (last == nullptr || one.since > last->since) last = &one;
  }
  return last;
}

std::string describe_acceptance(const Acceptance& acceptance, VerdictTime now) {
  std::vector<std::string> causes;
  for (const facts::HealthCause& cause : acceptance.causes) {
    if (std::ranges::find(causes, cause.reason) == causes.end()) causes.push_back(cause.reason);
  }
  return fmt::format("enabled in spite of: {} (by {}, {}{}{})", fmt::join(causes, "; "), acceptance.by,
                     facts::how_long_ago(now - acceptance.since), acceptance.reason.empty() ? "" : ": ",
                     acceptance.reason);
}

Result<VerdictView> read_verdicts(const HealthPlaces& places) {
  VerdictView view;
  std::vector<fs::path> folders{places.everybody};
  if (!places.own.empty() && places.own != places.everybody) folders.push_back(places.own);
  const std::string epoch = places.current_epoch();
  for (const fs::path& folder : folders) {
    GPUWARDEN_TRY(VerdictWords words, read_verdict_words(folder, epoch));
    if (!words.warning.empty()) view.warnings.push_back(std::move(words.warning));
    for (Verdict& one : words.verdicts) {
      const bool known = std::ranges::any_of(view.verdicts, [&](const auto& v) { return is_of(v, one.health.uuid); });
      if (!known) view.verdicts.push_back(std::move(one));
    }
    for (Acceptance& one : words.accepted) view.accepted.push_back(std::move(one));
  }
  return view;
}

Result<void> keep_verdicts(const HealthPlaces& places, std::span<const Verdict> unfit, std::span<const Uuid> fit) {
  return change_words(places, [&](VerdictWords& words) {
    std::erase_if(words.verdicts, [&](const Verdict& old) {
      return std::ranges::find(fit, old.health.uuid) != fit.end() ||
             std::ranges::any_of(unfit, [&](const Verdict& one) { return is_of(one, old.health.uuid); });
    });
    words.verdicts.insert(words.verdicts.end(), unfit.begin(), unfit.end());
  });
}

/// Those of the causes that it does not accept already.
static void also_accept(Acceptance& acceptance, const std::vector<facts::HealthCause>& causes) {
  std::ranges::copy_if(causes, std::back_inserter(acceptance.causes),
                       [&](const facts::HealthCause& cause) { return !accepts(acceptance, cause); });
}

Result<void> accept(const HealthPlaces& places, std::span<const Acceptance> accepted) {
  return change_words(places, [&](VerdictWords& words) {
    for (const Acceptance& one : accepted) {
      std::erase_if(words.verdicts, [&](const Verdict& old) { return is_of(old, one.uuid); });
      // What was accepted before stays so.
      Acceptance whole = one;
      for (const Acceptance& old : words.accepted) {
        if (old.uuid == one.uuid) also_accept(whole, old.causes);
      }
      std::erase_if(words.accepted, [&](const Acceptance& old) { return old.uuid == one.uuid; });
      words.accepted.push_back(std::move(whole));
    }
  });
}

}  // namespace gpuwarden::lease
