// SPDX-License-Identifier: Apache-2.0
#include "probe/holders.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/proc.hpp"

namespace gpuwarden::probe {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// More of a command line shows nowhere, and many of them have to fit into one message.
constexpr std::size_t kLongestName = 4096;

/// The links are only read, never followed: a file on a network that hangs must not hang the scan.
std::vector<std::uint32_t> open_minors(const fs::path& fd_folder) {
  std::vector<std::uint32_t> minors;
  for (const fs::path& descriptor : list_directory(fd_folder)) {
    std::error_code unreadable;
    const auto minor = minor_of(fs::read_symlink(descriptor, unreadable).native());
    if (minor && std::ranges::find(minors, *minor) == minors.end()) minors.push_back(*minor);
  }
  std::ranges::sort(minors);
  return minors;
}

bool lists(const facts::GpuRecord& record, Pid pid) {
  return record.processes &&
         std::ranges::find(*record.processes, pid, &facts::GpuProcess::pid) != record.processes->end();
}

}  // namespace

std::optional<std::uint32_t> minor_of(std::string_view link) {
  constexpr std::string_view kDevice = "/dev/nvidia";
  constexpr std::int64_t kMost = 0xFFFFF;
  if (!link.starts_with(kDevice)) return std::nullopt;
  link.remove_prefix(kDevice.size());
  const auto number = link.starts_with('-') ? std::nullopt : parse_integer(link);
  if (!number || *number > kMost) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::vector<Holder> find_holders(const fs::path& proc_root, const std::vector<fs::path>& proc_roots) {
  std::vector<Holder> holders;
  for (const fs::path& folder : list_directory(proc_root)) {
    const auto pid = parse_integer(folder.filename().native());
    if (!pid || *pid <= 0) continue;
    auto minors = open_minors(folder / "fd");
    if (minors.empty() || read_line(folder / "comm") == kChildName) continue;
    holders.push_back({{.pid = Pid{static_cast<std::int32_t>(*pid)}, .listed = false}, std::move(minors)});
    name_process(proc_roots, holders.back().process);
  }
  std::ranges::sort(holders, {}, [](const Holder& holder) { return holder.process.pid; });
  return holders;
}

Json to_json(const std::vector<Holder>& holders) {
  Json list = Json::array();
  for (const Holder& holder : holders) {
    facts::GpuProcess process = holder.process;
    if (process.command && process.command->size() > kLongestName) process.command->resize(kLongestName);
    list.push_back({{"process", facts::to_json(process)}, {"minors", holder.minors}});
  }
  return list;
}

std::vector<Holder> holders_from_json(const Json& json) {
  std::vector<Holder> holders;
  for (const Json& holder : json) {
    holders.push_back({facts::gpu_process_from_json(holder["process"]).value_or(facts::GpuProcess{}),
                       holder["minors"].get<std::vector<std::uint32_t>>()});
  }
  return holders;
}

void drop_ended(const fs::path& proc_root, std::vector<Holder>& holders) {
  std::erase_if(holders, [&](const Holder& holder) {
    std::error_code error;
    return fs::status(proc_root / std::to_string(holder.process.pid.value), error).type() == fs::file_type::not_found;
  });
}

void add_holders(const std::vector<Holder>& holders, facts::Snapshot& snapshot) {
  for (const Holder& holder : holders) {
    for (facts::GpuRecord& record : snapshot.gpus) {
      const auto minor = record.gpu.minor_number;
      const bool has_it =
          minor && std::ranges::any_of(holder.minors, [&](std::uint32_t n) { return Count(n) == *minor; });
      if (!has_it || record.gpu.vendor != "NVIDIA" || lists(record, holder.process.pid)) continue;
      if (!record.processes) record.processes.emplace();
      record.processes->push_back(holder.process);
    }
  }
}

}  // namespace gpuwarden::probe
