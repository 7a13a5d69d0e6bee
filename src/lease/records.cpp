// SPDX-License-Identifier: Apache-2.0
#include "lease/records.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "lease/lock_file.hpp"

namespace gpuwarden::lease {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRecordCap = 65536;

Json holder_json(const facts::LeaseHolder& holder) {
  return facts::to_json(facts::Lease{Uuid(), false, {holder}})["holders"][0];
}

std::optional<facts::LeaseHolder> holder_from(const Json& json) {
  const auto lease = facts::lease_from_json({{"holders", Json::array({json})}});
  if (!lease || lease->holders.size() != 1) return std::nullopt;
  facts::LeaseHolder holder = lease->holders[0];
  // Written by other users: shown on terminals.
  holder.user = printable(holder.user);
  holder.command = printable(holder.command);
  holder.run_id = printable(holder.run_id);
  holder.orphaned = false;  // the kernel's word alone
  return holder;
}

template <class Visit>
void for_each_record(const std::vector<std::filesystem::path>& files, std::string_view prefix, Visit visit) {
  for (const auto& path : files) {
    const std::string name = path.filename();
    if (name.starts_with(prefix) && name.ends_with(".json")) visit(path);
  }
}

}  // namespace

void write_record(const std::filesystem::path& path, const facts::LeaseHolder& holder) {
  const std::string text = holder_json(holder).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (write_file_atomically(path, text + "\n")) ::chmod(path.c_str(), 0644);
}

std::vector<Record> read_records(const std::filesystem::path& directory, std::string_view prefix) {
  std::vector<Record> records;
  for_each_record(list_directory(directory), prefix, [&](const std::filesystem::path& path) {
    // The owner of the very file that is read, not of what the name stands for a moment later.
    const auto fd = open_existing_lock_file(path);
    struct stat info{};
    if (!fd || ::fstat(fd->get(), &info) != 0) return;
    const auto text = read_descriptor(fd->get(), path.string(), kRecordCap);
    const Json json = text ? Json::parse(*text, nullptr, false) : Json();
    if (!json.is_object()) return;
    if (auto holder = holder_from(json)) records.push_back({info.st_uid, std::move(*holder)});
  });
  return records;
}

void remove_records(const std::filesystem::path& directory, std::string_view prefix) {
  remove_records(list_directory(directory), prefix);
}

void remove_records(const std::vector<std::filesystem::path>& files, std::string_view prefix) {
  for_each_record(files, prefix, [](const std::filesystem::path& path) { ::unlink(path.c_str()); });
}

facts::LeaseHolder describe(const Process& process, const std::vector<Record>& records) {
  facts::LeaseHolder holder{process.pid, user_name(process.uid), "", process.command, std::nullopt};
  for (const Record& record : records) {
    if (record.owner != process.uid) continue;
    const bool is_own = record.holder.pid == process.pid;
    if (!is_own && holder.since) continue;
    holder.run_id = record.holder.run_id;
    holder.since = record.holder.since;
    if (!is_own) continue;
    if (!record.holder.command.empty()) holder.command = record.holder.command;
    return holder;
  }
  return holder;
}

std::string encode_ticket(const facts::LeaseTicket& ticket, std::int32_t priority) {
  Json candidates = Json::array();
  for (const Uuid& uuid : ticket.candidates) candidates.push_back(uuid.value);
  return Json{
      {"owner", holder_json(ticket.owner)}, {"wants", ticket.wants}, {"candidates", candidates}, {"priority", priority}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<facts::LeaseTicket> decode_ticket(std::string_view text) {
  // Any user can write such a file: nothing in it is taken for granted.
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto field = [&](const char* key) { return json.contains(key) ? json.at(key) : Json(); };
  const auto owner = holder_from(field("owner"));
  const Json wants = field("wants");
  const Json candidates = field("candidates");
  if (!owner || !wants.is_number_unsigned() || !candidates.is_array()) return std::nullopt;
  facts::LeaseTicket ticket{.owner = *owner, .wants = wants.get<std::uint32_t>()};
  for (const Json& uuid : candidates) {
    if (uuid.is_string()) ticket.candidates.emplace_back(uuid.get<std::string>());
  }
  return ticket;
}

std::int32_t priority_of_ticket(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  const Json priority = json.is_object() && json.contains("priority") ? json.at("priority") : Json();
  if (!priority.is_number_integer()) return 0;
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(priority.get<std::int64_t>(), -kMostPriority, kMostPriority));
}

}  // namespace gpuwarden::lease
